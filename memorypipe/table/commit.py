"""The commit protocol: fold, write, compare-and-swap, and what to do when that fails.

An attempt lands, surely does not land, or leaves it unknown. After the last two, a fresh snapshot
decides: if the run row is there, the commit has landed, whoever it was that brought it there.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.errors import (
    ConflictError,
    InvalidArgumentError,
    RunConflictError,
    TableError,
    TableVersionError,
)
from memorypipe.schema import TABLE_FORMAT_VERSION
from memorypipe.table.actions import Batch
from memorypipe.table.fold import Conflict, Folded, Known, fold, index_known
from memorypipe.table.ledger import write_ledger
from memorypipe.table.records import RunRecord, head_row, read_runs, run_row
from memorypipe.table.rows import Stamp, closing_rows, new_rows
from memorypipe.table.storage import (
    ADDRESS,
    RaceLostError,
    Snapshot,
    Storage,
    UnknownOutcomeError,
    Where,
)
from memorypipe.table.times import Clock, next_commit_time

__all__ = ["CommitRequest", "CommitResult", "commit", "moment_of", "runs_where"]

_RUN_COLUMNS = ("run_id", "revision", "valid_from", "model", "prompt_hash", "labels", "payload")

# Every lost race means that another commit landed, so a loser moves on; this many in a row say
# that something else is wrong.
_MAX_RACES = 100
_MAX_UNKNOWN = 3

# How many memory ids an error names.
_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class CommitRequest:
    """What one commit is asked to do.

    Attributes:
        batch: Its actions.
        ledger: Schema `LEDGER`; may be empty.
        content_hash: Of both.
        run_id: Names the run.
        part: Which of several commits under one run id, from 0.
        base_version: Commit number that the actions were decided against; None: no check.
        info: Kept in the run row.
        labels: Kept in the run row and on every new revision.
        on_conflict: Raise, or hold the scopes back.
    """

    batch: Batch
    ledger: pa.Table
    content_hash: str
    run_id: str
    part: int
    base_version: int | None
    info: Mapping[str, Any]
    labels: Mapping[str, str] | None
    on_conflict: Literal["raise", "skip"]


@dataclass(frozen=True, kw_only=True)
class CommitResult:
    """What became of a commit.

    Attributes:
        outcome: ``"landed"``; ``"already_landed"``: the run was in the table, nothing changed;
            ``"nothing"``: there was nothing to commit, nothing changed.
        version: The table's version that holds the commit, or the newest for ``"nothing"``.
        added: Memories added.
        updated: Memories updated.
        deleted: Memories deleted.
        none: Actions that changed nothing.
        duplicates: Of `none`, ADDs of what a live memory of their scope says already.
        ids: Provisional id of an ADD to the id of the memory that says it, where they differ.
        held_back: Scope key to the reason why none of its actions were taken, and none of its
            ledger rows.
    """

    outcome: Literal["landed", "already_landed", "nothing"]
    version: int
    added: int = 0
    updated: int = 0
    deleted: int = 0
    none: int = 0
    duplicates: int = 0
    ids: Mapping[str, str] = field(default_factory=dict)
    held_back: Mapping[str, str] = field(default_factory=dict)


def runs_where(snapshot: Snapshot, *, run_id: str | None = None) -> list[RunRecord]:
    """Read the run rows, oldest first; of one run, or all."""
    where = Where(record_type="run", memory_ids=None if run_id is None else [run_id])
    return read_runs(snapshot.scan(_RUN_COLUMNS, where))


def moment_of(snapshot: Snapshot, version: int) -> datetime:
    """Look up the commit time of a version.

    Raises:
        InvalidArgumentError: If the table has no such version.
    """
    head = snapshot.head
    if not 0 <= version <= head.number:
        raise InvalidArgumentError(
            f"The table has no version {version!r}; its versions are 0 to {head.number}."
        )
    if version == head.number:
        return head.committed_at
    if version == 0:
        return head.created_at
    runs = snapshot.scan(["revision", "valid_from"], Where(record_type="run"))
    moment: datetime = runs.filter(pc.equal(runs["revision"], version))["valid_from"][0].as_py()
    return moment


def commit(storage: Storage, uri: str, request: CommitRequest, clock: Clock) -> CommitResult:
    """Commit a batch: all of it in one atomic step, or nothing.

    Args:
        storage: The back end.
        uri: Of the table, for the ledger file.
        request: What to do.
        clock: Gives the commit time, read anew at each attempt.

    Raises:
        ConflictError: If memories changed or are not there, unless `on_conflict` is ``"skip"``.
        RunConflictError: If the run is in the table with other actions.
        TableVersionError: If the table is newer than this library.
        TableError: If it could not commit; the message says what is known.
    """
    races = 0
    unknown: list[UnknownOutcomeError] = []
    ledger = _LedgerFile(uri, request)
    while True:
        attempt = _Attempt(storage, request, ledger, clock)
        if (done := attempt.already_done(by_us=bool(unknown))) is not None:
            return done
        try:
            return attempt.run()
        except RaceLostError as error:
            races += 1
            if races >= _MAX_RACES:
                raise TableError(
                    f"Run {request.run_id!r} has not landed: {races} other commits came first. "
                    "Nothing was changed; try again."
                ) from error
        except UnknownOutcomeError as error:
            unknown.append(error)
            if len(unknown) >= _MAX_UNKNOWN:
                raise TableError(
                    f"Whether run {request.run_id!r} has landed is unknown: {error} Commit it "
                    "again with the same run_id: what has landed is not done twice."
                ) from error


class _LedgerFile:
    """The ledger file of a commit; attempts with the same rows share it."""

    def __init__(self, uri: str, request: CommitRequest) -> None:
        self._uri = uri
        self._run_id = request.run_id
        self._ledger = request.ledger
        self._held_back: frozenset[str] | None = None
        self._written: tuple[str | None, int] = (None, 0)

    def rows_without(self, held_back: frozenset[str]) -> pa.Table:
        held = pc.is_in(self._ledger["scope_key"], pa.array(sorted(held_back), pa.string()))
        return self._ledger.filter(pc.invert(held))

    def write(self, held_back: frozenset[str]) -> tuple[str | None, int]:
        """Write what belongs to scopes that are not held back; its name and number of rows."""
        if held_back != self._held_back:
            rows = self.rows_without(held_back)
            name = write_ledger(self._uri, rows, run_id=self._run_id) if rows.num_rows else None
            self._held_back, self._written = held_back, (name, rows.num_rows)
        return self._written


class _Attempt:
    """One attempt at a commit, against one snapshot."""

    def __init__(
        self, storage: Storage, request: CommitRequest, ledger: _LedgerFile, clock: Clock
    ) -> None:
        self._request = request
        self._ledger = ledger
        self._clock = clock
        self._snapshot = storage.snapshot()

    def already_done(self, *, by_us: bool) -> CommitResult | None:
        """Look for the run row."""
        request = self._request
        for run in runs_where(self._snapshot, run_id=request.run_id):
            if run.part != request.part:
                continue
            if run.content_hash != request.content_hash:
                raise RunConflictError(
                    f"Run {request.run_id!r} (part {request.part}) is in the table as version "
                    f"{run.number}, with other actions or ledger rows; use another run_id."
                )
            return _result(run, "landed" if by_us else "already_landed")
        return None

    def run(self) -> CommitResult:
        snapshot, request = self._snapshot, self._request
        _check_writable(snapshot)
        base_time = (
            None if request.base_version is None else moment_of(snapshot, request.base_version)
        )
        folded, known = _fold_until_known(snapshot, request.batch, base_time)
        held_back = self._held_back(folded)
        if not folded.changes and not self._ledger.rows_without(frozenset(held_back)).num_rows:
            return CommitResult(
                outcome="nothing",
                version=snapshot.head.number,
                none=folded.none,
                duplicates=folded.duplicates,
                ids=folded.ids,
                held_back=held_back,
            )
        ledger, ledger_rows = self._ledger.write(frozenset(held_back))
        moment = next_commit_time(self._clock, snapshot.head.committed_at)
        run = replace(
            self._record(folded, moment),
            held_back=held_back,
            ledger=ledger,
            ledger_rows=ledger_rows,
        )
        self._write(folded, known, run)
        return _result(run, "landed")

    def _held_back(self, folded: Folded) -> dict[str, str]:
        conflicts = folded.conflicts
        if conflicts and self._request.on_conflict == "raise":
            every = sorted({name for each in conflicts.values() for name in each.memory_ids})
            raise ConflictError(
                f"Run {self._request.run_id!r} was not committed: "
                f"{_describe(conflicts.values(), self._request.base_version)}. Plan again on the "
                'newest version, or commit with on_conflict="skip" to hold back the scopes of '
                "these memories.",
                every,
            )
        return {
            key: "conflict: " + _describe([conflict], self._request.base_version)
            for key, conflict in conflicts.items()
        }

    def _record(self, folded: Folded, moment: datetime) -> RunRecord:
        request, actions = self._request, self._request.batch.actions
        events = [change.event for change in folded.changes]
        return RunRecord(
            run_id=request.run_id,
            part=request.part,
            number=self._snapshot.head.number + 1,
            committed_at=moment,
            content_hash=request.content_hash,
            base_version=request.base_version,
            added=events.count("ADD"),
            updated=events.count("UPDATE"),
            deleted=events.count("DELETE"),
            none=folded.none,
            duplicates=folded.duplicates,
            ids=folded.ids,
            model=_only(actions["model"]),
            prompt_hash=_only(actions["prompt_hash"]),
            labels=request.labels,
            info=request.info,
        )

    def _write(self, folded: Folded, known: Known, run: RunRecord) -> None:
        head = self._snapshot.head
        closed = [change.base for change in folded.changes if change.base is not None]
        base = known.rows.take(pa.array(closed, pa.int64()))
        stamp = Stamp(moment=run.committed_at, run_id=run.run_id, labels=run.labels)
        rows = pa.concat_tables(
            [
                closing_rows(base, run.committed_at, head.vector_dim),
                new_rows(
                    self._request.batch,
                    folded.changes,
                    base.drop_columns([ADDRESS]),
                    stamp=stamp,
                    vector_dim=head.vector_dim,
                ),
                run_row(run, head.vector_dim),
            ]
        )
        self._snapshot.commit(
            closed=base[ADDRESS].combine_chunks(),
            rows=rows,
            head=head_row(head.after_commit(run.committed_at)),
        )


def _check_writable(snapshot: Snapshot) -> None:
    if snapshot.head.format_version > TABLE_FORMAT_VERSION:
        raise TableVersionError(
            f"The table has format version {snapshot.head.format_version}, this library writes "
            f"{TABLE_FORMAT_VERSION}: upgrade memorypipe to write to it. Reading goes on working."
        )


def _fold_until_known(
    snapshot: Snapshot, batch: Batch, base_time: datetime | None
) -> tuple[Folded, Known]:
    """Fold; where that needs ids which nobody looked up, look them up and fold again."""
    named = batch.actions["memory_id"].drop_null()
    hashes = pc.unique(batch.text_hash.filter(pc.equal(batch.actions["event"], "ADD")))
    wanted = set(named.to_pylist())
    while True:
        rows = snapshot.locate(pa.array(sorted(wanted), pa.string()), hashes)
        known = index_known(rows, wanted, batch)
        folded = fold(batch, known, base_time=base_time)
        if not folded.unseen:
            return folded, known
        wanted |= folded.unseen


def _describe(conflicts: Collection[Conflict], base_version: int | None) -> str:
    changed = sorted({name for each in conflicts for name in each.changed})
    absent = sorted({name for each in conflicts for name in each.absent})
    parts = []
    if changed:
        parts.append(f"{_some(changed)} changed after version {base_version}")
    if absent:
        parts.append(f"{_some(absent)} not in the scope of the action, or deleted")
    return "; ".join(parts)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    noun = "memory" if len(names) == 1 else "memories"
    return f"{len(names)} {noun} ({', '.join(map(repr, names[:_SHOWN]))}{more})"


def _only(column: pa.ChunkedArray) -> str | None:
    """Give the one value of a column; None where it has none, or several."""
    values = pc.unique(column.drop_null())
    return values[0].as_py() if len(values) == 1 else None


def _result(run: RunRecord, outcome: Literal["landed", "already_landed"]) -> CommitResult:
    return CommitResult(
        outcome=outcome,
        version=run.number,
        added=run.added,
        updated=run.updated,
        deleted=run.deleted,
        none=run.none,
        duplicates=run.duplicates,
        ids=run.ids,
        held_back=run.held_back,
    )
