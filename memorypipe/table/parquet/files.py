"""The data files of a Parquet table: written whole, read by columns and row groups."""

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from threading import Lock
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from memorypipe.errors import TableError
from memorypipe.schema import table_schema
from memorypipe.table.parquet.manifest import (
    MANIFESTS,
    DataFile,
    Kind,
    Manifest,
    manifest_name,
    version_of,
)
from memorypipe.table.parquet.places import Place
from memorypipe.table.storage import RaceLostError, UnknownOutcomeError

__all__ = ["DATA", "DataFiles", "publish"]

DATA = "data"

# Few rows are read of a file by the row groups that hold them.
_GROUP_ROWS = 8192

# What was read of keys and run rows stays in memory up to this size: some 80 bytes per row.
_REMEMBERED_BYTES = 1 << 27

ItemT = TypeVar("ItemT")
DoneT = TypeVar("DoneT")


class DataFiles:
    """Reads and writes the data files of one table; may be used by several threads.

    Args:
        place: Where they are.
        uri: Of the table, for messages.
    """

    def __init__(self, place: Place, uri: str) -> None:
        self.place = place
        self.uri = uri
        self._lock = Lock()
        self._remembered: OrderedDict[tuple[str, tuple[str, ...]], pa.Table] = OrderedDict()
        self._size_bytes = 0

    def write(self, rows: pa.Table, kind: Kind, bucket: int) -> DataFile:
        """Write rows, in the table's schema, as a file that nothing names yet.

        Raises:
            OSError: Where the place does not take it.
        """
        sink = pa.BufferOutputStream()
        options = _options(rows.schema.field("vector").type.list_size)
        pq.write_table(rows, sink, row_group_size=_GROUP_ROWS, **options)
        data = sink.getvalue()
        name = f"{DATA}/{kind}-{uuid4().hex}.parquet"
        self.place.write(name, data)
        return DataFile(
            name=name, kind=kind, bucket=bucket, rows=rows.num_rows, size_bytes=data.size
        )

    def read(
        self, file: DataFile, schema: pa.Schema, offsets: NDArray[np.int64] | None = None
    ) -> pa.Table:
        """Read columns of a file.

        Args:
            file: Which.
            schema: Of the columns wanted; those that the file does not have are null.
            offsets: Rising numbers of the rows wanted; None for all.

        Raises:
            RaceLostError: If maintenance removed the file since its manifest was read.
            TableError: If it cannot be read.
        """
        try:
            source = self.place.source(file.name, file.size_bytes)
            local = isinstance(source, str)
            # What is not on this machine is fetched in few big ranges.
            with pq.ParquetFile(source, memory_map=local, pre_buffer=not local) as opened:
                return _conform(_read(opened, schema.names, offsets), schema)
        except FileNotFoundError as error:
            raise RaceLostError(
                f"The version read of {self.uri!r} is gone: maintenance removed it; read again."
            ) from error
        except (OSError, pa.ArrowException) as error:
            raise TableError(f"{file.name!r} of {self.uri!r} cannot be read: {error}") from error

    def remembered(self, file: DataFile, schema: pa.Schema) -> pa.Table:
        """Read small columns of a file once; they are kept in memory while there is room."""
        key = (file.name, tuple(schema.names))
        with self._lock:
            if (found := self._remembered.get(key)) is not None:
                self._remembered.move_to_end(key)
                return found
        rows = self.read(file, schema)
        with self._lock:
            if key not in self._remembered:
                self._remembered[key] = rows
                self._size_bytes += rows.nbytes
            while self._size_bytes > _REMEMBERED_BYTES:
                self._size_bytes -= self._remembered.popitem(last=False)[1].nbytes
        return rows

    def remove(self, files: Iterable[DataFile]) -> None:
        """Remove files that nothing names; what cannot be removed now is left to maintenance."""
        for file in files:
            try:
                self.place.remove(file.name)
            except OSError:
                return

    def each(
        self, work: Callable[[ItemT], DoneT], items: Sequence[ItemT], size_bytes: int
    ) -> Iterator[DoneT]:
        """Do the same for many files, some at a time; results come in order.

        After an error no more are begun; it is raised when those begun have ended.

        Args:
            work: What to do.
            items: What to do it for.
            size_bytes: Of all files: threads for little work cost more than they save.
        """
        if len(items) <= 1 or size_bytes < self.place.alone_bytes:
            yield from map(work, items)
            return
        with ThreadPoolExecutor(self.place.workers) as pool:
            yield from pool.map(work, items)


def publish(
    files: DataFiles, base: Manifest, manifest: Manifest, written: Sequence[DataFile]
) -> None:
    """Make a version: create its manifest, unless another one took its number.

    The number is free again where maintenance removed the version that had it. Versions go from
    the oldest on, so this one was the first where the one before it is there afterwards.

    Args:
        files: Of the table.
        base: Of the version that it was made from.
        manifest: Of the version.
        written: Files that it alone names; they go where it is surely not there.

    Raises:
        RaceLostError: If another version came first.
        UnknownOutcomeError: If nobody knows whether this one is there.
        TableError: If it could not be made.
    """
    try:
        created = files.place.create(manifest_name(manifest.version), manifest.encode())
    except OSError as error:
        files.remove(written)
        raise TableError(f"Nothing was committed to {files.uri!r}: {error}") from error
    if not created:
        files.remove(written)
        raise RaceLostError(f"Another commit to {files.uri!r} came first.")
    try:
        is_first = _is_there(files, base)
        if not is_first:
            _take_back(files, manifest, written)
    except OSError as error:
        raise UnknownOutcomeError(f"A commit to {files.uri!r} cannot be seen: {error}") from error
    if not is_first:
        raise UnknownOutcomeError(f"The version read of {files.uri!r} went before the commit.")


def _is_there(files: DataFiles, manifest: Manifest) -> bool:
    found = _manifest(files, manifest.version)
    return found is not None and found.token == manifest.token


def _manifest(files: DataFiles, version: int) -> Manifest | None:
    with contextlib.suppress(FileNotFoundError):
        return Manifest.decode(files.place.read(manifest_name(version)), files.uri)
    return None


def _take_back(files: DataFiles, manifest: Manifest, written: Sequence[DataFile]) -> None:
    """Remove a version that others came before, or have replaced since; the newest one stays.

    Every version before it is gone, so those that are left still follow one another. Its files
    stay where a later version names them: then that was built on it.
    """
    versions = map(version_of, files.place.listing(MANIFESTS))
    later = [each for each in versions if each is not None and each > manifest.version]
    if not later:
        return
    found = [_manifest(files, version) for version in later]
    named = {file.name for each in found if each is not None for file in each.files}
    files.place.remove(manifest_name(manifest.version))
    files.remove(file for file in written if file.name not in named)


def _read(
    opened: pq.ParquetFile, names: Sequence[str], offsets: NDArray[np.int64] | None
) -> pa.Table:
    there = set(opened.schema_arrow.names)
    columns = [name for name in names if name in there]
    if offsets is None or len(offsets) == opened.metadata.num_rows:
        return opened.read(columns=columns, use_threads=False)
    groups, inverse = np.unique(offsets // _GROUP_ROWS, return_inverse=True)
    rows = opened.read_row_groups(groups.tolist(), columns=columns, use_threads=False)
    # All groups are full but the last, which is the last of those read, too.
    return rows.take(pa.array(inverse * _GROUP_ROWS + offsets % _GROUP_ROWS))


def _conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    there = set(rows.column_names)
    columns = [
        rows[field.name] if field.name in there else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


@lru_cache(maxsize=8)
def _options(vector_dim: int) -> dict[str, Any]:
    """Choose how columns are written: vectors plainly, since nothing makes them smaller."""
    sink = pa.BufferOutputStream()
    pq.write_table(table_schema(vector_dim).empty_table(), sink)
    leaves = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    paths = [leaves.column(number).path for number in range(len(leaves))]
    others = [path for path in paths if not path.startswith("vector.")]
    return {
        "use_dictionary": False,
        "compression": dict.fromkeys(others, "zstd"),
        "compression_level": dict.fromkeys(others, 1),
        "write_statistics": others,
    }
