"""Lots: the rows of a file that a worker takes in hand together.

To decide scopes, heavy ones are taken first. A worker that took whole partitions would be held up
by the longest scope of each. So it takes lots: a heavy scope on its own, light ones together with
others that are about as heavy, since all of them are done at about the same time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = ["Lot", "cut_lots", "in_pieces", "make_lots", "read_lot", "rows_of"]

# What a lot has at most; a scope that alone has more windows is a lot of its own.
_LOT_WINDOWS = 512
_LOT_SCOPES = 128

# Long transcripts are cut finer: a worker has many lots at once.
_LOT_BYTES = 1024 * 1024


class _Extent(NamedTuple):
    """Where the windows of one scope lie in their file."""

    start: int
    windows: int


@dataclass(frozen=True, kw_only=True)
class Lot:
    """Rows of one file.

    Attributes:
        path: The Parquet file.
        ranges: Their places: first row and number of rows.
        scopes: Whole scopes that they make; 0 where nobody asks.
        heaviest: Windows of the heaviest scope; likewise.
    """

    path: str
    ranges: tuple[tuple[int, int], ...]
    scopes: int = 0
    heaviest: int = 0


def cut_lots(paths: Sequence[str], *, rows: int) -> list[Lot]:
    """Cut files into lots of so many rows, whatever their scopes.

    Args:
        paths: Parquet files.
        rows: Of a lot; fewer where rows are long, and in the last one of a file.
    """
    sizes = [pq.read_metadata(path).num_rows for path in paths]
    whole = [Lot(path=path, ranges=((0, size),)) for path, size in zip(paths, sizes, strict=True)]
    return [piece for lot in whole for piece in in_pieces(lot, rows=rows)]


def in_pieces(lot: Lot, *, rows: int) -> list[Lot]:
    """Cut a lot into pieces of so many rows, whatever their scopes.

    Args:
        lot: Of a Parquet file that is there.
        rows: Of a piece; fewer where rows are long, and in the last one.
    """
    most = max(1, min(rows, _LOT_BYTES // _row_bytes(lot.path)))
    pieces: list[list[tuple[int, int]]] = []
    room = 0
    for first, size in lot.ranges:
        start, left = first, size
        while left:
            if not room:
                pieces.append([])
                room = most
            taken = min(left, room)
            pieces[-1].append((start, taken))
            start, left, room = start + taken, left - taken, room - taken
    return [Lot(path=lot.path, ranges=tuple(ranges)) for ranges in pieces]


def _row_bytes(path: str) -> int:
    """Give the bytes of an average row of a file."""
    metadata = pq.read_metadata(path)
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    size: int = sum(group.total_byte_size for group in groups)
    rows: int = metadata.num_rows
    return 1 + size // max(1, rows)


def make_lots(paths: Sequence[str], *, at_least: int) -> list[Lot]:
    """Put the scopes of files together in lots, those with the heaviest scopes first.

    Args:
        paths: Parquet files, rows of a scope beside each other in one of them.
        at_least: Lots that there are to choose from, where there are so many scopes.
    """
    ends = [_scope_ends(path) for path in paths]
    scopes = sum(map(len, ends))
    most_scopes = min(_LOT_SCOPES, max(1, scopes // at_least))
    lots = [
        lot
        for path, ends_there in zip(paths, ends, strict=True)
        for lot in _lots_of(path, _extents(ends_there), most_scopes)
    ]
    return sorted(lots, key=lambda lot: -lot.heaviest)


def _scope_ends(path: str) -> pa.Array:
    """Give the place after the last row of each scope: four bytes a scope, whatever its name."""
    keys = pq.read_table(path, columns=["scope_key"])["scope_key"].combine_chunks()
    return pc.run_end_encode(keys).run_ends


def _extents(scope_ends: pa.Array) -> list[_Extent]:
    ends = scope_ends.to_pylist()
    return [_Extent(start, end - start) for start, end in pairwise([0, *ends])]


def _lots_of(path: str, extents: Sequence[_Extent], most_scopes: int) -> Iterator[Lot]:
    by_weight = sorted(extents, key=lambda extent: -extent.windows.bit_length())
    for _, alike in groupby(by_weight, key=lambda extent: extent.windows.bit_length()):
        lot: list[_Extent] = []
        for extent in alike:
            windows = sum(each.windows for each in lot) + extent.windows
            if lot and (len(lot) == most_scopes or windows > _LOT_WINDOWS):
                yield _lot(path, lot)
                lot = []
            lot.append(extent)
        yield _lot(path, lot)


def _lot(path: str, extents: Sequence[_Extent]) -> Lot:
    ranges: list[tuple[int, int]] = []
    for start, count in extents:
        if ranges and sum(ranges[-1]) == start:
            start, count = ranges[-1][0], ranges.pop()[1] + count  # noqa: PLW2901  # they touch
        ranges.append((start, count))
    heaviest = max(extent.windows for extent in extents)
    return Lot(path=path, ranges=tuple(ranges), scopes=len(extents), heaviest=heaviest)


def read_lot(lot: Lot, columns: Sequence[str]) -> pa.Table:
    """Read the rows of a lot, and little more of its file."""
    with pq.ParquetFile(lot.path) as file:
        sizes = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
        pieces: list[pa.Table] = []
        first = 0
        for group, size in enumerate(sizes):
            wanted = [_within(piece, first, size) for piece in lot.ranges]
            if any(count > 0 for _, count in wanted):
                rows = file.read_row_group(group, columns=list(columns))
                pieces += [rows.slice(start, count) for start, count in wanted if count > 0]
            first += size
    return pa.concat_tables(pieces)


def rows_of(lot: Lot, table: pa.Table) -> pa.Table:
    """Give the rows of a lot of the table that is its whole file."""
    return pa.concat_tables([table.slice(start, count) for start, count in lot.ranges])


def _within(piece: tuple[int, int], first: int, size: int) -> tuple[int, int]:
    """Give the part of a range that lies in so many rows from the first one, counted from it."""
    start = max(piece[0], first)
    end = min(sum(piece), first + size)
    return start - first, end - start
