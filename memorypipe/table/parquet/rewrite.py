"""Which files a change replaces, and what it writes in their stead.

Small files are merged when something joins them anyway: with files at most twice as big as what
comes, so that a row is written again a logarithm's number of times and files stay few.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memorypipe.schema import table_schema
from memorypipe.table.parquet.files import DataFiles
from memorypipe.table.parquet.manifest import HASHES, DataFile, Kind, Manifest, scope_hashes
from memorypipe.table.records import RUN_TYPE
from memorypipe.table.rows import SORT_COLUMNS

__all__ = [
    "Change",
    "Rewrite",
    "Rewritten",
    "merges",
    "plan_commit",
    "rewrite",
    "split_bounds",
]

# A bucket with more rows is split, into parts of about half as many: with 256-dimension vectors
# such a part has 8 MB, which a commit rewrites in a twentieth of a second.
_SPLIT_ROWS = 1 << 14
_PART_ROWS = _SPLIT_ROWS // 2

# One scope cannot be split. Its rows go into files of this size, of which a commit to it
# rewrites those that it closes rows in.
_FILE_ROWS = 1 << 16

_GROWTH = 2


@dataclass(frozen=True, kw_only=True)
class Change:
    """What becomes of the rows of one kind in one bucket.

    Attributes:
        kind: Which rows.
        bucket: Lowest hash of the bucket; 0 for run rows.
        files: Files that are replaced.
        closed: Name of such a file to rising numbers of the rows that it loses.
        rows: What is put in; None for nothing.
    """

    kind: Kind
    bucket: int
    files: tuple[DataFile, ...]
    closed: Mapping[str, NDArray[np.int64]]
    rows: pa.Table | None = None


@dataclass(frozen=True, kw_only=True)
class Rewrite:
    """What becomes of one bucket, as one piece of work.

    Attributes:
        changes: One for each kind of rows.
        end: First hash behind the bucket.
        split: Whether it is split into several.
        sort: Whether rows are brought into the order of their scopes.
    """

    changes: tuple[Change, ...]
    end: int
    split: bool = False
    sort: bool = False

    @property
    def size_bytes(self) -> int:
        """Of what is read and put in."""
        return sum(
            sum(file.size_bytes for file in change.files)
            + (0 if change.rows is None else change.rows.nbytes)
            for change in self.changes
        )


@dataclass(frozen=True, kw_only=True)
class Rewritten:
    """What came of a rewrite: the new files, and bounds of buckets that there were not before."""

    files: tuple[DataFile, ...]
    bounds: tuple[int, ...] = ()


def plan_commit(
    manifest: Manifest, closed: Mapping[str, NDArray[np.int64]], rows: pa.Table
) -> list[Rewrite]:
    """Decide what a commit rewrites: buckets that lose or get rows, and no other.

    Args:
        manifest: Of the version before.
        closed: Name of a file to rising numbers of the rows that it loses.
        rows: What is put in, run rows included.
    """
    groups = _grouped(manifest, rows)
    files: dict[tuple[Kind, int], list[DataFile]] = {}
    for file in manifest.files:
        files.setdefault((file.kind, file.bucket), []).append(file)
        if file.name in closed:
            groups.setdefault((file.kind, file.bucket), None)
    runs = [key for key in groups if key[0] == "run"]
    plans = [
        Rewrite(changes=(_change(key, files.get(key, []), closed, groups[key]),), end=HASHES)
        for key in runs
    ]
    for bucket in sorted({bucket for kind, bucket in groups if kind != "run"}):
        keys: list[tuple[Kind, int]] = [("current", bucket), ("past", bucket)]
        end = manifest.end(bucket)
        own = [file for key in keys for file in files.get(key, ())]
        split = end - bucket > 1 and _rows_after(own, closed, map(groups.get, keys)) > _SPLIT_ROWS
        changes = tuple(
            _change(key, files.get(key, []), closed, groups.get(key), every=split)
            for key in keys
            if split or key in groups
        )
        plans.append(Rewrite(changes=changes, end=end, split=split))
    return plans


def _grouped(manifest: Manifest, rows: pa.Table) -> dict[tuple[Kind, int], pa.Table | None]:
    """Part rows by kind and bucket."""
    is_run = np.asarray(pc.equal(rows["record_type"], RUN_TYPE))
    kinds = np.where(is_run, 2, np.where(np.asarray(rows["is_current"]), 0, 1))
    buckets = np.where(is_run, 0, manifest.buckets(scope_hashes(rows["scope_key"])))
    codes = kinds * HASHES + buckets
    order = np.argsort(codes, kind="stable")
    values, starts = np.unique(codes[order], return_index=True)
    cuts = [*starts.tolist(), len(order)]
    names = get_args(Kind)
    ordered = rows.combine_chunks().take(pa.array(order))
    return {
        (names[value // HASHES], value % HASHES): ordered.slice(start, end - start)
        for value, start, end in zip(values.tolist(), cuts[:-1], cuts[1:], strict=True)
    }


def _rows_after(
    files: Iterable[DataFile],
    closed: Mapping[str, NDArray[np.int64]],
    put_in: Iterable[pa.Table | None],
) -> int:
    kept = sum(file.rows - len(closed.get(file.name, ())) for file in files)
    coming: int = sum(rows.num_rows for rows in put_in if rows is not None)
    return kept + coming


def _change(
    key: tuple[Kind, int],
    files: Sequence[DataFile],
    closed: Mapping[str, NDArray[np.int64]],
    rows: pa.Table | None,
    *,
    every: bool = False,
) -> Change:
    """Choose the files that a change replaces: those that lose rows, and small ones."""
    chosen = [file for file in files if every or file.name in closed]
    coming = _rows_after(chosen, closed, [rows])
    others = [file for file in files if file not in chosen]
    for file in sorted(others, key=lambda each: each.rows):
        if file.rows > _GROWTH * coming or file.rows + coming > _FILE_ROWS:
            break
        chosen.append(file)
        coming += file.rows
    kind, bucket = key
    taken = {file.name: closed[file.name] for file in chosen if file.name in closed}
    return Change(kind=kind, bucket=bucket, files=tuple(chosen), closed=taken, rows=rows)


def merges(manifest: Manifest) -> Iterator[Rewrite]:
    """Find the buckets whose rows lie in more files than they need."""
    files: dict[tuple[Kind, int], list[DataFile]] = {}
    for file in manifest.files:
        if file.rows <= _FILE_ROWS // _GROWTH:
            files.setdefault((file.kind, file.bucket), []).append(file)
    for (kind, bucket), small in files.items():
        if len(small) > 1:
            change = Change(kind=kind, bucket=bucket, files=tuple(small), closed={})
            yield Rewrite(changes=(change,), end=manifest.end(bucket), sort=True)


def rewrite(files: DataFiles, vector_dim: int, work: Rewrite) -> Rewritten:
    """Write the files of one bucket anew.

    Args:
        files: Of the table.
        vector_dim: Width of `vector`.
        work: What to do.

    Raises:
        OSError: Where a file could not be written.
        TableError: Where one could not be read.
    """
    schema = table_schema(vector_dim)
    kinds = [(change, _rows_of(files, schema, change)) for change in work.changes]
    if not work.split:
        written = [
            file
            for change, rows in kinds
            for file in _write(files, _sorted(rows) if work.sort else rows, change)
        ]
        return Rewritten(files=tuple(written))
    hashes = [scope_hashes(rows["scope_key"]) for _, rows in kinds]
    low = work.changes[0].bucket
    bounds = split_bounds(np.concatenate(hashes), low, work.end)
    starts = np.array([low, *bounds], np.int64)
    written = [
        file
        for (change, rows), own in zip(kinds, hashes, strict=True)
        for part, bucket in _parts(rows, own, starts)
        for file in _write(files, part, change, bucket)
    ]
    return Rewritten(files=tuple(written), bounds=tuple(bounds))


def _rows_of(files: DataFiles, schema: pa.Schema, change: Change) -> pa.Table:
    parts = [] if change.rows is None else [change.rows.select(schema.names).cast(schema)]
    for file in change.files:
        rows = files.read(file, schema)
        if file.name in change.closed:
            keep = np.ones(rows.num_rows, bool)
            keep[change.closed[file.name]] = False
            rows = rows.filter(pa.array(keep))
        parts.append(rows)
    return pa.concat_tables(parts) if parts else schema.empty_table()


def _sorted(rows: pa.Table) -> pa.Table:
    return rows.sort_by([(name, "ascending") for name in SORT_COLUMNS])


def split_bounds(hashes: NDArray[np.int64], low: int, end: int) -> list[int]:
    """Choose new bounds between `low` and `end`, so that each part has about `_PART_ROWS` rows.

    A scope that is bigger than a bucket gets one of its own.
    """
    ordered = np.sort(hashes)
    values, counts = np.unique(ordered, return_counts=True)
    heavy = values[counts > _SPLIT_ROWS]
    bounds = np.concatenate([ordered[_PART_ROWS::_PART_ROWS], heavy, heavy + 1])
    return [bound for bound in np.unique(bounds).tolist() if low < bound < end]


def _parts(
    rows: pa.Table, hashes: NDArray[np.int64], starts: NDArray[np.int64]
) -> Iterator[tuple[pa.Table, int]]:
    """Part rows by bucket, each in the order of its hashes: scopes lie together."""
    order = np.argsort(hashes, kind="stable")
    cuts = [*np.searchsorted(hashes[order], starts).tolist(), len(order)]
    ordered = rows.combine_chunks().take(pa.array(order))
    for bucket, start, stop in zip(starts.tolist(), cuts[:-1], cuts[1:], strict=True):
        yield ordered.slice(start, stop - start), bucket


def _write(
    files: DataFiles, rows: pa.Table, change: Change, bucket: int | None = None
) -> Iterator[DataFile]:
    place = change.bucket if bucket is None else bucket
    for start in range(0, rows.num_rows, _FILE_ROWS):
        yield files.write(rows.slice(start, _FILE_ROWS), change.kind, place)
