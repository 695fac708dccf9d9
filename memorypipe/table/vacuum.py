"""Vacuum: drop what has expired, and what nobody names any more."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe import ids
from memorypipe.errors import InvalidArgumentError
from memorypipe.schema import TIME, table_schema
from memorypipe.table.artifacts import Artifacts, remove_artifacts
from memorypipe.table.erasing.files import local_folder
from memorypipe.table.file_stats import size_bytes
from memorypipe.table.ledger import remove_ledgers, unnamed_ledgers
from memorypipe.table.records import RunRecord, Settings
from memorypipe.table.staging import remove_stale
from memorypipe.table.storage import ADDRESS, Snapshot, Storage, Where
from memorypipe.table.times import Clock, next_commit_time, read_clock
from memorypipe.table.transaction import CommitResult, Transaction, runs_where, transact

__all__ = ["DEFAULT_OLDER_THAN", "VacuumCommit", "VacuumReport", "expired_rows", "vacuum"]

DEFAULT_OLDER_THAN = timedelta(days=1)
"""What no version names may belong to a commit that is being made, until it is this old."""

_COLUMNS = (ADDRESS, "is_current", "valid_from", "valid_to", "revision_expires_at")


@dataclass(frozen=True, kw_only=True)
class VacuumReport:
    """What a vacuum did.

    Attributes:
        version: The table's version afterwards.
        revisions: Superseded revisions that were dropped.
        ledgers: Ledger files that no run names.
        runs: Folders of runs: plans, windows, facts, rejects, reports.
        batches: Records of batches.
        segments: Segments of the reply journal beside the table.
        kept_runs: Folders of runs that are not committed; they are never removed.
        size_before: Of everything in the table's folder, in bytes; None in an object store.
        size_after: The same afterwards.
    """

    version: int
    revisions: int = 0
    ledgers: int = 0
    runs: int = 0
    batches: int = 0
    segments: int = 0
    kept_runs: int = 0
    size_before: int | None = None
    size_after: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give the report as JSON values."""
        return asdict(self)


class VacuumCommit:
    """Builds the commit that drops expired revisions.

    Args:
        version: Of the table, when it was asked for.
        now: Revisions that expired by then go (UTC).
    """

    part = 0

    def __init__(self, *, version: int, now: datetime) -> None:
        self._now = now
        self.content_hash = ids.digest("vacuum", version).hex()
        self.run_id = "vacuum_" + ids.digest("vacuum", version, size=12).hex()
        self.revisions = 0

    def build(self, snapshot: Snapshot, clock: Clock) -> Transaction | CommitResult:
        """Find what has expired, and take it out; horizons move to what is whole.

        What runs without revisions superseded moves the history horizon alone: only the runs that
        had written it cannot be undone any more, and the commit's run row names them.
        """
        head = snapshot.head
        rows = expired_rows(snapshot.scan(_COLUMNS, Where()), head.settings, self._now)
        self.revisions = rows.num_rows
        if not rows.num_rows:
            return CommitResult(outcome="nothing", version=head.number)
        runs = runs_where(snapshot)
        unkept = [run.committed_at for run in runs if not run.has_revisions]
        early = pc.is_in(rows["valid_to"], pa.array(unkept, TIME))
        written = set(pc.unique(rows["valid_from"].filter(early)).to_pylist())
        settings = replace(
            head.settings,
            history_horizon=_latest(rows["valid_to"], head.settings.history_horizon),
            revisions_horizon=_latest(
                rows["valid_to"].filter(pc.invert(early)), head.settings.revisions_horizon
            ),
        )
        return Transaction(
            closed=rows[ADDRESS].combine_chunks(),
            rows=table_schema(head.vector_dim).empty_table(),
            run=RunRecord(
                run_id=self.run_id,
                part=self.part,
                kind="vacuum",
                number=head.number + 1,
                committed_at=next_commit_time(clock, head.committed_at),
                content_hash=self.content_hash,
                info={"revisions": rows.num_rows},
                thins=tuple(run.number for run in runs if run.committed_at in written),
            ),
            settings=settings,
        )


def expired_rows(rows: pa.Table, settings: Settings, now: datetime) -> pa.Table:
    """Keep the superseded revisions that have expired.

    Args:
        rows: With `is_current`, `valid_to` and `revision_expires_at`.
        settings: Of the table: what has no time of its own, as rows of the first version of the
            format, expires so long after it was superseded.
        now: What expires at or before it has expired.
    """
    expires_at = rows["revision_expires_at"]
    if settings.revision_ttl_days is not None:
        ttl = pa.scalar(timedelta(days=settings.revision_ttl_days), pa.duration("us"))
        expires_at = pc.coalesce(expires_at, pc.add(rows["valid_to"], ttl))
    has_expired = pc.fill_null(pc.less_equal(expires_at, pa.scalar(now, TIME)), False)
    return rows.filter(pc.and_not(has_expired, rows["is_current"]))


def _latest(moments: pa.ChunkedArray, other: datetime | None) -> datetime | None:
    latest: datetime | None = pc.max(moments).as_py()
    return max((each for each in (latest, other) if each is not None), default=None)


def vacuum(
    storage: Storage, uri: str, *, clock: Clock, older_than: timedelta = DEFAULT_OLDER_THAN
) -> VacuumReport:
    """Drop expired revisions, unreferenced files and old artifacts.

    Args:
        storage: The back end.
        uri: Of the table.
        clock: Of the table.
        older_than: Old versions, and files that no version names, go from this age on; commits
            must take less.

    Raises:
        InvalidArgumentError: For a negative `older_than`.
    """
    if older_than < timedelta(0):
        raise InvalidArgumentError(f"older_than must not be negative, got {older_than!r}.")
    now = read_clock(clock)
    folder = local_folder(uri)
    size_before = None if folder is None else size_bytes(folder)
    commit = VacuumCommit(version=storage.snapshot().head.number, now=now)
    transact(storage, commit, clock)
    storage.clean(older_than=older_than)
    snapshot = storage.snapshot()
    runs = runs_where(snapshot)
    ledgers = _remove_orphans(uri, runs, before=now - older_than)
    if folder is not None:
        remove_stale(folder, before=now - older_than)
    artifacts = Artifacts()
    ttl_days = snapshot.head.settings.artifact_ttl_days
    if folder is not None and ttl_days is not None:
        committed = {run.run_id: run.committed_at for run in runs}
        ttl = timedelta(days=ttl_days)
        artifacts = remove_artifacts(folder, committed, ttl=ttl, now=now)
    return VacuumReport(
        version=snapshot.head.number,
        revisions=commit.revisions,
        ledgers=ledgers,
        **asdict(artifacts),
        size_before=size_before,
        size_after=None if folder is None else size_bytes(folder),
    )


def _remove_orphans(uri: str, runs: Iterable[RunRecord], *, before: datetime) -> int:
    """Remove ledger files that no run names; what is young may belong to a commit under way."""
    unnamed = unnamed_ledgers(uri, {run.ledger for run in runs})
    orphans = [name for name, written_at in unnamed.items() if written_at <= before]
    remove_ledgers(uri, orphans)
    return len(orphans)
