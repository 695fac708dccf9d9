"""Whether a run whose record says that it is running still is."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from memorypipe.llm.owner import Owner

__all__ = ["EVERY_S", "is_under_way", "shown_status"]

EVERY_S = 10.0
"""Seconds after which the record of a run is rewritten."""

# A busy machine may be late, a clock of another machine may be off: six times missed is dead.
_STALE_AFTER = timedelta(seconds=6 * EVERY_S)


def shown_status(record: Mapping[str, Any], now: datetime) -> str:
    """Give the status of a run's record as it is now.

    Returns:
        Its status; ``"crashed"`` for one that says that it is running and has been silent for a
        minute.

    Example:
        >>> from datetime import UTC
        >>> record = {"status": "running", "heartbeat_at": "2025-01-01T10:00:00+00:00"}
        >>> shown_status(record, datetime(2025, 1, 1, 10, 2, tzinfo=UTC))
        'crashed'
    """
    if record["status"] != "running":
        return str(record["status"])
    is_alive = now - datetime.fromisoformat(record["heartbeat_at"]) <= _STALE_AFTER
    return "running" if is_alive else "crashed"


def is_under_way(record: Mapping[str, Any], now: datetime) -> bool:
    """Whether a run goes on: not where its process was on this machine and is not any more.

    Args:
        record: Of the run; `host` and `pid` tell who wrote it, where it has them.
        now: The time.
    """
    if shown_status(record, now) != "running":
        return False
    if "pid" not in record:
        return True
    # It wrote the record, so it was there.
    return not Owner(host=record["host"], pid=record["pid"], was_seen=True).is_gone()
