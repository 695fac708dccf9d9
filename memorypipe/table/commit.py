"""The commit of a batch of actions: fold it against what the table holds, close, write."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.errors import ConflictError
from memorypipe.table.actions import Batch
from memorypipe.table.fold import Conflict, Folded, Known, fold, index_known
from memorypipe.table.ledger import write_ledger
from memorypipe.table.records import RunRecord
from memorypipe.table.rows import Stamp, closing_rows, new_rows
from memorypipe.table.storage import ADDRESS, Snapshot
from memorypipe.table.times import Clock, next_commit_time
from memorypipe.table.transaction import CommitResult, Transaction, moment_of

__all__ = ["BatchCommit", "CommitRequest"]

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


class BatchCommit:
    """Builds the commit of one batch of actions.

    Args:
        uri: Of the table, for the ledger file.
        request: What to do.
    """

    def __init__(self, uri: str, request: CommitRequest) -> None:
        self._request = request
        self._ledger = _LedgerFile(uri, request)
        self.run_id = request.run_id
        self.part = request.part
        self.content_hash = request.content_hash

    def build(self, snapshot: Snapshot, clock: Clock) -> Transaction | CommitResult:
        """Fold the batch against the snapshot.

        Raises:
            ConflictError: If memories changed or are not there, unless `on_conflict` is
                ``"skip"``.
        """
        request = self._request
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
        moment = next_commit_time(clock, snapshot.head.committed_at)
        run = replace(
            self._record(folded, snapshot.head.number + 1, moment),
            held_back=held_back,
            ledger=ledger,
            ledger_rows=ledger_rows,
        )
        return self._transaction(snapshot.head.vector_dim, folded, known, run)

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

    def _record(self, folded: Folded, number: int, moment: datetime) -> RunRecord:
        request, actions = self._request, self._request.batch.actions
        events = [change.event for change in folded.changes]
        return RunRecord(
            run_id=request.run_id,
            part=request.part,
            number=number,
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

    def _transaction(
        self, vector_dim: int, folded: Folded, known: Known, run: RunRecord
    ) -> Transaction:
        closed = [change.base for change in folded.changes if change.base is not None]
        base = known.rows.take(pa.array(closed, pa.int64()))
        stamp = Stamp(moment=run.committed_at, run_id=run.run_id, labels=run.labels)
        new = new_rows(
            self._request.batch,
            folded.changes,
            base.drop_columns([ADDRESS]),
            stamp=stamp,
            vector_dim=vector_dim,
        )
        return Transaction(
            closed=base[ADDRESS].combine_chunks(),
            rows=pa.concat_tables([closing_rows(base, run.committed_at, vector_dim), new]),
            run=run,
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
