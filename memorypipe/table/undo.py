"""Undo: one commit that takes back what a run did.

Every memory that the run touched goes back to the revision before it, as a new revision: nothing
is erased, and an undo can be undone in turn.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe import ids
from memorypipe.errors import HistoryGoneError, TableError, UndoConflictError
from memorypipe.table.blocks import FORGET_EVENT
from memorypipe.table.forget import FORGET_KIND
from memorypipe.table.records import RunRecord
from memorypipe.table.revisions import emptied, replacing, revised
from memorypipe.table.rows import Stamp
from memorypipe.table.run_log import Revision, RunLog, Trace, trace
from memorypipe.table.storage import Snapshot, Where
from memorypipe.table.times import Clock, next_commit_time
from memorypipe.table.transaction import CommitResult, Transaction, result_of, runs_where
from memorypipe.table.undone import UNDO_KIND, numbered

__all__ = ["Undo", "make_undo"]

# Commits that wrote revisions and nothing that cannot be taken back.
_UNDOABLE = frozenset({"commit", "import", FORGET_KIND, "restore", UNDO_KIND})

_EVENT = "UNDO"

_SHOWN = 5


def make_undo(
    snapshot: Snapshot,
    run_id: str,
    *,
    reopen: bool,
    cascade: bool,
    labels: Mapping[str, str] | None,
) -> "Undo":
    """Prepare the undo of a run under a name that is free."""
    taken = snapshot.scan(["memory_id"], Where(record_type="run"))["memory_id"].to_pylist()
    name = numbered(UNDO_KIND, run_id, taken)
    return Undo(run_id=name, target=run_id, reopen=reopen, cascade=cascade, labels=labels)


@dataclass(frozen=True, kw_only=True)
class Undo:
    """Builds the commit that takes a run back.

    Attributes:
        run_id: Of the undo itself.
        target: The run to undo, all its parts.
        reopen: Whether the messages that it dealt with are open for the next run again.
        cascade: Whether later runs that built on it are undone with it.
        labels: For the run row and every new revision.
    """

    run_id: str
    target: str
    reopen: bool = False
    cascade: bool = False
    labels: Mapping[str, str] | None = None
    part: int = field(default=0, init=False)

    @property
    def content_hash(self) -> str:
        """Of what is asked."""
        return ids.digest(UNDO_KIND, self.target, self.reopen).hex()

    def build(self, snapshot: Snapshot, clock: Clock) -> Transaction | CommitResult:
        """Build the commit.

        Raises:
            UndoConflictError: If later runs built on it, unless `cascade`.
            HistoryGoneError: If what was before it is not kept.
            TableError: If there is no such run, or it cannot be undone.
        """
        log = RunLog(runs_where(snapshot))
        parts = {run.number for run in log.parts_of(self.target)}
        targets = parts - log.off
        if not targets and not self._reopens(log, parts):
            return result_of(log.undid(max(parts)), "already_landed")
        rows, traces = self._trace_back(snapshot, log, targets)
        moment = next_commit_time(clock, snapshot.head.committed_at)
        stamp = Stamp(moment=moment, run_id=self.run_id, labels=self.labels)
        current, new = _restored(rows, traces, stamp, snapshot.head.vector_dim)
        run = RunRecord(
            run_id=self.run_id,
            part=self.part,
            kind=UNDO_KIND,
            number=snapshot.head.number + 1,
            committed_at=moment,
            content_hash=self.content_hash,
            **_counts(current, new),
            labels=self.labels,
            undoes=tuple(sorted(targets, reverse=True)),
            reopens=tuple(self._reopens(log, targets | parts)),
        )
        return replacing(current, new, run=_with_names(run, log), head=snapshot.head)

    def _reopens(self, log: RunLog, numbers: Collection[int]) -> list[int]:
        if not self.reopen:
            return []
        return [
            number
            for number in sorted(numbers, reverse=True)
            if log.by_number[number].ledger is not None and number not in log.reopened
        ]

    def _trace_back(
        self, snapshot: Snapshot, log: RunLog, targets: set[int]
    ) -> tuple[pa.Table, list[Trace]]:
        """Find what to go back to; with `cascade`, put the runs that built on them to `targets`.

        But no cascade takes back what somebody forgot: those memories stay as they are.
        """
        touched: set[str] = set()
        new = set(targets)
        asked_us = log.times_us(targets)
        while True:
            for number in new:
                _check_undoable(log.by_number[number], log, snapshot)
                where = Where(touched_at=log.by_number[number].committed_at)
                touched.update(snapshot.scan(["memory_id"], where)["memory_id"].to_pylist())
            rows = snapshot.locate(
                pa.array(sorted(touched), pa.string()), pa.array([], pa.string())
            )
            traces = _traces(rows, log, log.times_us(targets), asked_us if self.cascade else None)
            found = frozenset[int]().union(*(each.built_on for each in traces))
            if found and not self.cascade:
                raise _conflict(self.target, log, found)
            builders = [log.by_number[number] for number in found]
            ids_ = {run.run_id for run in builders if run.kind != FORGET_KIND}
            if not ids_:
                return rows, traces
            # All parts of a run go together.
            new = {run.number for run in log.runs if run.run_id in ids_} - log.off - targets
            targets |= new


def _check_undoable(run: RunRecord, log: RunLog, snapshot: Snapshot) -> None:
    if run.kind not in _UNDOABLE:
        raise TableError(f"Run {run.run_id!r} cannot be undone: it is of kind {run.kind!r}.")
    if not run.has_revisions:
        raise HistoryGoneError(
            f"Run {run.run_id!r} cannot be undone: it was committed with revisions=False."
        )
    if run.number in log.thinned:
        raise HistoryGoneError(
            f"Run {run.run_id!r} cannot be undone: a later run with revisions=False changed what "
            "it did, and what was before that is not kept any more."
        )
    horizon = snapshot.head.settings.revisions_horizon
    if horizon is not None and run.committed_at <= horizon:
        raise HistoryGoneError(
            f"Run {run.run_id!r} of {run.committed_at.isoformat()} cannot be undone: what was "
            f"superseded up to {horizon.isoformat()} is not kept any more.",
            horizon,
        )


def _conflict(target: str, log: RunLog, found: Collection[int]) -> UndoConflictError:
    names = dict.fromkeys(log.by_number[number].run_id for number in sorted(found, reverse=True))
    shown = ", ".join(map(repr, list(names)[:_SHOWN])) + (", …" if len(names) > _SHOWN else "")
    return UndoConflictError(
        f"Run {target!r} cannot be undone alone: {len(names)} later "
        f"{'run' if len(names) == 1 else 'runs'} built on what it did ({shown}). Undo them first, "
        "newest first, or undo them with it: cascade=True (--cascade), which leaves forgotten what "
        "was forgotten since.",
        tuple(names),
    )


def _traces(
    rows: pa.Table, log: RunLog, undone_us: Collection[int], asked_us: Collection[int] | None
) -> list[Trace]:
    """Trace all records back; those that others than `asked_us` forgot stand still."""
    records: defaultdict[tuple[str, str], list[Revision]] = defaultdict(list)
    names = ("record_type", "memory_id", "revision")
    columns = [rows[name].to_pylist() for name in names]
    written = rows["valid_from"].cast(pa.int64()).to_pylist()
    for row, (kind, name, revision, us) in enumerate(zip(*columns, written, strict=True)):
        records[kind, name].append(Revision(revision, us, row))
    forgets = pc.equal(rows["event"], FORGET_EVENT).to_pylist()
    traces = []
    for revisions in records.values():
        found = trace(revisions, log, undone_us)
        if found is not None and asked_us is not None:
            forgot_us = _forgotten_us(revisions, forgets)
            if forgot_us is not None and forgot_us not in asked_us:
                found = replace(found, before=found.current, built_on=frozenset())
        traces.append(found)
    return [each for each in traces if each is not None]


def _forgotten_us(revisions: Sequence[Revision], forgets: Sequence[bool]) -> int | None:
    """Tell since when a record is forgotten; None where it is not."""
    since = None
    for each in sorted(revisions, reverse=True):
        if not forgets[each.row]:
            break
        since = each.written_us
    return since


def _restored(
    rows: pa.Table, traces: list[Trace], stamp: Stamp, vector_dim: int
) -> tuple[pa.Table, pa.Table]:
    """Make the revisions that go back; with the current ones, in the same order."""
    old = [each for each in traces if each.before is not None]
    added = [each for each in traces if each.before is None]
    back = rows.take(pa.array([each.before for each in old], pa.int64()))
    current = rows.take(pa.array([each.current for each in (*old, *added)], pa.int64()))
    gone = emptied(current.slice(len(old)), stamp.moment)
    content = pa.concat_tables([back, gone])
    # A tombstone that comes back says what made it one: what was forgotten blocks again.
    said = pa.chunked_array([*back["event"].chunks, pa.repeat(_EVENT, gone.num_rows)])
    events = pc.if_else(content["deleted"], said, _EVENT)
    new = revised(content, current, events=events, stamp=stamp, vector_dim=vector_dim)
    return current, new


def _counts(current: pa.Table, new: pa.Table) -> dict[str, Any]:
    pairs = Counter(zip(current["deleted"].to_pylist(), new["deleted"].to_pylist(), strict=True))
    return {
        "added": pairs[True, False],
        "updated": pairs[False, False],
        "deleted": pairs[False, True],
    }


def _with_names(run: RunRecord, log: RunLog) -> RunRecord:
    """Say in `info` which runs were undone, and whose messages are open again."""
    told = {
        name: list(dict.fromkeys(log.by_number[number].run_id for number in numbers))
        for name, numbers in (("undoes", run.undoes), ("reopens", run.reopens))
    }
    return replace(run, info=told)
