"""Move a table to another embedder: all vectors anew, in one commit."""

from dataclasses import replace

import pyarrow as pa

from memorypipe import ids
from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.embed.types import Embedder
from memorypipe.schema import table_schema
from memorypipe.table.embedding import Revector
from memorypipe.table.records import RunRecord
from memorypipe.table.storage import Snapshot
from memorypipe.table.times import Clock, next_commit_time
from memorypipe.table.transaction import CommitResult, Transaction
from memorypipe.table.vector_store import VectorStore

__all__ = ["DEFAULT_BATCH_ROWS", "REEMBED_KIND", "Reembed"]

DEFAULT_BATCH_ROWS = 8192
"""Rows that are in memory at a time: 64 MB with their vectors of 1,536 dimensions."""

#: `RunRecord.kind` of such a commit.
REEMBED_KIND = "reembed"


class Reembed:
    """Builds the commit that gives all live rows the vectors of another embedder.

    What an attempt has embedded and written serves the next one, where others commit meanwhile.

    Args:
        embedder: The new one; None: the table has no vectors any more.
        vector_dim: Width of the table's vectors, which stays where there is no new embedder.
        number: Of the table's newest commit; names the run.
        batch_rows: Rows that are in memory at a time.

    Raises:
        InvalidArgumentError: For `batch_rows` below 1.
        ModelError: Where an endpoint does not tell the width of its vectors.
    """

    part = 0

    def __init__(
        self, embedder: Embedder | None, *, vector_dim: int, number: int, batch_rows: int
    ) -> None:
        if batch_rows < 1:
            raise InvalidArgumentError(f"batch_rows must be from 1, got {batch_rows!r}.")
        self._name = None if embedder is None else embedder.name
        dim = vector_dim if embedder is None else embedder.dim
        self._store = None if embedder is None else VectorStore(embedder)
        embed = None if self._store is None else self._store.embed
        self._revector = Revector(dim=dim, embed=embed, batch_rows=batch_rows)
        self.content_hash = ids.digest(REEMBED_KIND, self._name, self._revector.dim).hex()
        self.run_id = f"{REEMBED_KIND}-{number}-{self.content_hash[:12]}"

    def close(self) -> None:
        """Drop what was kept for further attempts."""
        if self._store is not None:
            self._store.close()

    def build(self, snapshot: Snapshot, clock: Clock) -> Transaction | CommitResult:
        """Make the transaction; nothing where the table has this embedder already."""
        head, dim = snapshot.head, self._revector.dim
        if (head.settings.embedder, head.vector_dim) == (self._name, dim):
            return CommitResult(outcome="nothing", version=head.number)
        return Transaction(
            closed=pa.array([], pa.uint64()),
            rows=table_schema(dim).empty_table(),
            run=RunRecord(
                run_id=self.run_id,
                part=self.part,
                kind=REEMBED_KIND,
                number=head.number + 1,
                committed_at=next_commit_time(clock, head.committed_at),
                content_hash=self.content_hash,
                info={"from": head.settings.embedder, "to": self._name, "vector_dim": dim},
            ),
            settings=replace(head.settings, embedder=self._name),
            revector=self._revector,
        )
