"""What is known of each stream: one object for a few of them, columns for all. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from memorypipe.streams.ids import operation_name
from memorypipe.streams.rules import NO_RULE, Rule

__all__ = ["STATES", "Sealed", "StreamState", "due_columns", "states_table"]

# Flushes whose order of events is kept: what lies before counts as one.
_KEPT_FLUSHES = 64


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """What one generation works on: nothing is added to it any more.

    Attributes:
        claim: Names the generation.
        upto: Number of the last event in it.
        pending: How many events are in it.
        newest_us: When the newest of them was ingested, in microseconds since 1970.
        oldest_us: Likewise the oldest.
        operation: Number of its operation.
        overlap: Events already processed that open its first window.
        config: What goes with its memories, as of `Request`.
    """

    claim: str
    upto: int
    pending: int
    newest_us: int
    oldest_us: int
    operation: int
    overlap: int
    config: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class StreamState:
    """One stream.

    Attributes:
        scope_key: Its scope.
        stream_id: Its name in there.
        pending: New events that no generation works on.
        newest_us: When the newest of them was ingested, in microseconds since 1970.
        oldest_us: Likewise the oldest.
        flushed: Number of the last event that was processed.
        flushes: Such numbers of the flushes before, oldest first, that one included.
        rule: Its own; None: it has none.
        rule_set_us: When it was set.
        is_forced: Whether it is due whatever the rule.
        attempts: How often the generation of what is pending has failed.
        operation: Number of the operation of what is pending, from 1.
        config: What goes with the next memories.
        sealed: What a generation works on; None where there is none.
    """

    scope_key: str
    stream_id: str
    pending: int = 0
    newest_us: int = 0
    oldest_us: int = 0
    flushed: int = 0
    flushes: tuple[int, ...] = ()
    rule: Rule | None = None
    rule_set_us: int = 0
    is_forced: bool = False
    attempts: int = 0
    operation: int = 1
    config: Mapping[str, Any] = field(default_factory=dict)
    sealed: Sealed | None = None

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read a state out of its JSON; what a later version has beside it is left out."""
        known = {each.name: values[each.name] for each in fields(cls) if each.name in values}
        sealed = known.get("sealed")
        return cls(
            **{
                **known,
                "flushes": tuple(known.get("flushes", ())),
                "rule": Rule.from_dict(known.get("rule")),
                "sealed": None if sealed is None else Sealed(**sealed),
            }
        )

    def operation_name(self, key: bytes) -> str:
        """Name the operation of what is pending."""
        return operation_name(key, self.operation)

    def with_events(self, count: int, now_us: int) -> "StreamState":
        """Take new events in."""
        if not count:
            return self
        return replace(
            self,
            pending=self.pending + count,
            newest_us=now_us,
            oldest_us=self.oldest_us if self.pending else now_us,
        )

    def with_rule(self, rule: Rule | None, now_us: int) -> "StreamState":
        """Set the rule; the same one again goes on counting from when it was set first."""
        if rule is None or rule == self.rule:
            return self
        return replace(self, rule=rule, rule_set_us=now_us)

    def seal(self, claim: str, upto: int, default: Rule | None) -> "StreamState":
        """Hand what is pending to a generation; what comes later has an operation of its own."""
        rule = self.rule or default or NO_RULE
        sealed = Sealed(
            claim=claim,
            upto=upto,
            pending=self.pending,
            newest_us=self.newest_us,
            oldest_us=self.oldest_us,
            operation=self.operation,
            overlap=rule.overlap,
            config=self.config,
        )
        return replace(
            self,
            pending=0,
            newest_us=0,
            oldest_us=0,
            is_forced=False,
            operation=self.operation + 1,
            config={},
            sealed=sealed,
        )

    def next_operation(self) -> "StreamState":
        """End the operation of what is pending, where nothing is."""
        return replace(self, operation=self.operation + 1, is_forced=False, config={})

    def processed(self) -> "StreamState":
        """Move on: what the generation worked on is done."""
        if self.sealed is None:
            return self
        upto = self.sealed.upto
        flushes = (*self.flushes, upto)[-_KEPT_FLUSHES:]
        return replace(self, flushed=upto, flushes=flushes, attempts=0, sealed=None)

    def reopened(self) -> "StreamState":
        """Give back what the generation worked on: it is pending again, and due."""
        sealed = self.sealed
        if sealed is None:
            return self
        return replace(
            self,
            pending=self.pending + sealed.pending,
            newest_us=max(self.newest_us, sealed.newest_us),
            oldest_us=sealed.oldest_us,
            attempts=self.attempts + 1,
            config={**sealed.config, **self.config},
            sealed=None,
        )


STATES = pa.schema(
    [
        pa.field("stream", pa.binary(16), nullable=False),
        pa.field("number", pa.int64(), nullable=False),  # 0: sorted and searched as events are
        pa.field("scope_key", pa.string(), nullable=False),
        pa.field("stream_id", pa.string(), nullable=False),
        pa.field("pending", pa.int64(), nullable=False),
        pa.field("newest_us", pa.int64(), nullable=False),
        pa.field("oldest_us", pa.int64(), nullable=False),
        pa.field("is_forced", pa.int8(), nullable=False),
        pa.field("attempts", pa.int64(), nullable=False),
        pa.field("has_rule", pa.int8(), nullable=False),
        pa.field("event_count", pa.int64(), nullable=False),
        pa.field("idle_s", pa.int64(), nullable=False),
        pa.field("interval_s", pa.int64(), nullable=False),
        pa.field("rule_set_us", pa.int64(), nullable=False),
        pa.field("rest", pa.string(), nullable=False),  # JSON object: the whole state
    ]
)
"""One row per stream, sorted by `stream`; numbers that triggers look at have columns."""


def states_table(states: Mapping[bytes, StreamState]) -> pa.Table:
    """Lay states out as columns, sorted."""
    keys = sorted(states)
    ordered = [states[key] for key in keys]
    columns = {
        "stream": keys,
        "number": [0] * len(keys),
        "scope_key": [state.scope_key for state in ordered],
        "stream_id": [state.stream_id for state in ordered],
        **_numbers(ordered),
        "rest": [orjson.dumps(state).decode() for state in ordered],
    }
    return pa.table(columns, schema=STATES)


def _numbers(states: Sequence[StreamState]) -> dict[str, list[int]]:
    rules = [state.rule or NO_RULE for state in states]
    return {
        "pending": [state.pending for state in states],
        "newest_us": [state.newest_us for state in states],
        "oldest_us": [state.oldest_us for state in states],
        "is_forced": [int(state.is_forced) for state in states],
        "attempts": [state.attempts for state in states],
        "has_rule": [int(state.rule is not None) for state in states],
        "event_count": [rule.event_count for rule in rules],
        "idle_s": [rule.idle_s for rule in rules],
        "interval_s": [rule.interval_s for rule in rules],
        "rule_set_us": [state.rule_set_us for state in states],
    }


def due_columns(
    base: pa.Table, replaced: NDArray[np.bool_], newer: Sequence[StreamState]
) -> dict[str, NDArray[Any]]:
    """Give the columns that `find_due` looks at: of the base first, then of newer states.

    Args:
        base: Schema `STATES`.
        replaced: Rows of the base that a newer state stands in for; they count as having nothing
            pending.
        newer: Newer states.
    """
    columns = {
        name: np.concatenate(
            [
                base[name].to_numpy(),
                np.array(values, base.schema.field(name).type.to_pandas_dtype()),
            ]
        )
        for name, values in _numbers(newer).items()
    }
    columns["pending"][: base.num_rows][replaced] = 0
    for name in ("is_forced", "has_rule"):
        columns[name] = columns[name].astype(np.bool_)
    return columns
