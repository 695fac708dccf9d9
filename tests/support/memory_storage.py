"""A back end that keeps the table in memory: the contract in its shortest form."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.errors import InvalidArgumentError, TableNotFoundError
from memorypipe.schema import TIME
from memorypipe.table.embedding import Revector
from memorypipe.table.records import HEAD_TYPE, SYSTEM_TYPES, Head, head_row, read_head
from memorypipe.table.search_all import Wanted
from memorypipe.table.storage import ADDRESS, RaceLostError, Where, left_out, without_nulls


@dataclass(frozen=True)
class MemorySnapshot:
    """The rows of one version."""

    storage: "MemoryStorage"
    rows: pa.Table

    @property
    def head(self) -> Head:
        heads = self.rows.filter(pc.equal(self.rows["record_type"], HEAD_TYPE)).to_pylist()
        assert len(heads) == 1
        return read_head(heads[0])

    def scan(self, columns: Sequence[str], where: Where) -> pa.Table:
        kinds = self.rows["record_type"]
        if where.record_type is None:
            mask = pc.invert(pc.is_in(kinds, pa.array(SYSTEM_TYPES)))
        else:
            mask = pc.equal(kinds, where.record_type)
        if where.rows != "all":
            mask = pc.and_(mask, self.rows[f"is_{where.rows}"])
        if where.touched_at is not None:
            moment = pa.scalar(where.touched_at, TIME)
            closed = pc.fill_null(pc.equal(self.rows["valid_to"], moment), False)
            mask = pc.and_(mask, pc.or_(pc.equal(self.rows["valid_from"], moment), closed))
        for column, values in (
            ("scope_key", where.scope_keys),
            ("memory_id", where.memory_ids),
            ("event", where.events),
        ):
            if values is not None:
                wanted = pa.array(list(values), pa.string())
                mask = pc.and_(mask, pc.is_in(self.rows[column], wanted))
        places = pa.array(range(self.rows.num_rows), pa.int64())
        return self.rows.append_column(ADDRESS, places).filter(mask).select(columns)

    def pieces(self) -> "list[MemoryPiece]":
        return [MemoryPiece(self)]

    def locate(self, memory_ids: pa.Array, text_hashes: pa.Array) -> pa.Table:
        hit = pc.is_in(self.rows["memory_id"], memory_ids)
        says = pc.is_in(self.rows["text_hash"], text_hashes, skip_nulls=True)
        hit = pc.or_(hit, pc.and_(self.rows["is_live"], says))
        hit = pc.and_not(hit, pc.is_in(self.rows["record_type"], pa.array(SYSTEM_TYPES)))
        places = pa.array(range(self.rows.num_rows), pa.int64())
        rows = self.rows.append_column(ADDRESS, places).filter(hit)
        return without_nulls(rows.drop_columns(sorted(left_out(self.head))))

    def commit(self, *, closed: pa.Array, rows: pa.Table, head: pa.Table) -> None:
        places = pa.array(range(self.rows.num_rows), pa.int64())
        old_head = pc.equal(self.rows["record_type"], HEAD_TYPE)
        kept = self.rows.filter(pc.invert(pc.or_(pc.is_in(places, closed), old_head)))
        self.storage.push(self.rows, pa.concat_tables([kept, rows, head]))

    def replace_vectors(self, revector: Revector, *, rows: pa.Table, head: pa.Table) -> None:
        kept = self.rows.filter(pc.not_equal(self.rows["record_type"], HEAD_TYPE))
        batches = kept.to_batches(max_chunksize=revector.batch_rows)
        anew = pa.Table.from_batches(map(revector.apply, batches), revector.schema)
        self.storage.push(self.rows, pa.concat_tables([anew, rows, head]))

    def search_all(self, wanted: Wanted) -> pa.Table:
        raise InvalidArgumentError(f"a table in memory has no index for {wanted.kind!r}")


@dataclass(frozen=True)
class MemoryPiece:
    """The whole of one version."""

    snapshot: MemorySnapshot

    @property
    def num_rows(self) -> int:
        return int(self.snapshot.rows.num_rows)

    @property
    def size_bytes(self) -> int | None:
        return None

    def scan(self, columns: Sequence[str], where: Where) -> Iterator[pa.Table]:
        yield self.snapshot.scan(columns, where)


class MemoryStorage:
    """A table in memory."""

    def __init__(self) -> None:
        self._versions: list[pa.Table] = []

    def exists(self) -> bool:
        return bool(self._versions)

    def create(self, head: Head) -> None:
        self._versions.append(head_row(head))

    def snapshot(self) -> MemorySnapshot:
        if not self._versions:
            raise TableNotFoundError("no table was made")
        return MemorySnapshot(self, self._versions[-1])

    def push(self, seen: pa.Table, rows: pa.Table) -> None:
        """Make a new version, if the one that was seen is still the newest."""
        if self._versions[-1] is not seen:
            raise RaceLostError("another commit came first")
        self._versions.append(rows)

    def turn(self, races: int) -> AbstractContextManager[None]:  # noqa: ARG002  # one writer
        return nullcontext()

    def tidy(self) -> None:
        return

    def optimize(self) -> None:
        return

    def clean(self, *, older_than: timedelta) -> None:  # noqa: ARG002  # memory has no age
        return

    def purge(self) -> None:
        del self._versions[:-1]
