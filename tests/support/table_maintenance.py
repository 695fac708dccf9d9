"""A commit that drops every revision that no longer stands, as maintenance does in time."""

from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.schema import table_schema
from memorypipe.table.records import RunRecord
from memorypipe.table.storage import ADDRESS, Snapshot, Where
from memorypipe.table.table import MemoryTable
from memorypipe.table.times import Clock, next_commit_time
from memorypipe.table.transaction import Transaction, transact


class DropRevisions:
    """Builds that commit."""

    run_id: Final = "dropped"
    part: Final = 0
    content_hash: Final = ""

    def build(self, snapshot: Snapshot, clock: Clock) -> Transaction:
        head = snapshot.head
        names = snapshot.scan(["memory_id"], Where())["memory_id"].combine_chunks()
        rows = snapshot.locate(pc.unique(names), pa.array([], pa.string()))
        gone = rows.filter(pc.invert(rows["is_current"]))
        horizon = pc.max(gone["valid_to"]).as_py()
        run = RunRecord(
            run_id=self.run_id,
            part=self.part,
            kind="vacuum",
            number=head.number + 1,
            committed_at=next_commit_time(clock, head.committed_at),
            content_hash=self.content_hash,
        )
        return Transaction(
            closed=gone[ADDRESS].combine_chunks(),
            rows=table_schema(head.vector_dim).empty_table(),
            run=run,
            settings=replace(head.settings, history_horizon=horizon, revisions_horizon=horizon),
        )


def drop_revisions(table: MemoryTable) -> None:
    """Drop every revision that no longer stands; horizons move to the last one's end."""
    transact(table._storage, DropRevisions(), table._clock)
