"""The state of all streams at one commit: what a checkpoint holds, and what came since. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.streams.ids import SEQ_BITS
from memorypipe.streams.rules import Due, Rule, find_due
from memorypipe.streams.segments import EVENTS, OPERATIONS, KeySegment, RowSegment
from memorypipe.streams.state import STATES, StreamState, due_columns

__all__ = ["Base", "NewEvent", "Record", "View"]


@dataclass(frozen=True, kw_only=True)
class NewEvent:
    """An event on its way into a stream.

    Attributes:
        key: By which it is known again.
        message_id: Its id in the conversation.
        event_us: When it was said, in microseconds since 1970; None: not told.
        role: Who spoke.
        content: What was said.
    """

    key: bytes
    message_id: str
    event_us: int | None
    role: str
    content: str


@dataclass(frozen=True, kw_only=True)
class Record:
    """One commit: what it adds, and the state that it leaves.

    Attributes:
        at_us: When, in microseconds since 1970.
        states: Streams that change, each as it is from then on.
        events: New events of streams.
        operations: Operations that ended: stream and number to how.
        claims: Generations that begin, or, with None, end.
        settings: Of all streams, where they change.
    """

    at_us: int
    states: Mapping[bytes, StreamState] = field(default_factory=dict)
    events: Mapping[bytes, Sequence[NewEvent]] = field(default_factory=dict)
    operations: Mapping[tuple[bytes, int], Mapping[str, Any]] = field(default_factory=dict)
    claims: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    settings: Mapping[str, Any] | None = None

    def encode(self, token: str) -> bytes:
        """Write it as JSON; the token makes it unlike any other."""
        value = {
            "token": token,
            "at_us": self.at_us,
            "states": [[key.hex(), state] for key, state in self.states.items()],
            "events": [[key.hex(), _packed(events)] for key, events in self.events.items()],
            "operations": [
                [key.hex(), number, ending] for (key, number), ending in self.operations.items()
            ],
            "claims": self.claims,
            "settings": self.settings,
        }
        return orjson.dumps(value)

    @classmethod
    def decode(cls, data: bytes) -> "Record":
        """Read what `encode` gave."""
        value = orjson.loads(data)
        return cls(
            at_us=value["at_us"],
            states={bytes.fromhex(k): StreamState.from_dict(v) for k, v in value["states"]},
            events={bytes.fromhex(k): _unpacked(v) for k, v in value["events"]},
            operations={(bytes.fromhex(k), n): v for k, n, v in value["operations"]},
            claims=value["claims"],
            settings=value["settings"],
        )


def _packed(events: Iterable[NewEvent]) -> list[list[Any]]:
    return [[e.key.hex(), e.message_id, e.event_us, e.role, e.content] for e in events]


def _unpacked(rows: Iterable[Sequence[Any]]) -> list[NewEvent]:
    return [
        NewEvent(
            key=bytes.fromhex(key), message_id=name, event_us=event_us, role=role, content=content
        )
        for key, name, event_us, role, content in rows
    ]


@dataclass(frozen=True, kw_only=True)
class Base:
    """What a checkpoint holds.

    Attributes:
        number: Of the last commit in it.
        total: Events in it.
        states: Schema `STATES`, sorted by stream.
        events: Segments of schema `EVENTS`.
        keys: Segments of keys of events.
        operations: Segments of schema `OPERATIONS`.
        claims: Generations under way.
        settings: Of all streams.
    """

    number: int = 0
    total: int = 0
    states: pa.Table = field(default_factory=STATES.empty_table)
    events: Sequence[RowSegment] = ()
    keys: Sequence[KeySegment] = ()
    operations: Sequence[RowSegment] = ()
    claims: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


class View:
    """All streams, as of one commit; grows by `apply`.

    Args:
        base: The checkpoint that it begins with.
    """

    def __init__(self, base: Base) -> None:
        self.base = base
        self.number = base.number
        self.total = base.total
        self.claims: dict[str, Mapping[str, Any]] = dict(base.claims)
        self.settings: dict[str, Any] = dict(base.settings)
        self.states: dict[bytes, StreamState] = {}
        self.operations: dict[tuple[bytes, int], Mapping[str, Any]] = {}
        self.keys: set[bytes] = set()
        self._events: dict[bytes, list[tuple[int, int, NewEvent]]] = {}
        self._rows = RowSegment(base.states)

    def apply(self, record: Record) -> None:
        """Take the next commit over."""
        self.number += 1
        self.states.update(record.states)
        self.operations.update(record.operations)
        if record.settings is not None:
            self.settings = dict(record.settings)
        for name, claim in record.claims.items():
            if claim is None:
                self.claims.pop(name, None)
            else:
                self.claims[name] = claim
        place = self.number << SEQ_BITS
        for key, events in record.events.items():
            tail = self._events.setdefault(key, [])
            for event in events:
                tail.append((place, record.at_us, event))
                self.keys.add(event.key)
                place += 1
        self.total += place - (self.number << SEQ_BITS)

    @property
    def last_event(self) -> int:
        """Number that no event so far is above."""
        return (self.number + 1 << SEQ_BITS) - 1

    @property
    def default_rule(self) -> Rule | None:
        """The rule of streams that have none of their own."""
        return Rule.from_dict(self.settings.get("default_rule"))

    def state(self, key: bytes) -> StreamState | None:
        """Give the state of a stream; None where nobody has spoken of it."""
        return self.known_states([key]).get(key)

    def known_states(self, keys: Collection[bytes]) -> dict[bytes, StreamState]:
        """Give the states of streams; those that nobody has spoken of are left out."""
        found = {key: state for key in keys if (state := self.states.get(key)) is not None}
        rows = self._rows.first([key for key in set(keys) if key not in found])
        stored = zip(rows["stream"].to_pylist(), rows["rest"].to_pylist(), strict=True)
        return found | {key: StreamState.from_dict(orjson.loads(rest)) for key, rest in stored}

    def count(self) -> int:
        """Count the streams."""
        newer = pa.array(list(self.states), pa.binary(16))
        both = pc.sum(pc.is_in(self.base.states["stream"], newer)).as_py() or 0
        return int(self.base.states.num_rows + len(newer) - both)

    def known(self, keys: Collection[bytes]) -> set[bytes]:
        """Give the keys that are those of events."""
        found = {key for key in keys if key in self.keys}
        for segment in self.base.keys:
            found |= segment.known(keys)
        return found

    def operation(self, key: bytes, number: int) -> Mapping[str, Any] | None:
        """Give how an operation ended; None where it has not."""
        if (ending := self.operations.get((key, number))) is not None:
            return ending
        for segment in self.base.operations:
            found = segment.of(key, number - 1, number)
            if found.num_rows:
                ended: Mapping[str, Any] = orjson.loads(found["rest"][0].as_py())
                return ended
        return None

    def events(self, key: bytes, above: int, upto: int) -> pa.Table:
        """Give the events of a stream whose numbers are above one and not above another.

        Returns:
            Schema `EVENTS`, by number.
        """
        tables = [
            found
            for segment in self.base.events
            if (found := segment.of(key, above, upto)).num_rows
        ]
        tail = [row for row in self._events.get(key, ()) if above < row[0] <= upto]
        if tail:
            tables.append(_events_table({key: tail}))
        return pa.concat_tables(tables).sort_by("number") if tables else EVENTS.empty_table()

    def due(self, now_us: int) -> dict[bytes, str]:
        """Find the streams that are due, with the reason."""
        newer = list(self.states)
        is_newer = pc.is_in(self.base.states["stream"], pa.array(newer, pa.binary(16)))
        columns = due_columns(
            self.base.states, np.asarray(is_newer, np.bool_), list(self.states.values())
        )
        due: Due = find_due(
            columns, now_us, self.default_rule, int(self.settings.get("default_set_us", 0))
        )
        keys = self.base.states["stream"]
        count = self.base.states.num_rows
        return {
            keys[int(place)].as_py() if place < count else newer[int(place) - count]: reason
            for place, reason in zip(due.places, due.reasons, strict=True)
        }

    def all_states(self) -> Iterator[tuple[bytes, StreamState]]:
        """Give all streams, sorted."""
        base = zip(
            self.base.states["stream"].to_pylist(),
            self.base.states["rest"].to_pylist(),
            strict=True,
        )
        older = {key: rest for key, rest in base if key not in self.states}
        for key in sorted({*older, *self.states}):
            if key in self.states:
                yield key, self.states[key]
            else:
                yield key, StreamState.from_dict(orjson.loads(older[key]))

    def tail_events(self) -> pa.Table:
        """Give the events that came since the checkpoint; schema `EVENTS`."""
        return _events_table(self._events)

    def tail_operations(self) -> pa.Table:
        """Give the operations that ended since the checkpoint; schema `OPERATIONS`."""
        rows = [
            {"stream": key, "number": number, "rest": orjson.dumps(ending).decode()}
            for (key, number), ending in self.operations.items()
        ]
        return pa.Table.from_pylist(rows, schema=OPERATIONS)


def _events_table(events: Mapping[bytes, Iterable[tuple[int, int, NewEvent]]]) -> pa.Table:
    rows = [(key, *row) for key, tail in events.items() for row in tail]
    columns = [
        [key for key, _, _, _ in rows],
        [number for _, number, _, _ in rows],
        [event.message_id for _, _, _, event in rows],
        [event.event_us for _, _, _, event in rows],
        [at_us for _, _, at_us, _ in rows],
        [event.role for _, _, _, event in rows],
        [event.content for _, _, _, event in rows],
    ]
    arrays = [pa.array(column, each.type) for column, each in zip(columns, EVENTS, strict=True)]
    return pa.table(arrays, schema=EVENTS)
