"""`MemoryExtract`: from a conversation to the durable facts that it holds."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
from ray.data.expressions import Expr

from memorypipe.cells.facts import encode_facts
from memorypipe.cells.json_text import invalid
from memorypipe.cells.messages import BACKGROUND_ROLES, parse_messages
from memorypipe.expressions.llm_base import LLMExpression
from memorypipe.expressions.results import CellResult
from memorypipe.llm.replies.reply import read_facts
from memorypipe.llm.stage import Outcome, Reading
from memorypipe.llm.types import ChatMessage, ExtractTask, Reply, Request
from memorypipe.prompts.echoes import quotes_empty_list
from memorypipe.prompts.extract import (
    EXTRACT_RESPONSE_FORMAT,
    extract_messages,
    extract_own_words,
    extract_prompt_hash,
    extract_system,
    map_sources,
)
from memorypipe.prompts.split import split_turns
from memorypipe.text import normalise

__all__ = ["ExtractStage", "MemoryExtract"]

# One item of a facts cell: `text`, and where known `context`, `sources`, `event_time`, `topics`.
FactItem = dict[str, Any]

# Who is no user; anybody else is taken for one.
_NOT_USERS = BACKGROUND_ROLES | {"assistant"}


class ExtractStage:
    """Asks for the facts of a transcript.

    Args:
        hint: Instructions of the caller; None for the default ones.
        hint_mode: ``"replace"`` or ``"append"``.
    """

    kind = "extract"

    def __init__(self, *, hint: str | None = None, hint_mode: str = "replace") -> None:
        self._system = extract_system(hint=hint, hint_mode=hint_mode)
        self._own_words = extract_own_words(self._system)
        self.prompt_hash = extract_prompt_hash(hint=hint, hint_mode=hint_mode)

    def request(self, task: ExtractTask) -> Request:
        """Build the request of a transcript."""
        messages = extract_messages(task.turns, context=task.context, system=self._system)
        params = {"response_format": EXTRACT_RESPONSE_FORMAT}
        return Request(messages=messages, params=params, task=task)

    def read(self, task: ExtractTask, reply: Reply) -> Reading[tuple[FactItem, ...]]:
        """Read the facts; source numbers become message ids, echoes of the prompt are dropped."""
        read = read_facts(reply.content, finish_reason=reply.finish_reason, refusal=reply.refusal)
        said = [item for item in map(partial(self._without_echo, task), read.items) if item]
        status, error = read.status, read.error
        if status == "ok" and not said:
            status, error = "parse_error", "It repeats the prompt instead of what the data says"
        if status == "empty" and quotes_empty_list(reply.content or "", _texts(task)):
            status, error = "parse_error", "It repeats the data instead of its facts"
        # Cut before its first whole item, a reply says nothing about whether there are facts.
        readable = status in {"ok", "empty"} or (status == "truncated" and said)
        return Reading(
            value=map_sources(said, task.turns) if readable else None,
            status=status,
            error=error,
            dropped_items=read.dropped_items + len(read.items) - len(said),
            repaired=read.repaired,
        )

    def _without_echo(self, task: ExtractTask, item: FactItem) -> FactItem | None:
        """A fact without what the prompt itself says; None where nothing else is left."""
        if self._own_words.are_echoed(item["text"], _texts(task)):
            return None
        if self._own_words.are_echoed(item.get("context", ""), _texts(task)):
            return {key: value for key, value in item.items() if key != "context"}
        return item

    def split(self, task: ExtractTask) -> tuple[ExtractTask, ExtractTask] | None:
        """Cut the transcript in two."""
        halves = split_turns(task.turns)
        if halves is None:
            return None
        first, second = (replace(task, turns=turns) for turns in halves)
        return first, second

    def merge(
        self,
        task: ExtractTask,  # noqa: ARG002  # facts of two halves need no context to be joined
        first: tuple[FactItem, ...] | None,
        second: tuple[FactItem, ...] | None,
        whole: tuple[FactItem, ...] | None,
    ) -> tuple[FactItem, ...]:
        """Join the facts of the two halves, and of the whole where a half failed."""
        kept = whole or () if first is None or second is None else ()
        joined = (*kept, *(first or ()), *(second or ()))
        return tuple({normalise(item["text"]): item for item in reversed(joined)}.values())[::-1]


def _texts(task: ExtractTask) -> Iterator[str]:
    """All that a request shows of its data."""
    for turn in task.turns:
        yield turn.content
        yield turn.name or ""
    yield task.context or ""


class MemoryExtract(LLMExpression[ExtractTask, tuple[FactItem, ...]]):
    """Extract durable facts from conversations, one model call per row.

    Keyword-only parameters; see `LLMExpression` for those of the model call. `hint` (a string, or
    a list that is joined by newlines) replaces the default instructions `EXTRACT_HINT`, or with
    ``hint_mode="append"`` follows them; the rule of the output format always stands at the end.

    Each row is seen alone: two rows of one user do not know of each other. Without `journal`
    every execution of a dataset pays again.

    Raises:
        InvalidArgumentError: At construction, for a parameter that cannot work.
        InvalidCellError: For a cell that cannot be read, with its row (``on_invalid="raise"``).
        EndpointError: Where the endpoint cannot serve the job (wrong key, model or address).

    Example:
        >>> extract = MemoryExtract(base_url="offline:", model="offline-rules")
        >>> extract(["[user]: I bought a Yamaha P-125 digital piano."])[0].as_py()
        '{"memories":[{"text":"Bought a Yamaha P-125 digital piano"}]}'
    """

    _parameters = ("messages", "context", "scope_key")
    _required = 1

    def _make_stage(self) -> ExtractStage:
        return ExtractStage(hint=self._hint, hint_mode=self._hint_mode)

    def with_column(self, messages: Any, context: Any = None) -> Expr:
        """Give the Ray Data expression of the facts.

        Args:
            messages: Column of transcripts (string ``[role]: text``), of JSON arrays of messages
                (string), or of messages (``list<struct>`` with `role`, `content` and optional
                `name`, `timestamp`, `id`). Null or blank: no facts, no call.
            context: Column of free text (string); a line ``Date: …`` anchors relative dates.

        Returns:
            An expression of type string: ``{"memories": [{"text", "context"?, "sources"?,
            "event_time"?, "topics"?}, …]}``. A failed call gives null, never "no facts".
        """
        return self._with_column(messages, context)

    def with_status(self, messages: Any, context: Any = None, *, scope_key: Any = None) -> Expr:
        """Give the expression of a struct (`STATUS`) instead: the cell, and how it came about.

        Args:
            messages: As for `with_column`.
            context: As for `with_column`.
            scope_key: Column that names whose data a row is (string); it goes into the journal
                with the reply, so that it can be erased.
        """
        return self._with_status(messages, context, scope_key)

    def render(self, messages: Any, context: Any = None) -> list[list[ChatMessage] | None]:
        """Give the exact request messages per row, without a call; None where none is made."""
        return self._render(messages, context)

    def __call__(self, messages: Any, context: Any = None) -> pa.Array:
        """Compute at once, in this process; columns as in `with_column`."""
        return self._call(messages, context)

    def _prepare(self, row: tuple[Any, ...], number: int) -> ExtractTask | CellResult:
        messages, context, _ = row
        if context is not None and not isinstance(context, str):
            invalid(number, "context", f"expected a string, got {type(context).__name__}")
        turns = parse_messages(messages, number)
        if not any(turn.role not in _NOT_USERS and not turn.background for turn in turns):
            return CellResult(
                value=encode_facts((), ensure_ascii=self._ensure_ascii), status="empty"
            )
        return ExtractTask(turns=turns, context=context)

    def _finish(
        self,
        task: ExtractTask,  # noqa: ARG002  # the outcome says it all
        outcome: Outcome[tuple[FactItem, ...]],
    ) -> CellResult:
        value = (
            None
            if outcome.value is None
            else encode_facts(outcome.value, ensure_ascii=self._ensure_ascii)
        )
        return CellResult(value=value, status=outcome.status, error=outcome.error)
