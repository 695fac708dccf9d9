"""Artifacts of runs beside a table: which of them are old enough to go.

What a run that is not committed needs is kept, however old: its plan waits to be applied, or it
can be taken up again without paying twice.
"""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memorypipe.llm.batch.records import BatchFolder
from memorypipe.llm.journal.catalog import SEGMENT_SUFFIX
from memorypipe.llm.journal.files import claim, index_path
from memorypipe.llm.journal.types import JournalSettings
from memorypipe.table.file_stats import written_at
from memorypipe.table.run_folders import FoundRun, list_runs
from memorypipe.table.run_status import is_under_way

__all__ = ["Artifacts", "remove_artifacts"]


@dataclass(frozen=True, kw_only=True)
class Artifacts:
    """What went, and what was kept on purpose.

    Attributes:
        runs: Folders of runs.
        batches: Records of batches.
        segments: Segments of the journal.
        kept_runs: Folders of runs that are not committed.
    """

    runs: int = 0
    batches: int = 0
    segments: int = 0
    kept_runs: int = 0


def remove_artifacts(
    folder: Path, committed: Mapping[str, datetime], *, ttl: timedelta, now: datetime
) -> Artifacts:
    """Remove the artifacts of runs that were committed long ago.

    Args:
        folder: Of the table.
        committed: Run id to the time of its commit (UTC), for all runs in the table.
        ttl: How long artifacts are kept after that.
        now: The time (UTC).
    """
    found = list(list_runs(folder))
    old = [run for run in found if _is_old(run, committed, now - ttl, now)]
    waiting = [run for run in found if not _is_done(run, committed) and not run.is_scratch]
    for run in old:
        shutil.rmtree(run.path)
    return Artifacts(
        runs=len(old),
        batches=_remove_batches(folder, {run.path.name for run in found} - _names(old), now - ttl),
        segments=_remove_segments(folder / "journal", waiting, now - ttl, now),
        kept_runs=len(waiting),
    )


def _names(runs: Iterable[FoundRun]) -> set[str]:
    return {run.path.name for run in runs}


def _is_done(run: FoundRun, committed: Mapping[str, datetime]) -> bool:
    return run.path.name in committed or run.is_committed


def _is_old(
    run: FoundRun, committed: Mapping[str, datetime], before: datetime, now: datetime
) -> bool:
    if run.record is not None and is_under_way(run.record, now):
        return False
    if run.is_scratch:
        return run.written_at <= before
    # A run with nothing to commit has no commit: the end of its folder's writing stands for it.
    return _is_done(run, committed) and committed.get(run.path.name, run.written_at) <= before


def _remove_batches(folder: Path, kept_runs: set[str], before: datetime) -> int:
    """Remove the records of batches that have ended, with their runs; what is open stays."""
    if not (folder / "batches").is_dir():
        return 0
    batches = BatchFolder(folder / "batches")
    removed = 0
    for record in batches.records():
        moment = written_at(batches.file(record.name, "json"))
        if moment is None or moment > before:
            continue
        if not record.is_open and record.run_id not in kept_runs:
            batches.drop(record)
            removed += 1
    return removed


def _remove_segments(
    journal: Path, waiting: Iterable[FoundRun], before: datetime, now: datetime
) -> int:
    """Remove segments that were finished long ago, unless a run that waits may need them."""
    needed_from = min((_started_at(run) for run in waiting), default=None)
    finished_after_s = JournalSettings().finished_after_s
    removed = 0
    for path in sorted(journal.glob(f"*{SEGMENT_SUFFIX}")):
        moment = written_at(path)
        if moment is None or moment > before:
            continue
        if needed_from is not None and moment >= needed_from:
            continue
        with claim(path, now=now.timestamp(), finished_after_s=finished_after_s) as is_free:
            if is_free and written_at(path) == moment:
                path.unlink()
                index_path(path).unlink(missing_ok=True)
                removed += 1
    return removed


def _started_at(run: FoundRun) -> datetime:
    """Give when a run began; of one without a record all that is known is that it is there."""
    if run.record is not None and "started_at" in run.record:
        return datetime.fromisoformat(run.record["started_at"]).astimezone(UTC)
    return datetime.min.replace(tzinfo=UTC)
