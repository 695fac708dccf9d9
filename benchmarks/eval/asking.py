"""From cases to answers: the package's own stages, worker, prompts and parsers; no Ray jobs."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.eval.cases import DecideCase
from memorypipe.cells.actions import Action, fallback_actions
from memorypipe.cli.model_choice import LocalModel, ModelChoice
from memorypipe.expressions.build_action import DecideStage, DecideWork, resolved_actions
from memorypipe.expressions.extract import ExtractStage
from memorypipe.llm.spec import OFFLINE_URL, ModelSpec, Prices
from memorypipe.llm.stage import Outcome
from memorypipe.llm.types import ExtractTask
from memorypipe.llm.worker import Worker

__all__ = [
    "Decision",
    "Extraction",
    "ask_decisions",
    "ask_extractions",
    "priced",
    "served",
    "spent",
]


@dataclass(frozen=True, kw_only=True)
class Extraction:
    """What a model found in one transcript.

    Attributes:
        items: The facts; None where the extraction failed.
        spent: `calls`, `tokens_in`, `tokens_out`, and `turns` of the transcript.
    """

    items: Sequence[dict[str, Any]] | None
    spent: Counter[str]


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What a model decided about the facts of one case.

    Attributes:
        actions: One per fact; the fallback action where no valid one came.
        failed: Places of the facts that fell back.
        spent: `calls`, `tokens_in`, `tokens_out`, and `decided` facts.
    """

    actions: tuple[Action, ...]
    failed: frozenset[int]
    spent: Counter[str]


@contextmanager
def served(choice: ModelChoice, spec: ModelSpec) -> Iterator[ModelSpec]:
    """Have the model of a spec running: a local one is started, any other is there already.

    Args:
        choice: The chosen model.
        spec: How it is called; of a local model without its address yet.
    """
    if not isinstance(choice, LocalModel):
        yield spec
        return
    from memorypipe.llm.local import LocalServer  # noqa: PLC0415  # needs an extra

    with LocalServer(choice.path) as server:
        params = {**server.params, **spec.params}
        yield replace(spec, base_url=server.base_url, model=server.model, params=params)


def priced(spec: ModelSpec) -> Prices | None:
    """Give the prices of a spec: the rules cost nothing, others what the spec says."""
    if spec.base_url == OFFLINE_URL:
        return Prices(per_million_in=0, per_million_out=0)
    return spec.prices


def ask_extractions(
    worker: Worker, tasks: Sequence[ExtractTask], *, on_done: Callable[[], None] = lambda: None
) -> list[Extraction]:
    """Have a model extract the facts of transcripts.

    Args:
        worker: Of the model.
        tasks: The transcripts.
        on_done: Called after each, on another thread.

    Raises:
        EndpointError: The endpoint cannot serve the job at all.
    """
    outcomes = worker.run(ExtractStage(), tasks, on_done=on_done)
    return [
        Extraction(items=outcome.value, spent=spent(outcome, turns=len(task.turns)))
        for task, outcome in zip(tasks, outcomes, strict=True)
    ]


def ask_decisions(
    worker: Worker, cases: Sequence[DecideCase], *, on_done: Callable[[], None] = lambda: None
) -> list[Decision]:
    """Have a model decide about the facts of cases.

    Args:
        worker: Of the model.
        cases: What it is asked.
        on_done: Called after each, on another thread.

    Raises:
        EndpointError: The endpoint cannot serve the job at all.
    """
    tasks = [DecideWork(facts=case.facts, existing=case.existing) for case in cases]
    outcomes = worker.run(DecideStage(), tasks, on_done=on_done)
    return [_decision(task, outcome) for task, outcome in zip(tasks, outcomes, strict=True)]


def _decision(task: DecideWork, outcome: Outcome[Any]) -> Decision:
    cost = spent(outcome, decided=len(task.facts))
    if outcome.value is None:
        actions = fallback_actions(task.facts, fallback_action="ADD", reason="no reply")
        return Decision(actions=actions, failed=frozenset(range(len(actions))), spent=cost)
    resolved = resolved_actions(task, outcome.value, fallback_action="ADD")
    return Decision(actions=resolved.actions, failed=frozenset(resolved.problems), spent=cost)


def spent(outcome: Outcome[Any], **units: int) -> Counter[str]:
    """Count what an outcome cost, per what it was about."""
    return Counter(
        calls=outcome.attempts,
        tokens_in=outcome.prompt_tokens,
        tokens_out=outcome.completion_tokens,
        **units,
    )
