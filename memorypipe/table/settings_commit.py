"""A commit that changes nothing but the table's settings."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from memorypipe import ids
from memorypipe.errors import InvalidArgumentError
from memorypipe.schema import table_schema
from memorypipe.table.erasing.erased import erased_name
from memorypipe.table.records import RunRecord, Settings
from memorypipe.table.storage import ADDRESS, Snapshot, Where
from memorypipe.table.times import Clock, next_commit_time
from memorypipe.table.transaction import CommitResult, Transaction

__all__ = ["SettingsCommit", "check_days", "unblocked"]


class SettingsCommit:
    """Builds a commit of new settings; where they are as wanted already, there is none.

    Args:
        kind: Of the commit.
        change: Makes the new settings of the present ones.
        version: Of the table, when the change was asked for.
        info: Kept in the run row; with the kind it tells one change from another.
    """

    part = 0

    def __init__(
        self,
        kind: str,
        change: Callable[[Settings], Settings],
        *,
        version: int,
        info: Mapping[str, Any],
    ) -> None:
        self._kind = kind
        self._change = change
        self._info = info
        self.content_hash = ids.digest(kind, info).hex()
        self.run_id = f"{kind}_" + ids.digest(kind, info, version, size=12).hex()

    def build(self, snapshot: Snapshot, clock: Clock) -> Transaction | CommitResult:
        """Change the settings of the snapshot."""
        head = snapshot.head
        settings = self._change(head.settings)
        if settings == head.settings:
            return CommitResult(outcome="nothing", version=head.number)
        nothing = snapshot.scan([ADDRESS], Where(memory_ids=()))[ADDRESS].combine_chunks()
        return Transaction(
            closed=nothing,
            rows=table_schema(head.vector_dim).empty_table(),
            run=RunRecord(
                run_id=self.run_id,
                part=self.part,
                kind=self._kind,
                number=head.number + 1,
                committed_at=next_commit_time(clock, head.committed_at),
                content_hash=self.content_hash,
                info=self._info,
            ),
            settings=settings,
        )


def unblocked(settings: Settings, scope_key: str) -> Settings:
    """Let an erased scope take things in again."""
    gone = erased_name(scope_key)
    return replace(settings, erased=tuple(name for name in settings.erased if name != gone))


def check_days(name: str, days: int | None) -> None:
    """Check a number of days; None is for ever.

    Raises:
        InvalidArgumentError: For anything but a whole number from 0 on.
    """
    if days is not None and (not isinstance(days, int) or isinstance(days, bool) or days < 0):
        raise InvalidArgumentError(
            f"{name} must be a whole number of days, 0 or more, or None for ever, got {days!r}."
        )
