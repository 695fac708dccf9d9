"""The commit of a batch of actions: fold it against what the table holds, close, write."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.errors import ConflictError
from memorypipe.table.actions import Batch
from memorypipe.table.blocks import read_blocks, without_blocked
from memorypipe.table.embedding import check_given
from memorypipe.table.erasing.erased import erased_reasons, without_scope_keys, without_scopes
from memorypipe.table.folding.changes import Conflict, Folded
from memorypipe.table.folding.fold import fold
from memorypipe.table.folding.index import Known
from memorypipe.table.guards import Guards, guarded_reasons
from memorypipe.table.ledger import write_ledger
from memorypipe.table.new_rows import new_rows
from memorypipe.table.records import Head, RunRecord
from memorypipe.table.reembed import REEMBED_KIND
from memorypipe.table.rows import Stamp, closing_rows, expired_by
from memorypipe.table.side_by_side import in_two
from memorypipe.table.storage import ADDRESS, Snapshot
from memorypipe.table.times import Clock, next_commit_time, revisions_expire_at
from memorypipe.table.transaction import CommitResult, Transaction, moment_of, runs_where
from memorypipe.table.vectors import one_chunk

__all__ = ["BatchCommit", "CommitRequest"]

# How many memory ids an error names.
_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class CommitRequest:
    """What one commit is asked to do.

    Attributes:
        batch: Its actions.
        ledger: Schema `LEDGER`; may be empty.
        content_hash: Gives the hash of both, which is begun with and needed late.
        run_id: Names the run.
        part: Which of several commits under one run id, from 0.
        base_version: Commit number that the actions were decided against; None: no check.
        info: Kept in the run row.
        labels: Kept in the run row and on every new revision.
        on_conflict: Raise, or hold the scopes back.
        has_revisions: Whether what it closes is kept for as long as the table says.
        guards: How much of a scope it may delete.
    """

    batch: Batch
    ledger: pa.Table
    content_hash: Callable[[], str]
    run_id: str
    part: int
    base_version: int | None
    info: Mapping[str, Any]
    labels: Mapping[str, str] | None
    on_conflict: Literal["raise", "skip"]
    has_revisions: bool = True
    guards: Guards = field(default_factory=Guards)


class _LedgerFile:
    """The ledger file of a commit; attempts with the same rows share it."""

    def __init__(self, uri: str, request: CommitRequest) -> None:
        self._uri = uri
        self._run_id = request.run_id
        self._ledger = request.ledger
        self._held_back: frozenset[str] | None = None
        self._written: tuple[str | None, int] = (None, 0)

    def scope_keys(self) -> set[str]:
        return set(pc.unique(self._ledger["scope_key"]).to_pylist())

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
        self._batch = request.batch
        self._ledger = _LedgerFile(uri, request)
        self.run_id = request.run_id
        self.part = request.part

    @property
    def content_hash(self) -> str:
        """Of actions and ledger, as they came."""
        return self._request.content_hash()

    def build(self, snapshot: Snapshot, clock: Clock) -> Transaction | CommitResult:
        """Fold the batch against the snapshot.

        Raises:
            ConflictError: If memories changed or are not there, unless `on_conflict` is
                ``"skip"``.
            InvalidArgumentError: For a vector that the table cannot take.
        """
        request = self._request
        self._batch = _given(snapshot, request)
        check_given(self._batch, snapshot.head.vector_dim)
        base_time = (
            None if request.base_version is None else moment_of(snapshot, request.base_version)
        )
        moment = next_commit_time(clock, snapshot.head.committed_at)
        held_back = self._leave_erased_out(snapshot)
        blocked, looked_up = self._leave_blocked_out(snapshot)
        folded, known = _fold_until_known(snapshot, self._batch, base_time, moment, looked_up)
        retired = self._retired(folded, known, moment)
        if guarded := guarded_reasons(snapshot, request.run_id, retired, request.guards, moment):
            self._batch = without_scopes(self._batch, guarded)
            folded, known = _fold_until_known(snapshot, self._batch, base_time, moment, known)
        held_back |= guarded | self._held_back(folded)
        folded.blocked = sum(blocked[key] for key in blocked.keys() - held_back.keys())
        if not len(folded.changes) and not self._ledger.rows_without(frozenset(held_back)).num_rows:
            return CommitResult(
                outcome="nothing",
                version=snapshot.head.number,
                none=folded.none,
                duplicates=folded.duplicates,
                blocked=folded.blocked,
                ids=folded.ids,
                held_back=held_back,
            )
        ledger, ledger_rows = self._ledger.write(frozenset(held_back))
        run = replace(
            self._record(folded, snapshot.head.number + 1, moment),
            held_back=without_scope_keys(held_back, snapshot.head.settings),
            ledger=ledger,
            ledger_rows=ledger_rows,
        )
        return self._transaction(snapshot.head, folded, known, run)

    def _leave_erased_out(self, snapshot: Snapshot) -> dict[str, str]:
        """Take the actions of erased scopes out of the batch; their scope keys, with the reason."""
        request = self._request
        scope_keys = {*request.batch.scopes, *self._ledger.scope_keys()}
        erased = erased_reasons(snapshot.head.settings, scope_keys)
        self._batch = without_scopes(self._batch, erased)
        return erased

    def _leave_blocked_out(self, snapshot: Snapshot) -> tuple[Counter[str], Known | None]:
        """Make nothing of what would bring back what was forgotten.

        Returns:
            How many, by scope key, and what the table holds about the batch: that is looked up
            meanwhile, and None where what is blocked has made it another batch.
        """
        blocks, known = in_two(
            lambda: read_blocks(snapshot, self._batch.scopes),
            lambda: _look_up(snapshot, self._batch, _named(self._batch)),
        )
        self._batch, blocked = without_blocked(self._batch, blocks)
        return blocked, None if blocked else known

    def _retired(self, folded: Folded, known: Known, moment: datetime) -> Counter[str]:
        """Count the live memories that are deleted, by scope key."""
        deletes = folded.changes.base.filter(pc.equal(folded.changes.event, "DELETE"))
        rows = known.rows.select(["scope_key", "is_live", "expires_at"]).take(deletes)
        live = rows.filter(pc.and_not(rows["is_live"], expired_by(rows, moment)))
        return Counter(live["scope_key"].to_pylist())

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
        request, actions = self._request, self._batch.actions
        return RunRecord(
            run_id=request.run_id,
            part=request.part,
            number=number,
            committed_at=moment,
            content_hash=self.content_hash,
            base_version=request.base_version,
            added=folded.changes.count("ADD"),
            updated=folded.changes.count("UPDATE"),
            deleted=folded.changes.count("DELETE"),
            none=folded.none,
            duplicates=folded.duplicates,
            blocked=folded.blocked,
            ids=folded.ids,
            model=_only(actions["model"]),
            prompt_hash=_only(actions["prompt_hash"]),
            labels=request.labels,
            info=request.info,
            has_revisions=request.has_revisions,
        )

    def _transaction(self, head: Head, folded: Folded, known: Known, run: RunRecord) -> Transaction:
        base = known.rows.take(folded.changes.base.drop_null())
        stamp = Stamp(moment=run.committed_at, run_id=run.run_id, labels=run.labels)
        ttl_days = head.settings.revision_ttl_days if run.has_revisions else 0
        expires = revisions_expire_at(run.committed_at, ttl_days)
        rows = in_two(
            lambda: closing_rows(base, run.committed_at, head.vector_dim, expires),
            lambda: new_rows(
                self._batch,
                folded.changes,
                base.drop_columns([ADDRESS]),
                stamp=stamp,
                vector_dim=head.vector_dim,
            ),
            rows=len(folded.changes),
        )
        return Transaction(
            closed=base[ADDRESS].combine_chunks(), rows=pa.concat_tables(rows), run=run
        )


def _given(snapshot: Snapshot, request: CommitRequest) -> Batch:
    """Give the batch; without its vectors where the table has moved to other ones since."""
    batch, base = request.batch, request.base_version
    vectors = batch.actions["vector"]
    if base is None or base >= snapshot.head.number or vectors.null_count == len(vectors):
        return batch
    if all(run.number <= base or run.kind != REEMBED_KIND for run in runs_where(snapshot)):
        return batch
    place = batch.actions.schema.get_field_index("vector")
    field = batch.actions.schema.field(place)
    nothing = pa.nulls(len(vectors), field.type)
    return replace(batch, actions=batch.actions.set_column(place, field, nothing))


def _named(batch: Batch) -> pa.Array:
    return one_chunk(batch.actions["memory_id"]).drop_null()


def _look_up(snapshot: Snapshot, batch: Batch, memory_ids: pa.Array) -> Known:
    hashes = batch.text_hash.filter(one_chunk(pc.equal(batch.actions["event"], "ADD")))
    return Known(rows=snapshot.locate(memory_ids, hashes), looked_up=memory_ids)


def _fold_until_known(
    snapshot: Snapshot,
    batch: Batch,
    base_time: datetime | None,
    moment: datetime,
    known: Known | None,
) -> tuple[Folded, Known]:
    """Fold; where that needs ids which nobody looked up, look them up and fold again.

    `known` may tell of more than the batch.
    """
    known = _look_up(snapshot, batch, _named(batch)) if known is None else known
    while (folded := fold(batch, known, now=moment, base_time=base_time)).unseen:
        unseen = pa.array(sorted(folded.unseen))
        wanted = pc.unique(pa.concat_arrays([known.looked_up, unseen]))
        known = _look_up(snapshot, batch, wanted)
    return folded, known


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
