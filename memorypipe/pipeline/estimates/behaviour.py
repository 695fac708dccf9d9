"""How a model behaves, as far as it decides what a run takes: assumed, or measured with a range."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

__all__ = [
    "ASSUMED",
    "Behaviour",
    "Behaviours",
    "MeasuredDecision",
    "MeasuredExtraction",
    "assumed",
    "measure_decisions",
    "measure_extractions",
]

#: Tokens of a reply that holds nothing.
REPLY_TOKENS = 6

_RESAMPLES = 1_000
_QUANTILES = (0.05, 0.95)
# How far a model may be from what is assumed of it.
_UNSURE = 2.0
_UNSURE_TOKENS = 1.4


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """What is expected of a model.

    Attributes:
        facts_per_1000_tokens: Facts that 1,000 estimated tokens of new transcript give.
        tokens_per_fact: Completion tokens that a fact takes in an extraction.
        tokens_per_action: Completion tokens that a fact takes in a decision.
        add_share: Share of the facts that become a memory of their own.
        prompt_scale: Prompt tokens as the endpoint counts them, over those counted here.
        latency_s: Seconds of a call, for the extraction.
        decide_latency_s: The same for a decision; None takes `latency_s`.
        latency_per_token_s: Further seconds per completion token, in both.
    """

    facts_per_1000_tokens: float
    tokens_per_fact: float
    tokens_per_action: float
    add_share: float
    prompt_scale: float = 1.0
    latency_s: float = 2.0
    decide_latency_s: float | None = None
    latency_per_token_s: float = 0.02


#: Taken where nothing is measured. The rule-based model keeps 3 memories of 1,000 tokens of LoCoMo,
#: 4 of the English and 8 of the Chinese MemoryBank; the rest is a guess at tuned models.
ASSUMED = Behaviour(
    facts_per_1000_tokens=8.0,
    tokens_per_fact=36.0,
    tokens_per_action=42.0,
    add_share=0.85,
)


@dataclass(frozen=True, kw_only=True)
class Behaviours:
    """The middle of what is expected, and a range around it.

    Attributes:
        low: Where a run takes least.
        mid: What is expected.
        high: Where a run takes most.
    """

    low: Behaviour
    mid: Behaviour
    high: Behaviour

    def change(self, **values: float | None) -> "Behaviours":
        """Give the same with values that are known for sure."""
        return Behaviours(
            low=replace(self.low, **values),  # type: ignore[arg-type]  # the caller's names
            mid=replace(self.mid, **values),  # type: ignore[arg-type]  # as above
            high=replace(self.high, **values),  # type: ignore[arg-type]  # as above
        )


@dataclass(frozen=True, kw_only=True)
class MeasuredExtraction:
    """One extraction that was made.

    Attributes:
        new_tokens: Estimated tokens of the new messages of the window.
        facts: Facts that came.
        counted_tokens: Prompt tokens as counted here.
        prompt_tokens: As the endpoint counted them; 0 where it did not say.
        completion_tokens: Likewise.
        latency_s: Seconds of the call.
    """

    new_tokens: float
    facts: float
    counted_tokens: float
    prompt_tokens: float
    completion_tokens: float
    latency_s: float


@dataclass(frozen=True, kw_only=True)
class MeasuredDecision:
    """One decision that was made.

    Attributes:
        facts: Facts that it was about.
        added: Memories that it adds.
        completion_tokens: As the endpoint counted them; 0 where it did not say.
        latency_s: Seconds of the call.
    """

    facts: float
    added: float
    completion_tokens: float
    latency_s: float


def assumed() -> Behaviours:
    """Give what is taken where nothing is measured, with a wide range.

    Example:
        >>> assumed().high.facts_per_1000_tokens / assumed().low.facts_per_1000_tokens
        4.0
    """
    return Behaviours(
        low=_scaled(1 / _UNSURE, 1 / _UNSURE_TOKENS),
        mid=ASSUMED,
        high=_scaled(_UNSURE, _UNSURE_TOKENS),
    )


def _scaled(facts: float, tokens: float) -> Behaviour:
    return replace(
        ASSUMED,
        facts_per_1000_tokens=ASSUMED.facts_per_1000_tokens * facts,
        tokens_per_fact=ASSUMED.tokens_per_fact * tokens,
        tokens_per_action=ASSUMED.tokens_per_action * tokens,
        prompt_scale=1.1 if tokens > 1 else 1 / 1.1,
        latency_s=ASSUMED.latency_s * tokens,
        latency_per_token_s=ASSUMED.latency_per_token_s * facts,
    )


def measure_extractions(
    behaviours: Behaviours, calls: Sequence[MeasuredExtraction], *, seed: int
) -> Behaviours:
    """Replace what is assumed of extractions by what was measured, with a range of 5 to 95 %.

    Args:
        behaviours: What is assumed.
        calls: At least one; a random sample of the windows.
        seed: Of the resampling.

    Example:
        >>> call = MeasuredExtraction(new_tokens=500, facts=4, counted_tokens=900,
        ...                           prompt_tokens=990, completion_tokens=126, latency_s=1.5)
        >>> measured = measure_extractions(assumed(), [call, call], seed=0).mid
        >>> measured.facts_per_1000_tokens, measured.tokens_per_fact, measured.prompt_scale
        (8.0, 30.0, 1.1)
    """
    new, facts, counted, prompt, completion, latency = np.array(
        [
            (
                c.new_tokens,
                c.facts,
                c.counted_tokens,
                c.prompt_tokens,
                c.completion_tokens,
                c.latency_s,
            )
            for c in calls
        ]
    ).T
    told = prompt > 0
    estimates = {
        "facts_per_1000_tokens": _range(lambda n: 1e3 * _ratio(facts[n], new[n]), len(calls), seed),
        "latency_s": _range(lambda n: float(latency[n].mean()), len(calls), seed),
    }
    if told.any():
        counted, prompt, completion, facts = (a[told] for a in (counted, prompt, completion, facts))
        count = int(told.sum())
        estimates["prompt_scale"] = _range(lambda n: _ratio(prompt[n], counted[n]), count, seed)
        if facts.sum():
            estimates["tokens_per_fact"] = _range(
                lambda n: _ratio(completion[n] - REPLY_TOKENS, facts[n]), count, seed
            )
    return _put(behaviours, estimates, latency_per_token_s=0.0)


def measure_decisions(
    behaviours: Behaviours, calls: Sequence[MeasuredDecision], *, seed: int
) -> Behaviours:
    """Replace what is assumed of decisions by what was measured; arguments as above."""
    facts, added, completion, latency = np.array(
        [(c.facts, c.added, c.completion_tokens, c.latency_s) for c in calls]
    ).T
    share = _ratio(added, facts)
    estimates = {"decide_latency_s": _range(lambda n: float(latency[n].mean()), len(calls), seed)}
    if completion.any():
        estimates["tokens_per_action"] = _range(
            lambda n: _ratio(completion[n] - REPLY_TOKENS, facts[n]), len(calls), seed
        )
    return _put(behaviours, estimates, add_share=share)


Selection = np.ndarray[tuple[int], np.dtype[np.int64]]


def _ratio(
    part: "np.ndarray[tuple[int], np.dtype[np.float64]]",
    whole: "np.ndarray[tuple[int], np.dtype[np.float64]]",
) -> float:
    total = float(whole.sum())
    return max(float(part.sum()), 0.0) / total if total else 0.0


def _range(
    measure: Callable[[Selection], float], count: int, seed: int
) -> tuple[float, float, float]:
    """Give a quantity and its range, by drawing the sample anew from itself."""
    dice = np.random.default_rng(seed)
    again = [measure(dice.integers(0, count, count)) for _ in range(_RESAMPLES)]
    middle = measure(np.arange(count))
    low, high = (float(value) for value in np.quantile(again, _QUANTILES))
    return (min(low, middle), middle, max(high, middle))


def _put(
    behaviours: Behaviours, estimates: dict[str, tuple[float, float, float]], **sure: float
) -> Behaviours:
    low, mid, high = ({name: r[n] for name, r in estimates.items()} for n in range(3))
    return Behaviours(
        low=replace(behaviours.low, **low, **sure),
        mid=replace(behaviours.mid, **mid, **sure),
        high=replace(behaviours.high, **high, **sure),
    )
