"""Ray reads a table piece by piece, and writes actions that become one commit.

The only module of the tables that knows Ray.
"""

import shutil
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import ray.data
from ray.data import Datasource
from ray.data.block import Block, BlockAccessor, BlockMetadata
from ray.data.datasource import Datasink, ReadTask, WriteResult

from memorypipe.errors import InvalidArgumentError
from memorypipe.id_key import IdKeySource
from memorypipe.llm.embed.types import Embedder
from memorypipe.schema import ACTION_OPTIONS, ACTIONS
from memorypipe.table.actions import check_actions
from memorypipe.table.pinned import PinnedRead, Selection, share_out
from memorypipe.table.staging import new_staging
from memorypipe.table.storage import Piece
from memorypipe.table.table import MemoryTable

if TYPE_CHECKING:
    from memorypipe.table.transaction import CommitResult

__all__ = ["MemoryTableDatasource", "MemoryTableSink", "read_pinned", "read_table"]


def read_table(
    uri: str,
    *,
    scope: Mapping[str, Any] | None = None,
    columns: Sequence[str] | None = None,
    include: Collection[str] = ("live",),
) -> "ray.data.Dataset":
    """Read a memory table as a Ray Dataset; as `MemoryTable.to_dataset`.

    Args:
        uri: Of a table that all workers can reach.
        scope: Only this scope, matched exactly; None for all.
        columns: Names of columns; None for all.
        include: States, as for `MemoryTable.to_arrow`.

    Raises:
        TableNotFoundError: If there is no table.
        InvalidArgumentError: For an unknown column or state, or a scope that cannot be.
    """
    return read_pinned(MemoryTable.open(uri, create=False).pinned(scope, columns, include))


def read_pinned(read: PinnedRead) -> "ray.data.Dataset":
    """Read what was prepared, on the workers."""
    dataset: ray.data.Dataset = ray.data.read_datasource(MemoryTableDatasource(read))
    return dataset


class MemoryTableDatasource(Datasource):
    """The pieces of one version, spread over read tasks; each yields some rows at a time.

    Args:
        read: What to read.
    """

    def __init__(self, read: PinnedRead) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Ray gives it no types
        self._read = read

    def get_name(self) -> str:
        """Name the read in Ray's reports."""
        return "MemoryTable"

    def estimate_inmemory_data_size(self) -> int | None:
        """Guess by the size of the files, where it is known."""
        return _size_bytes(self._read.pieces)

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: Any = None,  # noqa: ARG002  # of Ray's interface
    ) -> list[ReadTask]:
        """Make at most so many tasks, of about as many rows each."""
        return [
            ReadTask(
                partial(_read_pieces, self._read.selection, pieces, self._read.schema),
                BlockMetadata(
                    num_rows=None,  # what the state of the rows leaves of them is not known
                    size_bytes=_size_bytes(pieces),
                    input_files=None,
                    exec_stats=None,
                ),
                schema=self._read.schema,
                per_task_row_limit=per_task_row_limit,
            )
            for pieces in share_out(self._read.pieces, parallelism)
        ]


def _size_bytes(pieces: Iterable[Piece]) -> int | None:
    total = 0
    for piece in pieces:
        if piece.size_bytes is None:
            return None
        total += piece.size_bytes
    return total


def _read_pieces(
    selection: Selection, pieces: Sequence[Piece], schema: pa.Schema
) -> Iterator[pa.Table]:
    is_empty = True
    for piece in pieces:
        for rows in selection.read(piece):
            is_empty = False
            yield rows.cast(schema)
    if is_empty:
        yield schema.empty_table()


class MemoryTableSink(Datasink[str]):
    """Commits all rows of a Dataset of actions in one commit.

    The tasks check their rows and write them to files beside the table; when all are done, the
    driver reads what the tasks that counted wrote, and commits it as `MemoryTable.commit` does:
    all of it or nothing, folded, and once, however often a task was tried or the run repeated.
    The driver holds the actions in memory while it does; without vectors 1,000,000 take about
    1 GB.

    Args:
        uri: Of the table, a folder that all workers can reach; made where it is not there.
        run_id: Names the run: the same rows written again under it change nothing.
        base_version: As for `MemoryTable.commit`.
        info: As for `MemoryTable.commit`.
        imports: As for `MemoryTable.commit`.
        embedder: As for `MemoryTable.open`.
        id_key: As for `MemoryTable.open`.

    Attributes:
        result: What became of the commit; None before.

    Raises:
        InvalidArgumentError: For a blank run id, a table in an object store, another embedder than
            the table's, or rows that are no actions.
        TableError: Where the table's embedder was not given; no task has started then.
    """

    def __init__(  # noqa: PLR0913  # one keyword per independent choice of a commit
        self,
        uri: str,
        *,
        run_id: str,
        base_version: int | None = None,
        info: Mapping[str, Any] | None = None,
        imports: bool = False,
        embedder: str | Embedder | None = None,
        id_key: IdKeySource | None = None,
    ) -> None:
        if not run_id.strip():
            raise InvalidArgumentError(f"run_id must not be blank, got {run_id!r}.")
        self.result: CommitResult | None = None
        self._uri = uri
        self._embedder = embedder
        self._id_key = id_key
        if MemoryTable.exists(uri):
            table = self._open()
            table.find_embedder()
            table.read_id_key()
        self._options: dict[str, Any] = {
            "run_id": run_id,
            "base_version": base_version,
            "info": info,
            "imports": imports,
        }
        # Of this instance alone: another one under the same run id may be at work.
        self._folder = new_staging(uri)

    def _open(self) -> MemoryTable:
        return MemoryTable.open(self._uri, embedder=self._embedder, id_key=self._id_key)

    def get_name(self) -> str:
        """Name the write in Ray's reports."""
        return "MemoryTable"

    def write(self, blocks: Iterable[Block], ctx: Any) -> str:  # noqa: ARG002  # of Ray's interface
        """Check the rows of one task and write them to a file; give its name, "" for no rows."""
        tables = [BlockAccessor.for_block(block).to_arrow() for block in blocks]
        tables = [check_columns(table) for table in tables if table.num_rows]
        if not tables:
            return ""
        rows = pa.concat_tables(tables)
        check_actions(rows)
        self._folder.mkdir(parents=True, exist_ok=True)
        # Each try has a file of its own: what a try left that failed is in no result.
        name = f"{uuid.uuid4().hex}.parquet"
        pq.write_table(rows, self._folder / name, compression="zstd")
        return name

    def on_write_complete(self, write_result: WriteResult[str]) -> None:
        """Commit what the tasks wrote."""
        names = [name for name in write_result.write_returns if name]
        tables = [pq.read_table(self._folder / name) for name in names]
        actions = pa.concat_tables(tables) if tables else ACTIONS.empty_table()
        self.result = self._open().commit(actions, **self._options)
        self._clean()

    def on_write_failed(self, error: Exception) -> None:  # noqa: ARG002  # of Ray's interface
        """Leave nothing of a write that failed."""
        self._clean()

    def _clean(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def check_columns(rows: pa.Table) -> pa.Table:
    """Give rows the columns and types of `ACTIONS` and `ACTION_OPTIONS`; others are left out.

    Raises:
        InvalidArgumentError: For a missing column or another type.
    """
    if missing := [name for name in ACTIONS.names if name not in rows.column_names]:
        raise InvalidArgumentError(
            f"The rows lack the columns {missing!r}; they need {ACTIONS.names!r}."
        )
    fields = [*ACTIONS, *ACTION_OPTIONS]
    columns = [
        rows[field.name] if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        for field in fields
    ]
    try:
        return pa.table(columns, names=[field.name for field in fields]).cast(pa.schema(fields))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgumentError(
            f"The rows do not have the types of actions: {error}."
        ) from error
