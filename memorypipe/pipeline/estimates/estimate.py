"""What a run will take in calls, tokens, money and time: the result, and how it is put together."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from memorypipe.llm.spec import OFFLINE_URL, ModelSpec
from memorypipe.pipeline.estimates.behaviour import REPLY_TOKENS, Behaviour, Behaviours
from memorypipe.pipeline.estimates.calibration import Spent
from memorypipe.pipeline.estimates.decisions import GroupModel
from memorypipe.pipeline.estimates.time import Limits, Load, phase_time

__all__ = ["Counts", "Estimate", "Range", "Stage", "put_together"]

Column = np.ndarray[tuple[int], np.dtype[np.float64]]

# Ray's operators have to come up, the windows be written, the plan be laid out and committed; and
# where one process does everything itself.
_START_S = 6.0
_START_ALONE_S = 1.0
# What client and reader work for one call, beside what a rehearsal shows.
_CALL_CPU_S = 0.004


@dataclass(frozen=True, kw_only=True)
class Range:
    """A number that is expected, and the range that it should lie in.

    Attributes:
        low: The least.
        mid: What is expected.
        high: The most.
    """

    low: float
    mid: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a run will take. What the journal knows costs nothing and is left out.

    Attributes:
        conversations: Conversations in the log.
        windows: Windows with something new in them.
        rejected_lines: Log lines that cannot be read.
        journal_hits: Extractions that the journal answers, or another window's equal request.
        calls_extract: Extractions to be paid: exact.
        facts: Facts in all windows, known ones included.
        calls_decide: Decisions to be paid.
        calls: Both.
        tokens_in: Prompt tokens.
        tokens_out: Completion tokens.
        cost: In the currency of the prices; None where a price is missing.
        wall_s: Seconds from start to end.
        longest_scope_calls: Decisions of the heaviest scope, one after the other.
        limit: What the run waits for most: ``"max_concurrency"``, ``"max_qps"``,
            ``"max_tokens_per_minute"``, ``"longest_scope"``, ``"workers"``, or ``"nothing"``.
        model: The models.
        tokenizer: What counted the prompts: a tokenizer's name, ``"estimate"`` or ``"given"``.
        measured_calls: Replies that `behaviour` was measured on; 0: it is assumed.
        behaviour: What is expected of the model.
        spent: What calibration took.
    """

    conversations: int
    windows: int
    rejected_lines: int
    journal_hits: int
    calls_extract: int
    facts: Range
    calls_decide: Range
    calls: Range
    tokens_in: Range
    tokens_out: Range
    cost: Range | None
    wall_s: Range
    longest_scope_calls: Range
    limit: str
    model: str
    tokenizer: str
    measured_calls: int
    behaviour: Behaviour
    spent: Spent

    def to_dict(self) -> dict[str, Any]:
        """Give the estimate as JSON values: what is expected, then `low` and `high`."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        ranges = {name: value for name, value in values.items() if isinstance(value, Range)}
        plain = {name: value for name, value in values.items() if name not in ranges}
        ends = {
            end: {name: _shown(name, getattr(r, end)) for name, r in ranges.items()}
            for end in ("low", "high")
        }
        mids = {name: _shown(name, r.mid) for name, r in ranges.items()}
        nested = {"behaviour": asdict(self.behaviour), "spent": asdict(self.spent)}
        return {"status": "estimated", **plain, **mids, **nested, **ends}


def _shown(name: str, value: float) -> float:
    return round(value, 6 if name == "cost" else 1) if name in {"cost", "wall_s"} else round(value)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """How one stage is called.

    Attributes:
        spec: Of the model.
        workers: Worker processes.
    """

    spec: ModelSpec
    workers: int

    @property
    def is_offline(self) -> bool:
        """Whether the rule-based model answers: no tokens, no price, no waiting."""
        return self.spec.base_url == OFFLINE_URL

    def limits(self) -> Limits:
        """Give the limits of all workers together."""
        spec = self.spec
        times = self.workers if spec.rate_scope == "worker" else 1
        tokens = spec.max_tokens_per_minute
        return Limits(
            concurrency=spec.concurrency * times,
            max_qps=None if spec.max_qps is None else spec.max_qps * times,
            max_tokens_per_minute=None if tokens is None else tokens * times,
            workers=self.workers,
        )


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What is counted before the model's behaviour comes in.

    Attributes:
        calls_extract: Extractions to be paid.
        prompt_tokens: Of these, as counted here.
        new_tokens: Estimated tokens of new messages in them.
        known_facts: Facts that are known already.
        sure: Of scopes whose facts are all known: decisions, their prompt tokens, decided facts.
        sure_longest: The most decisions of one such scope.
        scopes: Further scopes: tokens whose facts are unknown, known facts, memories before.
    """

    calls_extract: int
    prompt_tokens: int
    new_tokens: float
    known_facts: float
    sure: tuple[float, float, float]
    sure_longest: float
    scopes: tuple[Column, Column, Column]


@dataclass(frozen=True, kw_only=True)
class _Totals:
    facts: float
    calls_decide: float
    calls: float
    tokens_in: float
    tokens_out: float
    cost: float | None
    wall_s: float
    longest_scope_calls: float
    limit: str


def put_together(  # noqa: PLR0913  # what was counted, what is expected, how it is called
    counts: Counts,
    model: GroupModel,
    behaviours: Behaviours,
    *,
    extract: Stage,
    decide: Stage,
    is_one: bool,
    **told: Any,
) -> Estimate:
    """Make the estimate.

    Args:
        counts: What is counted.
        model: What groups of facts take.
        behaviours: What is expected of the model.
        extract: The first stage.
        decide: The second.
        is_one: Whether one process asks both, at the same time.
        **told: Further attributes of `Estimate`.
    """
    low, mid, high = (
        _totals(counts, model, behaviour, (extract, decide), is_one=is_one)
        for behaviour in (behaviours.low, behaviours.mid, behaviours.high)
    )

    def span(read: Callable[[_Totals], float]) -> Range:
        ends = sorted((read(low), read(mid), read(high)))
        return Range(low=ends[0], mid=read(mid), high=ends[2])

    return Estimate(
        calls_extract=counts.calls_extract,
        facts=span(lambda t: t.facts),
        calls_decide=span(lambda t: t.calls_decide),
        calls=span(lambda t: t.calls),
        tokens_in=span(lambda t: t.tokens_in),
        tokens_out=span(lambda t: t.tokens_out),
        cost=None if mid.cost is None else span(lambda t: t.cost or 0.0),
        wall_s=span(lambda t: t.wall_s),
        longest_scope_calls=span(lambda t: t.longest_scope_calls),
        limit=mid.limit,
        model=" + ".join(dict.fromkeys((extract.spec.model, decide.spec.model))),
        behaviour=behaviours.mid,
        **told,
    )


def _totals(
    counts: Counts,
    model: GroupModel,
    behaviour: Behaviour,
    stages: tuple[Stage, Stage],
    *,
    is_one: bool,
) -> _Totals:
    extract, decide = stages
    unknown_tokens, known_facts, memories = counts.scopes
    rate = behaviour.facts_per_1000_tokens / 1e3
    scopes = model.scopes(known_facts + rate * unknown_tokens, memories)
    calls, prompt, decided = (
        sure + float(scopes[name].sum())
        for sure, name in zip(counts.sure, ("calls", "prompt_tokens", "decided"), strict=True)
    )
    new_facts = rate * counts.new_tokens
    first = _Stage(
        stage=extract,
        calls=counts.calls_extract,
        tokens_in=counts.prompt_tokens * behaviour.prompt_scale,
        tokens_out=REPLY_TOKENS * counts.calls_extract + behaviour.tokens_per_fact * new_facts,
        cpu_s=_CALL_CPU_S,
    )
    second = _Stage(
        stage=decide,
        calls=calls,
        tokens_in=prompt * behaviour.prompt_scale,
        tokens_out=REPLY_TOKENS * calls + behaviour.tokens_per_action * decided,
        cpu_s=_CALL_CPU_S + model.cpu_s,
        longest=max(float(scopes["calls"].max(initial=0.0)), counts.sure_longest),
    )
    decide_s = behaviour.decide_latency_s
    loads = (
        first.load(behaviour.latency_s, behaviour),
        second.load(behaviour.latency_s if decide_s is None else decide_s, behaviour),
    )
    paces = [phase_time(each.limits(), load) for each, load in zip(stages, loads, strict=True)]
    if is_one:
        paces = [phase_time(extract.limits(), *loads)]
    costs = [first.cost(), second.cost()]
    start_s = _START_ALONE_S if is_one else _START_S
    return _Totals(
        facts=counts.known_facts + new_facts,
        calls_decide=calls,
        calls=counts.calls_extract + calls,
        tokens_in=first.paid_in + second.paid_in,
        tokens_out=first.paid_out + second.paid_out,
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
        wall_s=start_s + sum(pace.wall_s for pace in paces),
        longest_scope_calls=second.longest,
        limit=max(paces, key=lambda pace: pace.wall_s).limit,
    )


@dataclass(frozen=True, kw_only=True)
class _Stage:
    """What one stage takes."""

    stage: Stage
    calls: float
    tokens_in: float
    tokens_out: float
    cpu_s: float
    longest: float = 1.0

    @property
    def paid_in(self) -> float:
        return 0.0 if self.stage.is_offline else self.tokens_in

    @property
    def paid_out(self) -> float:
        return 0.0 if self.stage.is_offline else self.tokens_out

    def cost(self) -> float | None:
        """Give what it costs; None where that is not known."""
        prices = self.stage.spec.prices
        if self.stage.is_offline or not self.calls:
            return 0.0
        return None if prices is None else prices.cost(self.tokens_in, self.tokens_out)

    def load(self, latency_s: float, behaviour: Behaviour) -> Load:
        """Say what there is to do."""
        each = self.tokens_out / self.calls if self.calls else 0.0
        waits_s = latency_s + behaviour.latency_per_token_s * each
        return Load(
            calls=self.calls,
            tokens=self.paid_in + self.paid_out,
            latency_s=0.0 if self.stage.is_offline else waits_s,
            cpu_s=self.cpu_s,
            longest_chain=self.longest,
            chains=self.calls / self.longest if self.longest > 1 else 0.0,
        )
