"""Guards: a run that would delete much of a scope is held back there until somebody agrees."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from memorypipe.errors import InvalidArgumentError
from memorypipe.table.live_rows import live_rows
from memorypipe.table.storage import Snapshot, Where
from memorypipe.table.transaction import runs_where

__all__ = ["GUARD_PREFIX", "Guards", "MaxRetired", "guarded_reasons"]

GUARD_PREFIX = "guard: "
"""How the reason of a scope begins that a guard held back."""

MaxRetired = int | Literal["auto"] | None

_ALWAYS_ALLOWED = 10


@dataclass(frozen=True, kw_only=True)
class Guards:
    """How many memories of one scope a run may delete.

    Attributes:
        max_retired: At most so many; ``"auto"``: 10, or half of the live ones where that is
            more; None: as many as it likes.
        accepted: Keys of scopes in which it may delete as many as it likes.

    Raises:
        InvalidArgumentError: For a `max_retired` that is none of these.
    """

    max_retired: MaxRetired = "auto"
    accepted: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        value = self.max_retired
        is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if not (value is None or value == "auto" or is_count):
            raise InvalidArgumentError(
                f"max_retired must be 0 or more, 'auto' or None for no limit, got {value!r}."
            )

    def limit(self, live: int) -> int | None:
        """Give the most that may be deleted of so many live memories; None: all.

        Example:
            >>> Guards().limit(10), Guards().limit(50), Guards(max_retired=3).limit(50)
            (10, 25, 3)
        """
        if self.max_retired == "auto":
            return max(_ALWAYS_ALLOWED, live // 2)
        return self.max_retired

    @property
    def floor(self) -> int | None:
        """What is allowed in every scope, however few memories it has."""
        return self.limit(0)


def guarded_reasons(
    snapshot: Snapshot, run_id: str, retired: Mapping[str, int], guards: Guards, now: datetime
) -> dict[str, str]:
    """Find the scopes in which a run would delete too much.

    Memories that earlier parts of the run deleted count as deleted by it, and as live before.

    Args:
        snapshot: What the run is committed to.
        run_id: The run.
        retired: Scope key to the number of live memories that this commit would delete.
        guards: The limits.
        now: What has expired by then (UTC) is not live.

    Returns:
        Scope key to the reason.
    """
    asked = {key: count for key, count in retired.items() if key not in guards.accepted}
    if guards.floor is None or not asked:
        return {}
    total = Counter(asked) + _earlier(snapshot, run_id, asked)
    suspects = {key: count for key, count in total.items() if count > guards.floor}
    if not suspects:
        return {}
    live = Counter(_live(snapshot, suspects, now))
    reasons = {}
    for key, count in suspects.items():
        before = live[key] + count - asked[key]
        limit = guards.limit(before)
        if limit is not None and count > limit:
            reasons[key] = (
                f"{GUARD_PREFIX}{count} of {before} memories would be deleted, the limit is "
                f"{limit}; look at the plan, then let this scope through with accept_guards, or "
                "set another max_retired"
            )
    return reasons


def _live(snapshot: Snapshot, scope_keys: Collection[str], now: datetime) -> list[str]:
    rows = live_rows(snapshot, scope_keys, ["scope_key"], commit_time=None, now=now)
    listed: list[str] = rows["scope_key"].to_pylist()
    return listed


def _earlier(snapshot: Snapshot, run_id: str, scope_keys: Collection[str]) -> Counter[str]:
    """Count what earlier parts of a run deleted."""
    found: Counter[str] = Counter()
    for part in runs_where(snapshot, run_id=run_id):
        where = Where(scope_keys=scope_keys, events=["DELETE"], touched_at=part.committed_at)
        rows = snapshot.scan(["scope_key", "valid_from"], where).to_pylist()
        found.update(row["scope_key"] for row in rows if row["valid_from"] == part.committed_at)
    return found
