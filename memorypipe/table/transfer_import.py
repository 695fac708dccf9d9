"""The commit of records from another store: ADDs whose revisions say IMPORT."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.table.storage import Snapshot
from memorypipe.table.times import Clock
from memorypipe.table.transaction import Builder, CommitResult, Transaction

__all__ = ["IMPORT_KIND", "ImportCommit"]

#: `RunRecord.kind` of an import.
IMPORT_KIND = "import"


class ImportCommit:
    """Builds the commit of a batch of imported memories.

    Args:
        batch: Builds the commit of the same actions.
    """

    def __init__(self, batch: Builder) -> None:
        self._batch = batch
        self.run_id = batch.run_id
        self.part = batch.part

    @property
    def content_hash(self) -> str:
        """Of the batch."""
        return self._batch.content_hash

    def build(self, snapshot: Snapshot, clock: Clock) -> Transaction | CommitResult:
        """Build the commit of the batch, and say of what it added where that came from."""
        built = self._batch.build(snapshot, clock)
        if isinstance(built, CommitResult):
            return built
        run = replace(built.run, kind=IMPORT_KIND)
        return replace(built, rows=_said_import(built.rows, run.run_id), run=run)


def _said_import(rows: pa.Table, run_id: str) -> pa.Table:
    own = pc.and_(rows["is_current"], pc.equal(rows["run_id"], run_id))
    added = pc.and_(own, pc.equal(rows["event"], "ADD"))
    place = rows.schema.get_field_index("event")
    event = pc.if_else(added, "IMPORT", rows["event"])
    return rows.set_column(place, rows.schema.field(place), event)
