"""Restore: a deleted or forgotten memory comes back as it last was."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe import ids
from memorypipe.errors import HistoryGoneError, TableError
from memorypipe.table.records import RunRecord
from memorypipe.table.revisions import replacing, revised, with_columns
from memorypipe.table.rows import Stamp
from memorypipe.table.storage import Snapshot, Where
from memorypipe.table.times import Clock, next_commit_time
from memorypipe.table.transaction import CommitResult, Transaction
from memorypipe.table.undone import numbered

__all__ = ["Restore", "make_restore"]

_KIND = "restore"
_EVENT = "RESTORE"


def make_restore(
    snapshot: Snapshot, memory_id: str, *, labels: Mapping[str, str] | None
) -> "Restore":
    """Prepare to restore a memory, under a run id that is free."""
    taken = snapshot.scan(["memory_id"], Where(record_type="run"))["memory_id"].to_pylist()
    return Restore(run_id=numbered(_KIND, memory_id, taken), memory_id=memory_id, labels=labels)


@dataclass(frozen=True, kw_only=True)
class Restore:
    """Builds the commit that brings a memory back.

    Attributes:
        run_id: Of the commit.
        memory_id: The memory.
        labels: For the run row and the new revision.
    """

    run_id: str
    memory_id: str
    labels: Mapping[str, str] | None = None
    part: int = field(default=0, init=False)

    @property
    def content_hash(self) -> str:
        """Of what is asked."""
        return ids.digest(_KIND, self.memory_id).hex()

    def build(self, snapshot: Snapshot, clock: Clock) -> Transaction | CommitResult:
        """Build the commit.

        Raises:
            HistoryGoneError: If no revision with content is kept.
            TableError: If there is no such memory, it is not deleted, or another memory of its
                scope says the same by now.
        """
        names, none = pa.array([self.memory_id]), pa.array([], pa.string())
        rows = snapshot.locate(names, none)
        current = self._tombstones(rows)
        content = self._last_content(rows, current)
        self._check_not_said(snapshot, content)
        moment = next_commit_time(clock, snapshot.head.committed_at)
        new = revised(
            with_columns(content, {"updated_at": moment}),
            current,
            events=pa.repeat(_EVENT, current.num_rows),
            stamp=Stamp(moment=moment, run_id=self.run_id, labels=self.labels),
            vector_dim=snapshot.head.vector_dim,
        )
        run = RunRecord(
            run_id=self.run_id,
            part=self.part,
            kind=_KIND,
            number=snapshot.head.number + 1,
            committed_at=moment,
            content_hash=self.content_hash,
            added=current.num_rows,
            labels=self.labels,
        )
        return replacing(current, new, run=run, head=snapshot.head)

    def _tombstones(self, rows: pa.Table) -> pa.Table:
        current = rows.filter(rows["is_current"])
        if not current.num_rows:
            raise TableError(
                f"There is no memory {self.memory_id!r} in the table, so it cannot be restored."
            )
        tombstones = current.filter(current["deleted"])
        if not tombstones.num_rows:
            raise TableError(
                f"Memory {self.memory_id!r} is not deleted, so there is nothing to restore."
            )
        return tombstones

    def _last_content(self, rows: pa.Table, current: pa.Table) -> pa.Table:
        """Find, per tombstone, the last revision that said something."""
        kept = rows.filter(pc.invert(rows["deleted"])).sort_by("revision")
        last = {kind: row for row, kind in enumerate(kept["record_type"].to_pylist())}
        kinds = current["record_type"].to_pylist()
        if missing := [kind for kind in kinds if kind not in last]:
            raise HistoryGoneError(
                f"Memory {self.memory_id!r} ({missing[0]}) cannot be restored: its revisions are "
                "not kept any more."
            )
        return kept.take(pa.array([last[kind] for kind in kinds], pa.int64()))

    def _check_not_said(self, snapshot: Snapshot, content: pa.Table) -> None:
        says = snapshot.locate(pa.array([], pa.string()), pc.unique(content["text_hash"]))
        names = ["record_type", "scope_key", "text_hash"]
        wanted = {tuple(row.values()) for row in content.select(names).to_pylist()}
        for row in says.filter(says["is_live"]).select([*names, "memory_id"]).to_pylist():
            if tuple(row[name] for name in names) in wanted:
                raise TableError(
                    f"Memory {self.memory_id!r} is not restored: memory {row['memory_id']!r} of "
                    "its scope says the same by now."
                )
