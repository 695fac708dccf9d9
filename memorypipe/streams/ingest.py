"""From requests to a commit: what is new, which rule holds, and what is due at once. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

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
    """The commit while it is made.

    Attributes:
        view: The state before.
        now_us: When, in microseconds since 1970.
        before: The streams that are spoken of, as they are before.
        known: Keys of events that the streams have, as far as somebody asks; grows with new ones.
        states: The streams as they are from then on.
        events: What is new in them.
        ended: Operations that end with it.
    """

    view: View
    now_us: int
    before: Mapping[bytes, StreamState]
    known: set[bytes]
    states: dict[bytes, StreamState] = field(default_factory=dict)
    events: dict[bytes, list[NewEvent]] = field(default_factory=dict)
    ended: dict[tuple[bytes, int], Mapping[str, Any]] = field(default_factory=dict)


def ingest(view: View, requests: Sequence[Request], now_us: int) -> Ingestion:
    """Make the commit of requests, one after the other.

    Args:
        view: The state before.
        requests: What to take in.
        now_us: When, in microseconds since 1970.
    """
    asked = [_asked(request) for request in requests]
    # One search for all of them: there may be millions of streams and events to search in.
    named = [key for each in asked for key in each.event_keys if key is not None]
    batch = _Batch(
        view=view,
        now_us=now_us,
        before=view.known_states([each.key for each in asked]),
        known=view.known(named),
    )
    done = [_take(batch, each) for each in asked]
    changed = {k: state for k, state in batch.states.items() if state != batch.before.get(k)}
    record = Record(at_us=now_us, states=changed, events=batch.events, operations=batch.ended)
    is_empty = not (changed or batch.events or batch.ended)
    return Ingestion(
        record=None if is_empty else record,
        operations=[operation for operation, _ in done],
        taken=[taken for _, taken in done],
    )


class _Asked(NamedTuple):
    """A request with the keys of its stream and of its events; None where an event has no id."""

    request: Request
    scope_key: str
    key: bytes
    event_keys: list[bytes | None]


def _asked(request: Request) -> _Asked:
    scope_key = ids.scope_key(request.scope)
    key = stream_key(scope_key, request.stream_id)
    event_keys = [
        None if event.event_id is None else event_key(key, event.event_id)
        for event in request.events
    ]
    return _Asked(request, scope_key, key, event_keys)


def _take(batch: _Batch, asked: _Asked) -> tuple[tuple[bytes, int], int]:
    request, key = asked.request, asked.key
    known = batch.states.get(key) or batch.before.get(key)
    state = known or StreamState(scope_key=asked.scope_key, stream_id=request.stream_id)
    new = _new_events(batch, asked)
    state = state.with_rule(request.rule, batch.now_us).with_events(len(new), batch.now_us)
    if request.config:
        state = replace(state, config={**state.config, **request.config})
    if new:
        batch.events.setdefault(key, []).extend(new)
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


def _new_events(batch: _Batch, asked: _Asked) -> list[NewEvent]:
    """Give the events that the stream does not have yet, each once."""
    new: list[NewEvent] = []
    for event, named in zip(asked.request.events, asked.event_keys, strict=True):
        if named is None:
            new.append(_said(batch, asked.key, event))
        elif named not in batch.known:
            new.append(_new(event, named, str(event.event_id)))
        else:
            continue
        batch.known.add(new[-1].key)
    return new


def _said(batch: _Batch, key: bytes, event: Event) -> NewEvent:
    """Name an event without an id after what it says, and how often that was said before."""

    def is_taken(occurrence: int) -> bool:
        said = said_key(key, event, occurrence)
        return said in batch.known or bool(batch.view.known([said]))

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
