"""Which commit is meant by a time or a version, and whether the table still knows that past."""

from dataclasses import dataclass
from datetime import UTC, datetime

from memorypipe.errors import HistoryGoneError, InvalidArgumentError
from memorypipe.table.records import Head
from memorypipe.table.storage import Snapshot, Where
from memorypipe.table.transaction import moment_of

__all__ = ["Moment", "check_kept", "find_moment"]


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A moment of a table's past.

    Attributes:
        version: Number of the newest commit by then; 0 before the first.
        commit_time: Its time (of creation, for 0), UTC.
        now: The moment itself, which decides what has expired by then, UTC.
    """

    version: int
    commit_time: datetime
    now: datetime


def find_moment(snapshot: Snapshot, time_or_version: datetime | int) -> Moment:
    """Find the moment of a time or a version.

    Args:
        snapshot: The table.
        time_or_version: An aware time, or the number of a commit.

    Raises:
        InvalidArgumentError: For a time without a zone, or before the table was made, or a
            version that the table does not have.
        HistoryGoneError: For a moment before the table's history horizon.
    """
    if isinstance(time_or_version, datetime):
        moment = _at_time(snapshot, time_or_version)
    else:
        commit_time = moment_of(snapshot, time_or_version)
        moment = Moment(version=time_or_version, commit_time=commit_time, now=commit_time)
    check_kept(snapshot.head, moment.now)
    return moment


def _at_time(snapshot: Snapshot, time: datetime) -> Moment:
    if time.utcoffset() is None:
        raise InvalidArgumentError(
            f"as_of needs a time with a zone, got {time.isoformat()!r}; give for example "
            "datetime(…, tzinfo=UTC)."
        )
    now, head = time.astimezone(UTC), snapshot.head
    if now < head.created_at:
        raise InvalidArgumentError(
            f"The table was made at {head.created_at.isoformat()}; there is nothing as of "
            f"{now.isoformat()}."
        )
    if now >= head.committed_at:
        return Moment(version=head.number, commit_time=head.committed_at, now=now)
    rows = snapshot.scan(["revision", "valid_from"], Where(record_type="run")).to_pylist()
    commits = [(row["revision"], row["valid_from"]) for row in rows if row["valid_from"] <= now]
    version, commit_time = max(commits, default=(0, head.created_at))
    return Moment(version=version, commit_time=commit_time, now=now)


def check_kept(head: Head, moment: datetime) -> None:
    """Check that the history of a moment is whole.

    Raises:
        HistoryGoneError: If it is before the horizon.
    """
    horizon = head.settings.history_horizon
    if horizon is not None and moment < horizon:
        raise HistoryGoneError(
            f"The history of the table is whole from {horizon.isoformat()} on; as of "
            f"{moment.isoformat()} it is not known any more.",
            horizon,
        )
