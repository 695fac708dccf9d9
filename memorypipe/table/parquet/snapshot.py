"""One version of a Parquet table: reading it, and committing on top of it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memorypipe.errors import InvalidArgumentError, TableError
from memorypipe.schema import TIME, table_schema
from memorypipe.table.embedding import Revector
from memorypipe.table.parquet.files import DataFiles, publish
from memorypipe.table.parquet.manifest import DataFile, Manifest
from memorypipe.table.parquet.pieces import ParquetPiece, parquet_pieces
from memorypipe.table.parquet.reembed import replace_vectors
from memorypipe.table.parquet.rewrite import Rewrite, Rewritten, plan_commit, rewrite
from memorypipe.table.records import Head
from memorypipe.table.search_all import Wanted
from memorypipe.table.storage import ADDRESS, Where, left_out, without_nulls

__all__ = ["ParquetSnapshot"]

# Rows of key columns that one pass holds: 80 MB, and few enough passes over the keys.
_PASS_ROWS = 1 << 20

# An address: the file's number in the manifest in the upper half, the row's in the lower.
_OFFSET_BITS = 32

# Rows of a file: its number in the manifest, the file, and the numbers of the rows; None for all.
_Picked = tuple[int, DataFile, NDArray[np.int64] | None]


@dataclass(frozen=True)
class ParquetSnapshot:
    """One version of the table.

    Attributes:
        files: Reads and writes the table's data files.
        manifest: Of that version.
    """

    files: DataFiles
    manifest: Manifest

    @property
    def head(self) -> Head:
        """The head row of this version."""
        return self.manifest.head

    def scan(self, columns: Sequence[str], where: Where) -> pa.Table:
        """Read columns of the selected rows."""
        schema = self._schema([name for name in columns if name != ADDRESS])
        return self._rows(schema, list(self._select(where))).select(list(columns))

    def pieces(self) -> list[ParquetPiece]:
        """Cut this version into its data files."""
        return parquet_pieces(self.files.uri, self.manifest)

    def locate(self, memory_ids: pa.Array, text_hashes: pa.Array) -> pa.Table:
        """Find all revisions of records and the live rows that say certain texts."""

        def is_hit(keys: pa.Table) -> pa.ChunkedArray:
            says = pc.is_in(keys["text_hash"], text_hashes, skip_nulls=True)
            named = pc.is_in(keys["memory_id"], memory_ids)
            return pc.or_(named, pc.and_(keys["is_live"], says))

        keys = self._schema(["memory_id", "text_hash", "is_live"])
        read = partial(self.files.remembered, schema=keys)
        names = table_schema(self.head.vector_dim).names
        schema = self._schema([name for name in names if name not in left_out(self.head)])
        hits = list(self._pick(self._numbered(Where()), read, is_hit))
        return without_nulls(self._rows(schema, hits))

    def _schema(self, columns: Sequence[str]) -> pa.Schema:
        """Give columns of the table, in the order asked for."""
        whole = table_schema(self.head.vector_dim)
        return pa.schema([whole.field(name) for name in columns], metadata=whole.metadata)

    def _rows(self, schema: pa.Schema, picked: Sequence[_Picked]) -> pa.Table:
        """Read rows, with their addresses."""
        size_bytes = sum(file.size_bytes for _, file, _ in picked)
        tables = self.files.each(partial(self._read, schema), picked, size_bytes)
        empty = schema.append(pa.field(ADDRESS, pa.uint64())).empty_table()
        return pa.concat_tables([empty, *tables])

    def _read(self, schema: pa.Schema, picked: _Picked) -> pa.Table:
        number, file, offsets = picked
        rows = self.files.read(file, schema, offsets)
        places = np.arange(file.rows, dtype=np.uint64) if offsets is None else offsets
        addresses = places.astype(np.uint64) | np.uint64(number << _OFFSET_BITS)
        return rows.append_column(ADDRESS, pa.array(addresses))

    def _numbered(self, where: Where) -> list[tuple[int, DataFile]]:
        """Choose the files that can hold rows that are asked for."""
        kinds = {"run"} if where.record_type == "run" else {"current", "past"}
        if where.rows != "all":
            kinds.discard("past")
        buckets = None
        if where.scope_keys is not None:
            buckets = {self.manifest.bucket(key) for key in where.scope_keys}
        return [
            (number, file)
            for number, file in enumerate(self.manifest.files)
            if file.kind in kinds and (buckets is None or file.bucket in buckets)
        ]

    def _select(self, where: Where) -> Iterator[_Picked]:
        numbered = self._numbered(where)
        columns, is_hit = _condition(where)
        if not columns:
            yield from ((number, file, None) for number, file in numbered)
            return
        again = where.record_type == "run" or where.memory_ids is not None
        read = self.files.remembered if again else self.files.read
        yield from self._pick(numbered, partial(read, schema=self._schema(columns)), is_hit)

    def _pick(
        self,
        numbered: Sequence[tuple[int, DataFile]],
        read: Callable[[DataFile], pa.Table],
        is_hit: Callable[[pa.Table], pa.ChunkedArray],
    ) -> Iterator[_Picked]:
        """Test rows, in passes over many files: a condition may bring a big set with it."""
        for some in _passes(numbered):
            files = [file for _, file in some]
            size_bytes = sum(file.size_bytes for file in files)
            tables = list(self.files.each(read, files, size_bytes))
            found = np.flatnonzero(np.asarray(is_hit(pa.concat_tables(tables))))
            starts = np.cumsum([0, *(file.rows for file in files)])
            cuts = np.searchsorted(found, starts)
            for place, (number, file) in enumerate(some):
                own = found[cuts[place] : cuts[place + 1]] - starts[place]
                if len(own):
                    yield number, file, None if len(own) == file.rows else own

    def commit(self, *, closed: pa.Array, rows: pa.Table, head: pa.Table) -> None:
        """Replace closed rows and head: write files anew, then the next manifest."""
        lost = self._closed(closed)
        names = ["revision", "valid_from", "payload"]
        (head_row,) = head.select(names).to_pylist()
        self.write(plan_commit(self.manifest, lost, rows), head_row=head_row)

    def replace_vectors(self, revector: Revector, *, rows: pa.Table, head: pa.Table) -> None:
        """Give all rows new vectors: write all files anew, then the next manifest."""
        replace_vectors(self.files, self.manifest, revector, rows=rows, head=head)

    def search_all(self, wanted: Wanted) -> pa.Table:
        """Refuse: plain files have no index."""
        raise InvalidArgumentError(
            f"A Parquet table is searched by {wanted.kind} in one scope at a time; to search ALL "
            "scopes use lance: MemoryTable.open(…, backend='lance')."
        )

    def write(self, plans: Sequence[Rewrite], **changes: object) -> Manifest:
        """Make the next version: rewrite buckets and create its manifest.

        Args:
            plans: What to rewrite.
            **changes: Fields of the manifest that change with it.

        Raises:
            RaceLostError: If another version came first.
            UnknownOutcomeError: If nobody knows whether this one is there.
            TableError: If nothing was changed.
        """
        done = self._rewritten(plans)
        written = [file for each in done for file in each.files]
        replaced = {f.name for plan in plans for change in plan.changes for f in change.files}
        kept = [file for file in self.manifest.files if file.name not in replaced]
        bounds = {bound for each in done for bound in each.bounds}
        manifest = replace(
            self.manifest,
            version=self.manifest.version + 1,
            token=uuid4().hex,
            bounds=tuple(sorted(bounds.union(self.manifest.bounds))),
            files=tuple(sorted([*kept, *written], key=lambda file: (file.kind, file.bucket))),
            **changes,  # type: ignore[arg-type]  # fields by their names
        )
        publish(self.files, self.manifest, manifest, written)
        return manifest

    def _rewritten(self, plans: Sequence[Rewrite]) -> list[Rewritten]:
        work = partial(rewrite, self.files, self.head.vector_dim)
        done: list[Rewritten] = []
        try:
            for each in self.files.each(work, plans, sum(plan.size_bytes for plan in plans)):
                done.append(each)  # noqa: PERF402  # what is done counts when a later one fails
        except OSError as error:
            self.files.remove(file for each in done for file in each.files)
            raise TableError(f"Nothing was committed to {self.files.uri!r}: {error}") from error
        return done

    def _closed(self, addresses: pa.Array) -> dict[str, NDArray[np.int64]]:
        """Part addresses by file."""
        every = np.sort(np.asarray(addresses.cast(pa.uint64())))
        numbers = (every >> np.uint64(_OFFSET_BITS)).astype(np.int64)
        offsets = (every & np.uint64((1 << _OFFSET_BITS) - 1)).astype(np.int64)
        return {
            self.manifest.files[number].name: offsets[numbers == number]
            for number in np.unique(numbers).tolist()
        }


def _passes(
    numbered: Sequence[tuple[int, DataFile]],
) -> Iterator[list[tuple[int, DataFile]]]:
    some: list[tuple[int, DataFile]] = []
    rows = 0
    for number, file in numbered:
        some.append((number, file))
        rows += file.rows
        if rows >= _PASS_ROWS:
            yield some
            some, rows = [], 0
    if some:
        yield some


def _condition(where: Where) -> tuple[list[str], Callable[[pa.Table], pa.ChunkedArray]]:
    """Give the columns that decide, and the decision; what files tell is left out."""
    tests: dict[str, Callable[[pa.Table], pa.ChunkedArray]] = {}
    if where.rows == "live":
        tests["is_live"] = lambda rows: rows["is_live"]
    for name, values in (
        ("scope_key", where.scope_keys),
        ("memory_id", where.memory_ids),
        ("event", where.events),
    ):
        if values is not None:
            tests[name] = partial(_is_one_of, name, pa.array(list(values), pa.string()))
    if where.touched_at is not None:
        moment = pa.scalar(where.touched_at, TIME)
        tests["valid_from"] = partial(_is_at, moment)
    columns = [*tests, *(["valid_to"] if "valid_from" in tests else [])]
    return columns, lambda rows: reduce(pc.and_, (test(rows) for test in tests.values()))


def _is_one_of(name: str, values: pa.Array, rows: pa.Table) -> pa.ChunkedArray:
    return pc.is_in(rows[name], values)


def _is_at(moment: pa.Scalar, rows: pa.Table) -> pa.ChunkedArray:
    closed = pc.fill_null(pc.equal(rows["valid_to"], moment), False)
    return pc.or_(pc.equal(rows["valid_from"], moment), closed)
