"""`MemoryBuildAction`: what each new fact does to the memories that exist."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from ray.data.expressions import Expr

from memorypipe.cells.actions import (
    FallbackAction,
    Resolved,
    encode_actions,
    fallback_actions,
    resolve_actions,
)
from memorypipe.cells.facts import parse_facts
from memorypipe.cells.memories import parse_existing
from memorypipe.errors import InvalidArgumentError
from memorypipe.expressions.llm_base import LLMExpression
from memorypipe.expressions.results import CellResult
from memorypipe.llm.replies.reply import ReadActions, read_actions
from memorypipe.llm.stage import Outcome, Reading, ReadingStatus
from memorypipe.llm.types import ChatMessage, DecideTask, Existing, Fact, Reply, Request
from memorypipe.prompts.decide import (
    DECIDE_RESPONSE_FORMAT,
    decide_messages,
    decide_own_words,
    decide_prompt_hash,
    decide_system,
)
from memorypipe.prompts.split import split_facts

__all__ = ["DecideStage", "DecideWork", "DecidedActions", "MemoryBuildAction", "resolved_actions"]

_SHOWN_KEYS = ("id", "text", "context")


@dataclass(frozen=True, kw_only=True)
class DecideWork:
    """The facts and memories of one decision.

    Attributes:
        facts: The new facts.
        existing: The memories, as the cell has them.
    """

    facts: Sequence[Fact]
    existing: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class DecidedActions(ReadActions):
    """The actions of a reply that decides every fact of its request.

    Attributes:
        resolved: What they come to, so that it is not worked out again; no fact needed the
            fallback action.
    """

    resolved: Resolved


def resolved_actions(
    task: DecideWork, read: ReadActions, *, fallback_action: FallbackAction
) -> Resolved:
    """Give what `DecideStage` made of a task as one action per fact; see `resolve_actions`.

    Args:
        task: What was asked.
        read: The value of its outcome.
        fallback_action: For facts without a decision that holds.
    """
    if isinstance(read, DecidedActions):
        return read.resolved
    return resolve_actions(task.facts, task.existing, read, fallback_action=fallback_action)


def _texts(work: DecideWork) -> Iterator[str]:
    """All that a request shows of its data."""
    for fact in work.facts:
        yield f"{fact.text} {fact.context or ''}"
    for memory in work.existing:
        yield f"{memory['text']} {memory.get('context') or ''}"


class DecideStage:
    """Asks for one action per fact.

    Args:
        hint: Instructions of the caller; None for the default ones.
        hint_mode: ``"replace"`` or ``"append"``.
    """

    kind = "decide"

    def __init__(self, *, hint: str | None = None, hint_mode: str = "replace") -> None:
        self._system = decide_system(hint=hint, hint_mode=hint_mode)
        self._own_words = decide_own_words(self._system)
        self.prompt_hash = decide_prompt_hash(hint=hint, hint_mode=hint_mode)

    def request(self, task: DecideWork) -> Request:
        """Build the request of some facts against some memories."""
        existing = [_shown(memory) for memory in task.existing]
        return Request(
            messages=decide_messages(task.facts, existing, system=self._system),
            params={"response_format": DECIDE_RESPONSE_FORMAT},
            task=DecideTask(facts=task.facts, existing=existing),
        )

    def read(self, task: DecideWork, reply: Reply) -> Reading[ReadActions]:
        """Read the actions as said; what they mean is judged over the whole row."""
        read = read_actions(reply.content, finish_reason=reply.finish_reason, refusal=reply.refusal)
        status: ReadingStatus = read.status
        error = read.error
        if status == "empty":
            # Every fact needs an action: none at all is no answer.
            status, error = "parse_error", f"there is no action for any of {len(task.facts)} facts"
        value = replace(read, items=tuple([self._without_echo(item, task) for item in read.items]))
        if status == "ok":
            resolved = resolve_actions(task.facts, task.existing, value, fallback_action="NONE")
            if resolved.problems:
                status, error = "incomplete", _told(resolved.problems)
            else:
                value = DecidedActions(**vars(value), resolved=resolved)
        return Reading(
            value=value if status in {"ok", "incomplete", "truncated"} else None,
            status=status,
            error=error,
            dropped_items=read.dropped_items,
            repaired=read.repaired,
        )

    def _without_echo(self, item: dict[str, Any], task: DecideWork) -> dict[str, Any]:
        """Take out a text of the prompt's own, unless a fact or memory really says it."""
        echoed = item["text"] and self._own_words.are_echoed(item["text"], _texts(task))
        return {**item, "text": None} if echoed else item

    def split(self, task: DecideWork) -> tuple[DecideWork, DecideWork] | None:
        """Cut the facts in two; both halves see all memories."""
        halves = split_facts(task.facts)
        if halves is None:
            return None
        first, second = (replace(task, facts=facts) for facts in halves)
        return first, second

    def merge(
        self,
        task: DecideWork,
        first: ReadActions | None,
        second: ReadActions | None,
        whole: ReadActions | None,
    ) -> ReadActions:
        """Join the actions of the two halves under the fact numbers of the whole.

        What a half deletes holds by its own reply, whether or not the others were read to their
        ends: no DELETE of a reply that was not is among the actions that are joined.
        """
        halves = split_facts(task.facts) or (task.facts, ())
        sizes = [len(half) for half in halves]
        said = [*_numbered(first, 0, sizes[0]), *_numbered(second, *sizes)]
        answered = {item["fact"] for item in said}
        kept = _numbered(whole, 0, sum(sizes))
        items = (*said, *(item for item in kept if item["fact"] not in answered))
        good = all(half is not None and half.status == "ok" for half in (first, second))
        return ReadActions(
            items=items,
            dropped_items=sum(half.dropped_items for half in (first, second) if half),
            repaired=sum(half.repaired for half in (first, second) if half),
            complete=True,
            status="ok" if good else "truncated",
            error=None if good else "a part of the facts got no whole reply",
        )


def _shown(memory: Mapping[str, Any]) -> Existing:
    """Give what the prompt shows of a memory."""
    return Existing(
        id=memory["id"],
        text=memory["text"],
        context=memory.get("context"),
        event_time=memory.get("event_time"),
    )


def _numbered(half: ReadActions | None, offset: int, size: int) -> list[dict[str, Any]]:
    """Move the fact numbers of a half to where its facts stand in the whole.

    Numbers that the half does not have are dropped, and what a reply deletes that was not read to
    its end; order counts only where no action has a number and there is one for each fact.
    """
    if half is None:
        return []
    items = tuple([i for i in half.items if half.complete or i["event"] != "DELETE"])
    if all(item["fact"] is None for item in items):
        whole = half.complete and not half.dropped_items and len(items) == size
        items = tuple({**item, "fact": n} for n, item in enumerate(items)) if whole else ()
    return [
        {**item, "fact": offset + item["fact"]}
        for item in items
        if item["fact"] is not None and 0 <= item["fact"] < size
    ]


class MemoryBuildAction(LLMExpression[DecideWork, ReadActions]):
    """Decide ADD, UPDATE, DELETE or NONE for each fact, one model call per row.

    Keyword-only parameters; see `LLMExpression` for those of the model call.

    Args:
        fallback_action: ``"ADD"`` or ``"NONE"``: what a fact gets for which no valid action came.
        **kwargs: As for `LLMExpression`; `hint` replaces the default instructions
            `BUILD_ACTION_HINT`.

    Raises:
        InvalidArgumentError: At construction, for a parameter that cannot work.
        InvalidCellError: For a cell that cannot be read, with its row (``on_invalid="raise"``).
        EndpointError: Where the endpoint cannot serve the job (wrong key, model or address).

    Example:
        >>> decide = MemoryBuildAction(base_url="offline:", model="offline-rules")
        >>> actions = decide(['["Likes tea"]'], ['[{"id": "m1", "text": "likes tea"}]'])
        >>> '"event":"NONE"' in actions[0].as_py()
        True
    """

    _parameters = ("facts", "existing")
    _required = 2

    def __init__(self, *, fallback_action: FallbackAction = "ADD", **kwargs: Any) -> None:
        if fallback_action not in {"ADD", "NONE"}:
            raise InvalidArgumentError(
                f"fallback_action must be 'ADD' or 'NONE', got {fallback_action!r}."
            )
        self.fallback_action = fallback_action
        super().__init__(**kwargs)

    def _make_stage(self) -> DecideStage:
        return DecideStage(hint=self._hint, hint_mode=self._hint_mode)

    def with_column(self, facts: Any, existing: Any) -> Expr:
        """Give the Ray Data expression of the actions.

        Args:
            facts: Column of facts (string): what `MemoryExtract` gives, a JSON array of strings,
                or one fact verbatim. Null (a failed extraction) gives null, without a call.
            existing: Column of memories (string): JSON arrays of ``{"id", "text", "context"?}``;
                null or "" means none.

        Returns:
            An expression of type string: ``{"actions": [{"event", "target_id", "text",
            "old_memory", "rationale"}, …]}``, one action per fact, in order.
        """
        return self._with_column(facts, existing)

    def with_status(self, facts: Any, existing: Any) -> Expr:
        """Give the expression of a struct (`STATUS`) instead: the cell, and how it came about."""
        return self._with_status(facts, existing)

    def render(self, facts: Any, existing: Any) -> list[list[ChatMessage] | None]:
        """Give the exact request messages per row, without a call; None where none is made."""
        return self._render(facts, existing)

    def __call__(self, facts: Any, existing: Any) -> pa.Array:
        """Compute at once, in this process; columns as in `with_column`."""
        return self._call(facts, existing)

    def _prepare(self, row: tuple[Any, ...], number: int) -> DecideWork | CellResult:
        facts_cell, existing_cell = row
        facts = parse_facts(facts_cell, number)
        if facts is None:
            return CellResult(value=None, status="skipped")
        existing = parse_existing(existing_cell, number)
        if not facts:
            return CellResult(
                value=encode_actions((), ensure_ascii=self._ensure_ascii), status="empty"
            )
        # Further keys of a memory are the caller's own business and are not shown.
        shown = [{key: m[key] for key in _SHOWN_KEYS if key in m} for m in existing]
        return DecideWork(facts=facts, existing=shown)

    def _finish(self, task: DecideWork, outcome: Outcome[ReadActions]) -> CellResult:
        if outcome.value is None:
            reason: str | None = outcome.error or outcome.status
            actions = fallback_actions(
                task.facts, fallback_action=self.fallback_action, reason=f"fallback: {reason}"
            )
            status, error = "fallback", reason
        else:
            resolved = resolved_actions(task, outcome.value, fallback_action=self.fallback_action)
            actions = resolved.actions
            status, error = _status(outcome, resolved)
        return CellResult(
            value=encode_actions(actions, ensure_ascii=self._ensure_ascii),
            status=status,
            error=error,
        )


def _told(problems: Mapping[int, str]) -> str:
    return "; ".join(f"fact {number}: {why}" for number, why in sorted(problems.items()))


def _status(outcome: Outcome[ReadActions], resolved: Resolved) -> tuple[str, str | None]:
    """A row of which a fact fell back says so, whatever else is true of it."""
    if not resolved.problems:
        return outcome.status, outcome.error
    return "fallback", _told(resolved.problems)
