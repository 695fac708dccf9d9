"""Which part of a log a run takes: a period, and a sample of scopes. Pure.

What is left out is not dealt with: it stays open for any later run that takes it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.errors import InvalidArgumentError
from memorypipe.pipeline.runs.scope_places import places_below, scope_places
from memorypipe.schema import TIME

__all__ = ["Selection", "select_conversations"]

_SEED_LIMIT = 1 << 63


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What a run takes of a log.

    Attributes:
        since: Messages said earlier are shown as background at most; None: no such bound.
        until: Messages said at this time or later are as good as not said yet; None: no bound.
        sample: Share of the scopes, above 0 and at most 1; None: all. Whole scopes are taken, by
            a hash of their key: the same ones in every log, and as where a sample of a plan is
            applied; with one seed a smaller sample lies within a larger one.
        seed: Another seed takes other scopes.

    Raises:
        InvalidArgumentError: For what selects nothing, or a time without a zone.
    """

    since: datetime | None = None
    until: datetime | None = None
    sample: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("since", "until"):
            moment = getattr(self, name)
            if moment is not None and moment.utcoffset() is None:
                raise InvalidArgumentError(
                    f"{name} must be a time with a zone, got {moment.isoformat()!r}; add one, for "
                    f"example {moment.replace(tzinfo=UTC).isoformat()!r}."
                )
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise InvalidArgumentError(
                f"since={self.since.isoformat()!r} must be before until="
                f"{self.until.isoformat()!r}: what is said at `until` is not taken any more."
            )
        if not -_SEED_LIMIT <= self.seed < _SEED_LIMIT:
            raise InvalidArgumentError(f"seed must be a 64-bit integer, got {self.seed!r}.")
        if self.sample is not None:
            places_below(self.sample)

    @property
    def has_period(self) -> bool:
        """Whether the time of a message decides."""
        return self.since is not None or self.until is not None

    def takes_scope(self, scope_key: str) -> bool:
        """Whether a scope is in the sample.

        Args:
            scope_key: As from `memorypipe.ids.scope_key`.

        Example:
            >>> [Selection(sample=0.5).takes_scope(f'[["user_id","u{n}"]]') for n in range(4)]
            [False, True, False, False]
        """
        if self.sample is None:
            return True
        return bool(scope_places([scope_key], self.seed)[0] < places_below(self.sample))

    def to_dict(self) -> dict[str, Any]:
        """Give what was chosen as JSON values, for the run id and the manifest; times are UTC."""
        chosen: dict[str, Any] = {
            name: moment.astimezone(UTC).isoformat()
            for name in ("since", "until")
            if (moment := getattr(self, name)) is not None
        }
        if self.sample is not None:
            chosen |= {"sample": self.sample, "seed": self.seed}
        return chosen


def select_conversations(conversations: pa.Table, selection: Selection) -> pa.Table:
    """Leave out of conversations what a selection does not take.

    A message without a time counts as said with the dated one before it in its conversation,
    failing that with the one after. A conversation that nothing dates is in no period.

    Args:
        conversations: With the columns of `memorypipe.schema.CONVERSATIONS`.
        selection: What to take.

    Returns:
        The conversations with a message in the period, without what was said after it, in the
        same schema; what was said before it has `background` set. Their `event_time` is that of
        the newest message that is left.
    """
    keys = conversations["scope_key"]
    if selection.sample is not None:
        taken = [key for key in keys.unique().to_pylist() if selection.takes_scope(key)]
        conversations = conversations.filter(pc.is_in(keys, pa.array(taken, pa.string())))
    if not selection.has_period:
        return conversations
    times = conversations["event_time"]
    # Conversations that ended before are most of a log that grows: no row is made of them.
    is_current = pc.is_valid(times)
    if selection.since is not None:
        is_current = pc.and_(is_current, pc.greater_equal(times, pa.scalar(selection.since, TIME)))
    rows = conversations.filter(is_current).to_pylist()
    return pa.Table.from_pylist(list(_cut(rows, selection)), schema=conversations.schema)


def _cut(rows: Sequence[Mapping[str, Any]], selection: Selection) -> Iterator[dict[str, Any]]:
    for row in rows:
        said = _said_at(row)
        kept = [
            {**message, "background": _is_before(at, selection.since)}
            for message, at in zip(row["messages"], said, strict=True)
            if selection.until is None or at < selection.until
        ]
        if all(message["background"] for message in kept):
            continue
        newest = max((m["timestamp"] for m in kept if m["timestamp"]), default=row["event_time"])
        yield {**row, "messages": kept, "event_time": newest}


def _said_at(row: Mapping[str, Any]) -> list[datetime]:
    """Say for each message of a dated conversation when it was said."""
    times = [message["timestamp"] for message in row["messages"]]
    last = next((at for at in times if at is not None), row["event_time"])
    said = []
    for at in times:
        last = at or last
        said.append(last)
    return said


def _is_before(at: datetime, since: datetime | None) -> bool:
    return since is not None and at < since
