"""Commit time: read from a clock that is a parameter, always UTC, never going back."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from memorypipe.errors import InvalidArgumentError

__all__ = ["Clock", "next_commit_time", "now_utc", "read_clock", "revisions_expire_at"]

Clock = Callable[[], datetime]

_TICK = timedelta(microseconds=1)  # the resolution of every time column


def now_utc() -> datetime:
    """Read the system's clock, in UTC."""
    return datetime.now(UTC)


def read_clock(clock: Clock) -> datetime:
    """Read a clock and bring its answer to UTC.

    Raises:
        InvalidArgumentError: For a time without a zone: nobody can know what it means.
    """
    moment = clock()
    if moment.utcoffset() is None:
        raise InvalidArgumentError(
            f"The clock gave {moment.isoformat()!r}, a time without a zone; "
            "give a clock that returns aware times, e.g. now_utc."
        )
    return moment.astimezone(UTC)


def next_commit_time(clock: Clock, last: datetime) -> datetime:
    """Choose the time of the next commit: the clock's, but always later than the last commit's.

    Args:
        clock: Where the time comes from; clocks of two machines may disagree.
        last: Time of the last commit, UTC.

    Example:
        >>> last = datetime(2024, 1, 1, tzinfo=UTC)
        >>> next_commit_time(lambda: datetime(2023, 1, 1, tzinfo=UTC), last).isoformat()
        '2024-01-01T00:00:00.000001+00:00'
    """
    return max(read_clock(clock), last + _TICK)


def revisions_expire_at(closed_at: datetime, ttl_days: int | None) -> datetime | None:
    """Say from when on maintenance may drop revisions.

    Args:
        closed_at: When they were superseded, UTC.
        ttl_days: How long the table keeps them from then on; None: for ever.

    Example:
        >>> revisions_expire_at(datetime(2024, 1, 1, tzinfo=UTC), 31).isoformat()
        '2024-02-01T00:00:00+00:00'
    """
    if ttl_days is None:
        return None
    try:
        return closed_at + timedelta(days=ttl_days)
    except OverflowError:  # as good as for ever
        return None
