"""The commits of a table as one log, and what built on what. Pure."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from memorypipe.errors import HistoryGoneError, TableError
from memorypipe.table.records import RunRecord
from memorypipe.table.undone import UNDO_KIND, reopened_numbers, undone_numbers

__all__ = ["Revision", "RunLog", "Trace", "microseconds_of", "trace"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN = 5


def microseconds_of(moment: datetime) -> int:
    """Give a time in microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


class RunLog:
    """The commits of a table.

    Args:
        runs: All of them, oldest first.
    """

    def __init__(self, runs: Sequence[RunRecord]) -> None:
        self.runs = runs
        self.by_number = {run.number: run for run in runs}
        self.off = undone_numbers(runs)
        self.reopened = reopened_numbers(runs)
        self.thinned = {number for run in runs for number in run.thins}
        self._by_time = {microseconds_of(run.committed_at): run for run in runs}

    def parts_of(self, run_id: str) -> list[RunRecord]:
        """Find the commits of a run.

        Raises:
            TableError: If the table has none.
        """
        if found := [run for run in self.runs if run.run_id == run_id]:
            return found
        known = ", ".join(repr(run.run_id) for run in self.runs[: -_SHOWN - 1 : -1]) or "none"
        raise TableError(
            f"The table has no run {run_id!r}; its newest ones are {known}. "
            "`table.runs()` lists all."
        )

    def at(self, commit_us: int) -> RunRecord:
        """Find the commit of a time, in microseconds since 1970.

        Raises:
            TableError: If the table has none.
        """
        try:
            return self._by_time[commit_us]
        except KeyError:
            moment = _EPOCH + timedelta(microseconds=commit_us)
            raise TableError(
                f"The table has no run row of the commit at {moment.isoformat()}."
            ) from None

    def undid(self, number: int) -> RunRecord:
        """Find the undo because of which a commit does not count."""
        standing = (run for run in reversed(self.runs) if run.number not in self.off)
        return next(run for run in standing if number in run.undoes)

    def times_us(self, numbers: Collection[int]) -> set[int]:
        """Give the times of commits, in microseconds since 1970."""
        known = (self.by_number[number] for number in numbers if number in self.by_number)
        return {microseconds_of(run.committed_at) for run in known}


@dataclass(frozen=True, slots=True, order=True)
class Revision:
    """One revision of one record: its number, when it was written, and where its row is."""

    revision: int
    written_us: int
    row: int


@dataclass(frozen=True, kw_only=True)
class Trace:
    """What undoing some commits means for one record.

    Attributes:
        before: Row of the revision to go back to; None where there was none.
        current: Row of the revision that stands.
        built_on: Numbers of later commits that built on the ones to undo.
    """

    before: int | None
    current: int
    built_on: frozenset[int]


def trace(revisions: Sequence[Revision], log: RunLog, undone_us: Collection[int]) -> Trace | None:
    """Trace one record back.

    A commit that was undone has built on nothing, and neither has its undo: together they left
    the record as it was. An undo that reached further back than the commits here has.

    Args:
        revisions: All revisions of the record.
        log: The commits.
        undone_us: Times of the commits to undo, in microseconds since 1970.

    Returns:
        None where they did not touch it.

    Raises:
        HistoryGoneError: If the revision to go back to is not kept.
    """
    ordered = sorted(revisions)
    first = next((n for n, each in enumerate(ordered) if each.written_us in undone_us), None)
    if first is None:
        return None
    start = ordered[first]
    before = ordered[first - 1] if first else None
    if start.revision > 1 and (before is None or before.revision != start.revision - 1):
        raise HistoryGoneError(
            f"Revision {start.revision - 1} of a memory that the run changed is not kept any "
            "more: what the run did can no longer be undone."
        )
    built_on = frozenset(_built_on(ordered, log, undone_us, start.written_us))
    return Trace(
        before=None if before is None else before.row, current=ordered[-1].row, built_on=built_on
    )


def _built_on(
    ordered: Sequence[Revision], log: RunLog, undone_us: Collection[int], start_us: int
) -> Iterator[int]:
    times = {each.written_us for each in ordered}
    for each in ordered:
        if each.written_us <= start_us or each.written_us in undone_us:
            continue
        run = log.at(each.written_us)
        if run.number in log.off:
            continue
        undid = log.times_us(run.undoes) & times
        if run.kind != UNDO_KIND or (undid and min(undid) < start_us):
            yield run.number
