"""What one generation works on, and what came of it. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Literal, Self

import orjson
import pyarrow as pa

from memorypipe.ids import digest
from memorypipe.logs.messages import Message
from memorypipe.streams.state import StreamState
from memorypipe.streams.view import View

__all__ = [
    "Generate",
    "Generated",
    "Generation",
    "MadeMemory",
    "StreamBatch",
    "generation_id",
    "make_batch",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class MadeMemory:
    """A memory that a generation made or changed.

    Attributes:
        action: ``"CREATED"``, ``"UPDATED"`` or ``"DELETED"``.
        memory_id: Its id.
        text: What it says; "" where it was deleted.
        revision: The revision that was made.
        previous_revision: The one before; None for a new memory.
    """

    action: Literal["CREATED", "UPDATED", "DELETED"]
    memory_id: str
    text: str
    revision: int
    previous_revision: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give it as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_dict` gave."""
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class StreamBatch:
    """What is due of one stream.

    Attributes:
        key: Of the stream.
        scope: Its scope.
        scope_key: Key of that.
        stream_id: Its name, which is that of its conversation.
        overlap: Messages already processed, oldest first; marked as background.
        messages: The pending ones, in their order.
        config: What goes with the memories, as of `memorypipe.streams.request.Request`.
    """

    key: bytes
    scope: Mapping[str, str]
    scope_key: str
    stream_id: str
    overlap: tuple[Message, ...]
    messages: tuple[Message, ...]
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Generation:
    """One run over what is due of many streams.

    Attributes:
        run_id: Names the run: the same for the same windows.
        batches: The streams.
        has_revisions: Whether what the run closes is kept.
    """

    run_id: str
    batches: Sequence[StreamBatch]
    has_revisions: bool = True


@dataclass(frozen=True, kw_only=True)
class Generated:
    """What came of one stream.

    Attributes:
        error: Why its events stay pending; None where they are processed.
        memories: What was made.
    """

    error: str | None = None
    memories: tuple[MadeMemory, ...] = ()


Generate = Callable[[Generation], Mapping[bytes, Generated]]
"""Makes memories of what is due. Asked twice under one run id, it makes them once."""


def generation_id(states: Mapping[bytes, StreamState]) -> str:
    """Name a generation after the windows that it works on.

    Args:
        states: The streams, nothing sealed yet. The operation of a stream is never run twice.
    """
    windows = [
        [key.hex(), state.operation, state.pending, state.newest_us]
        for key, state in sorted(states.items())
    ]
    return "flush_" + digest("flush", windows, size=12).hex()


def make_batch(view: View, key: bytes, state: StreamState) -> StreamBatch:
    """Put together what is due of a stream.

    Args:
        view: With its events.
        key: Of the stream.
        state: With what is sealed.
    """
    sealed = state.sealed
    if sealed is None:
        raise AssertionError(key)
    events = in_order(view.events(key, state.flushed, sealed.upto))
    return StreamBatch(
        key=key,
        scope=dict(orjson.loads(state.scope_key)),
        scope_key=state.scope_key,
        stream_id=state.stream_id,
        overlap=tuple(
            _message(event, background=True) for event in last_processed(view, key, state)
        ),
        messages=tuple(_message(event) for event in events if event["content"].strip()),
        config=sealed.config,
    )


def last_processed(view: View, key: bytes, state: StreamState) -> list[dict[str, Any]]:
    """Give the last events that were processed, as many as open the next window again."""
    wanted = 0 if state.sealed is None else state.sealed.overlap
    found: list[dict[str, Any]] = []
    bounds = [-1, *state.flushes]
    for above, upto in reversed(list(pairwise(bounds))):
        if len(found) >= wanted:
            break
        events = in_order(view.events(key, above, upto))
        found = [event for event in events if event["content"].strip()] + found
    return found[-wanted:] if wanted else []


def in_order(events: pa.Table) -> list[dict[str, Any]]:
    """Sort events of schema `EVENTS` by their time, else that of their ingestion, ties by arrival.

    Example:
        >>> in_order(pa.table({"event_us": [5, None], "ingested_us": [7, 3], "number": [1, 2]}))
        ... # doctest: +NORMALIZE_WHITESPACE
        [{'event_us': None, 'ingested_us': 3, 'number': 2},
         {'event_us': 5, 'ingested_us': 7, 'number': 1}]
    """
    rows: list[dict[str, Any]] = events.to_pylist()
    return sorted(rows, key=lambda row: (_time_us(row), row["number"]))


def _time_us(event: Mapping[str, Any]) -> int:
    at_us: int = event["ingested_us"] if event["event_us"] is None else event["event_us"]
    return at_us


def _message(event: Mapping[str, Any], *, background: bool = False) -> Message:
    return Message(
        role=event["role"],
        name=None,
        content=event["content"],
        timestamp=_EPOCH + timedelta(microseconds=_time_us(event)),
        id=event["message_id"],
        background=background,
    )
