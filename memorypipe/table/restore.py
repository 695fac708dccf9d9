"""Restore: a deleted or forgotten memory comes back as it last was."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe import ids
from memorypipe.errors import HistoryGoneError, TableError
from memorypipe.table.records import RunRecord
from memorypipe.table.revisions import replacing, revised, with_columns
from memorypipe.table.rows import Stamp, expired_by, one_record
from memorypipe.table.storage import Snapshot, Where
from memorypipe.table.times import Clock, next_commit_time
from memorypipe.table.transaction import CommitResult, Transaction
from memorypipe.table.undone import numbered

__all__ = ["Restore", "make_restore"]

_KIND = "restore"
_EVENT = "RESTORE"


def make_restore(
    snapshot: Snapshot,
    memory_id: str,
    *,
    record_type: str | None,
    labels: Mapping[str, str] | None,
) -> "Restore":
    """Prepare to restore a memory, under a run id that is free."""
    taken = snapshot.scan(["memory_id"], Where(record_type="run"))["memory_id"].to_pylist()
    # No word of which memory: run rows outlive what is erased.
    name = ids.digest(memory_id, size=8).hex()
    run_id = numbered(_KIND, name, taken)
    return Restore(run_id=run_id, memory_id=memory_id, record_type=record_type, labels=labels)


@dataclass(frozen=True, kw_only=True)
class Restore:
    """Builds the commit that brings a memory back.

    Attributes:
        run_id: Of the commit.
        memory_id: The memory.
        record_type: Its type, where records of several types have the id.
        labels: For the run row and the new revision.
    """

    run_id: str
    memory_id: str
    record_type: str | None = None
    labels: Mapping[str, str] | None = None
    part: int = field(default=0, init=False)

    @property
    def content_hash(self) -> str:
        """Of what is asked."""
        return ids.digest(_KIND, self.memory_id, self.record_type).hex()

    def build(self, snapshot: Snapshot, clock: Clock) -> Transaction | CommitResult:
        """Build the commit.

        Raises:
            HistoryGoneError: If no revision with content is kept.
            InvalidArgumentError: If several that are deleted have the id, and no type is named.
            TableError: If there is no such memory, it is not deleted, or another memory of its
                scope says the same by now.
        """
        names, none = pa.array([self.memory_id]), pa.array([], pa.string())
        rows = snapshot.locate(names, none)
        current = self._tombstone(rows)
        content = self._last_content(rows, current)
        moment = next_commit_time(clock, snapshot.head.committed_at)
        self._check_not_said(snapshot, content, moment)
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
            added=1,
            labels=self.labels,
        )
        return replacing(current, new, run=run, head=snapshot.head)

    def _tombstone(self, rows: pa.Table) -> pa.Table:
        current = rows.filter(rows["is_current"])
        if self.record_type is not None:
            current = one_record(current, self.memory_id, self.record_type)
        if not current.num_rows:
            raise TableError(
                f"There is no memory {self.memory_id!r} in the table, so it cannot be restored."
            )
        tombstones = current.filter(current["deleted"])
        if not tombstones.num_rows:
            raise TableError(
                f"Memory {self.memory_id!r} is not deleted, so there is nothing to restore."
            )
        return one_record(tombstones, self.memory_id, self.record_type)

    def _last_content(self, rows: pa.Table, current: pa.Table) -> pa.Table:
        """Find the last revision that said something."""
        own = pc.equal(rows["record_type"], current["record_type"][0])
        kept = rows.filter(pc.and_not(own, rows["deleted"])).sort_by("revision")
        if not kept.num_rows:
            raise HistoryGoneError(
                f"Memory {self.memory_id!r} cannot be restored: its revisions are not kept any "
                "more."
            )
        return kept.slice(kept.num_rows - 1)

    def _check_not_said(self, snapshot: Snapshot, content: pa.Table, moment: datetime) -> None:
        says = snapshot.locate(pa.array([], pa.string()), pc.unique(content["text_hash"]))
        names = ["record_type", "scope_key", "text_hash"]
        wanted = {tuple(row.values()) for row in content.select(names).to_pylist()}
        says = says.filter(pc.and_not(says["is_live"], expired_by(says, moment)))
        for row in says.select([*names, "memory_id"]).to_pylist():
            if tuple(row[name] for name in names) in wanted:
                raise TableError(
                    f"Memory {self.memory_id!r} is not restored: memory {row['memory_id']!r} of "
                    "its scope says the same by now."
                )
