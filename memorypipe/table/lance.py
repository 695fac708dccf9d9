"""The Lance back end: one dataset in a LanceDB database directory.

A commit is one Lance transaction that replaces the head row. The head lives in a fragment of its
own and two transactions that touch one fragment conflict, so any two concurrent commits do:
that is the compare-and-swap, on every store that Lance can commit to, with no lock server.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any, Final

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance.commit import CommitConflictError
from lance.fragment import write_fragments

from memorypipe.errors import TableError, TableNotFoundError
from memorypipe.table.records import HEAD_TYPE, SYSTEM_TYPES, Head, head_row, read_head
from memorypipe.table.storage import (
    ADDRESS,
    HEAVY_COLUMNS,
    RaceLostError,
    UnknownOutcomeError,
    Where,
)

__all__ = ["LanceSnapshot", "LanceStorage"]

_DATASET = "memories.lance"  # LanceDB shows it as the table "memories"
_FILE_VERSION: Final = "2.2"  # the first with map columns

# Rows of key columns that one look-up pass holds: 80 MB, and few enough passes over the keys.
_LOCATE_ROWS = 1 << 20

# Fragments below `_SMALL_ROWS` slow every read; `_MANY_SMALL` of them are worth merging.
_SMALL_ROWS = 1 << 17
_MANY_SMALL = 64

# A row address: fragment number in the upper half, offset in the fragment in the lower.
_OFFSET_BITS = 32


@dataclass(frozen=True)
class LanceSnapshot:
    """One version of the dataset.

    Attributes:
        dataset: Opened at that version.
        head: Its head row.
        head_fragment: Number of the fragment that holds it.
    """

    dataset: Any
    head: Head
    head_fragment: int

    @property
    def uri(self) -> str:
        """Of the dataset."""
        return str(self.dataset.uri)

    def scan(self, columns: Sequence[str], where: Where) -> pa.Table:
        """Read columns of the selected rows."""
        return self.dataset.to_table(columns=list(columns), filter=_predicate(where))

    def locate(self, memory_ids: pa.Array, text_hashes: pa.Array) -> pa.Table:
        """Find all revisions of records and the live rows that say certain texts."""
        positions: list[Any] = [np.empty(0, np.int64)]
        addresses: list[Any] = [np.empty(0, np.uint64)]
        start = 0
        for keys in self._key_tables():
            hit = pc.is_in(keys["memory_id"], memory_ids)
            says = pc.is_in(keys["text_hash"], text_hashes, skip_nulls=True)
            hit = pc.or_(hit, pc.and_(keys["is_live"], says))
            found = np.flatnonzero(np.asarray(hit))
            positions.append(found + start)
            addresses.append(np.asarray(keys["_rowaddr"])[found])
            start += keys.num_rows
        return self._rows_at(np.concatenate(positions), np.concatenate(addresses))

    def _key_tables(self) -> Iterator[pa.Table]:
        """Scan the key columns, in order, in tables of about `_LOCATE_ROWS` rows."""
        scanner = self.dataset.scanner(
            columns=["memory_id", "text_hash", "is_live"], with_row_address=True, scan_in_order=True
        )
        batches: list[pa.RecordBatch] = []
        pending = 0
        for batch in scanner.to_batches():
            batches.append(batch)
            pending += batch.num_rows
            if pending >= _LOCATE_ROWS:
                yield pa.Table.from_batches(batches)
                batches, pending = [], 0
        if batches:
            yield pa.Table.from_batches(batches)

    def _rows_at(self, positions: Any, addresses: Any) -> pa.Table:
        names = [name for name in self.dataset.schema.names if name not in HEAVY_COLUMNS]
        rows = self.dataset.take(pa.array(positions), columns=names)
        rows = rows.append_column(ADDRESS, pa.array(addresses, pa.uint64()))
        system = pc.is_in(rows["record_type"], pa.array(SYSTEM_TYPES))
        return rows.filter(pc.invert(system))

    def commit(self, *, closed: pa.Array, rows: pa.Table, head: pa.Table) -> None:
        """Replace closed rows and head, as one Lance transaction."""
        try:
            updated, removed = _without_rows(self.dataset, closed)
            # The head comes last: see `LanceStorage.snapshot`.
            fragments = [*self._write(rows), *self._write(head)]
        except OSError as error:
            raise TableError(f"Nothing was committed to {self.uri!r}: {error}") from error
        operation = lance.LanceOperation.Update(
            removed_fragment_ids=[*removed, self.head_fragment],
            updated_fragments=updated,
            new_fragments=fragments,
        )
        _commit(self.uri, operation, self.dataset.version)

    def _write(self, rows: pa.Table) -> list[Any]:
        written: list[Any] = write_fragments(
            rows, self.uri, schema=rows.schema, data_storage_version=_FILE_VERSION
        )
        return written


@dataclass(frozen=True)
class LanceStorage:
    """A directory with one Lance dataset.

    Attributes:
        uri: Of the directory.
    """

    uri: str

    @property
    def _dataset_uri(self) -> str:
        return f"{self.uri}/{_DATASET}"

    def exists(self) -> bool:
        """Tell whether there is a dataset."""
        try:
            self._open()
        except TableNotFoundError:
            return False
        return True

    def create(self, head: Head) -> None:
        """Make an empty table; where another process made one meanwhile, that one stays."""
        row = head_row(head)
        try:
            lance.write_dataset(
                row,
                self._dataset_uri,
                schema=row.schema,
                mode="create",
                data_storage_version=_FILE_VERSION,
            )
        except OSError as error:
            if not self.exists():
                raise TableError(f"No table could be made at {self.uri!r}: {error}") from error

    def snapshot(self) -> LanceSnapshot:
        """Read the newest version."""
        dataset = self._open()
        columns = ["revision", "valid_from", "payload"]
        # The head is the last thing that a commit writes, alone in its fragment.
        single = [each for each in dataset.get_fragments() if each.physical_rows == 1]
        for fragment in sorted(single, key=lambda each: -each.fragment_id):
            rows = fragment.to_table(columns=columns, filter=f"record_type = '{HEAD_TYPE}'")
            if rows.num_rows:
                return LanceSnapshot(dataset, read_head(rows.to_pylist()[0]), fragment.fragment_id)
        raise TableError(
            f"The Lance dataset {self._dataset_uri!r} has no head row: it is no memory table. "
            "Give another place for the table."
        )

    def tidy(self) -> None:
        """Merge small fragments once there are many of them."""
        try:
            snapshot = self.snapshot()
            fragments = snapshot.dataset.get_fragments()
            if sum(each.physical_rows < _SMALL_ROWS for each in fragments) < _MANY_SMALL:
                return
            snapshot.dataset.optimize.compact_files(
                target_rows_per_fragment=_SMALL_ROWS,
                materialize_deletions=False,
                # With the head in hand it would conflict with every commit beside it.
                excluded_fragment_ids=[snapshot.head_fragment],
            )
        except (OSError, TableError):
            # Mostly another commit touched the same fragments. The rows are safe where they are,
            # and the next commit tries again.
            return

    def _open(self) -> Any:
        try:
            return lance.dataset(self._dataset_uri)
        except ValueError as error:
            if "was not found" in str(error):
                raise TableNotFoundError(
                    f"There is no memory table at {self.uri!r}; check the path, or let "
                    "MemoryTable.open make one with create=True."
                ) from error
            raise TableError(f"The table at {self.uri!r} cannot be read: {error}") from error
        except OSError as error:
            raise TableError(f"The table at {self.uri!r} cannot be read: {error}") from error


def _commit(uri: str, operation: Any, read_version: int) -> None:
    try:
        lance.LanceDataset.commit(uri, operation, read_version=read_version)
    except CommitConflictError as error:
        raise RaceLostError(f"Another commit to {uri!r} came first.") from error
    except (OSError, RuntimeError, ValueError) as error:
        # The version that was read is gone: maintenance removed it before this commit.
        if "manifest was not found" in str(error):
            raise RaceLostError(f"The version read of {uri!r} is gone.") from error
        raise UnknownOutcomeError(f"The commit to {uri!r} failed: {error}") from error


def _without_rows(dataset: Any, closed: pa.Array) -> tuple[list[Any], list[int]]:
    """Mark rows as deleted: fragments with a new deletion file, and those with no row left."""
    addresses = np.sort(np.asarray(closed.cast(pa.uint64())))
    numbers = (addresses >> np.uint64(_OFFSET_BITS)).astype(np.int64)
    offsets = (addresses & np.uint64((1 << _OFFSET_BITS) - 1)).astype(np.int64)
    updated, removed = [], []
    for number in np.unique(numbers).tolist():
        metadata = dataset.get_fragment(number).delete_rows(offsets[numbers == number])
        if metadata is None:
            removed.append(number)
        else:
            updated.append(metadata)
    return updated, removed


def _predicate(where: Where) -> str:
    if where.record_type is None:
        parts = [f"record_type NOT IN ({_literals(SYSTEM_TYPES)})"]
    else:
        parts = [f"record_type = {_literals([where.record_type])}"]
    if where.rows != "all":
        parts.append(f"is_{where.rows}")
    if where.touched_at is not None:
        moment = f"timestamp '{where.touched_at.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}'"
        parts.append(f"(valid_from = {moment} OR valid_to = {moment})")
    for column, values in (
        ("scope_key", where.scope_keys),
        ("memory_id", where.memory_ids),
        ("event", where.events),
    ):
        if values is not None:
            parts.append(f"{column} IN ({_literals(values)})" if values else "false")
    return " AND ".join(parts)


def _literals(values: Any) -> str:
    """Quote strings for SQL, where the quote is the only character that means something."""
    return ", ".join("'" + value.replace("'", "''") + "'" for value in values)
