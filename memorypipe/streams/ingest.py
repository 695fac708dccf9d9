"""From requests to a commit: what is new, which rule holds, and what is due at once. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from memorypipe import ids
from memorypipe.streams.ids import (
    event_key,
    free_occurrence,
    said_key,
    said_message_id,
    stream_key,
)
from memorypipe.streams.request import Event, Request
from memorypipe.streams.rules import Rule
from memorypipe.streams.state import StreamState
from memorypipe.streams.view import NewEvent, Record, View

__all__ = ["NOTHING_MADE", "Ingestion", "ingest"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)

NOTHING_MADE: Mapping[str, Any] = {
    "status": "done",
    "error": None,
    "run_id": None,
    "memories": [],
}
"""How an operation ends that was due when nothing was pending."""


@dataclass(kw_only=True)
class Ingestion:
    """What requests come to.

    Attributes:
        record: The commit; None where they change nothing.
        operations: Per request the operation that it is part of: stream and number.
        taken: Per request how many of its events are new.
    """

    record: Record | None
    operations: list[tuple[bytes, int]]
    taken: list[int]


@dataclass(kw_only=True)
class _Batch:
    """The commit while it is made."""

    view: View
    now_us: int
    before: dict[bytes, StreamState | None] = field(default_factory=dict)
    states: dict[bytes, StreamState] = field(default_factory=dict)
    events: dict[bytes, list[NewEvent]] = field(default_factory=dict)
    ended: dict[tuple[bytes, int], Mapping[str, Any]] = field(default_factory=dict)
    keys: set[bytes] = field(default_factory=set)


def ingest(view: View, requests: Sequence[Request], now_us: int) -> Ingestion:
    """Make the commit of requests, one after the other.

    Args:
        view: The state before.
        requests: What to take in.
        now_us: When, in microseconds since 1970.
    """
    batch = _Batch(view=view, now_us=now_us)
    done = [_take(batch, request) for request in requests]
    changed = {key: state for key, state in batch.states.items() if state != batch.before[key]}
    record = Record(at_us=now_us, states=changed, events=batch.events, operations=batch.ended)
    is_empty = not (changed or batch.events or batch.ended)
    return Ingestion(
        record=None if is_empty else record,
        operations=[operation for operation, _ in done],
        taken=[taken for _, taken in done],
    )


def _take(batch: _Batch, request: Request) -> tuple[tuple[bytes, int], int]:
    scope_key = ids.scope_key(request.scope)
    key = stream_key(scope_key, request.stream_id)
    if key not in batch.before:
        batch.before[key] = batch.view.state(key)
    known = batch.states.get(key) or batch.before[key]
    state = known or StreamState(scope_key=scope_key, stream_id=request.stream_id)
    new = _new_events(batch, key, request.events)
    state = state.with_rule(request.rule, batch.now_us).with_events(len(new), batch.now_us)
    if request.config:
        state = replace(state, config={**state.config, **request.config})
    if new:
        batch.events.setdefault(key, []).extend(new)
        batch.keys.update(event.key for event in new)
    operation = (key, state.operation)
    if _is_due_at_once(request, state, batch.view.default_rule):
        if state.pending:
            state = replace(state, is_forced=state.is_forced or request.is_forced)
        else:
            batch.ended[operation] = NOTHING_MADE
            state = state.next_operation()
    batch.states[key] = state
    return operation, len(new)


def _is_due_at_once(request: Request, state: StreamState, default: Rule | None) -> bool:
    """Whether the request itself makes its stream due; one without events only sets the rule."""
    if request.is_forced:
        return True
    rule = state.rule or default
    if not request.events:
        return False
    return rule is None or 0 < rule.event_count <= state.pending


def _new_events(batch: _Batch, key: bytes, events: Sequence[Event]) -> list[NewEvent]:
    """Give the events that the stream does not have yet, each once."""
    keys = [None if each.event_id is None else event_key(key, each.event_id) for each in events]
    asked = [each for each in keys if each is not None]
    known = {
        each for each, found in zip(asked, batch.view.known(asked), strict=True) if found
    } | batch.keys
    new: list[NewEvent] = []
    for event, named in zip(events, keys, strict=True):
        if named is None:
            new.append(_said(batch, key, event, known))
        elif named not in known:
            new.append(_new(event, named, str(event.event_id)))
        else:
            continue
        known.add(new[-1].key)
    return new


def _said(batch: _Batch, key: bytes, event: Event, seen: set[bytes]) -> NewEvent:
    """Name an event without an id after what it says, and how often that was said before."""

    def is_taken(occurrence: int) -> bool:
        said = said_key(key, event, occurrence)
        return said in seen or batch.view.is_known(said)

    occurrence = free_occurrence(is_taken)
    return _new(event, said_key(key, event, occurrence), said_message_id(event, occurrence))


def _new(event: Event, key: bytes, message_id: str) -> NewEvent:
    at = event.event_time
    return NewEvent(
        key=key,
        message_id=message_id,
        event_us=None if at is None else (at - _EPOCH) // _TICK,
        role=event.role,
        content=event.content,
    )
