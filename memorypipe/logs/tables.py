"""The rows of tables in files, CSV and Parquet, as records. Reads the disk."""

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from memorypipe.errors import LogFormatError
from memorypipe.logs.records import Record
from memorypipe.logs.streams import Line

__all__ = ["PARQUET_MAGIC", "csv_records", "parquet_records"]

PARQUET_MAGIC = b"PAR1"

# Small: one row may hold a conversation of megabytes.
_PARQUET_ROWS = 256

_DELIMITERS = (",", "\t", ";", "|")

# Longer cells are taken for a quote that is never closed. The csv module's own limit is 128 KiB.
_MAX_CELL_CHARS = 64 * 1024 * 1024


def parquet_records(path: Path) -> Iterator[Record]:
    """Read the rows of a Parquet file, a few at a time.

    Raises:
        LogFormatError: The file is damaged.
    """
    number = 0
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_PARQUET_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    yield Record(source=str(path), line=number, value=row)
    except (pa.ArrowException, OSError) as error:
        if number == 0:
            raise LogFormatError(
                f"{str(path)!r} begins like a Parquet file but cannot be read as one "
                f"({type(error).__name__})."
            ) from error
        problem = f"The file is damaged from here on ({type(error).__name__})."
        yield Record(source=str(path), line=number + 1, value=None, problem=problem)


def csv_records(source: str, lines: Iterable[Line]) -> Iterator[Record]:
    """Read the rows of a CSV file whose first line names the columns.

    Args:
        source: The name of the file.
        lines: All its lines. Columns are parted by what the first one has most of: comma, tab,
            semicolon or bar. Quoted cells may hold line breaks.

    Returns:
        One record per row with its columns as strings, null where a cell is empty; its number is
        that of the line where it begins. A row with more or fewer cells than the header, or that
        is no UTF-8, has a `problem`.

    Raises:
        LogFormatError: A column has no name, or two have the same.
    """
    broken: list[Line] = []
    texts = _texts(lines, broken)
    first = next(texts, None)
    if first is not None:
        previous = csv.field_size_limit(_MAX_CELL_CHARS)
        try:
            yield from _rows(source, first, texts)
        finally:
            csv.field_size_limit(previous)
    for line in broken:
        yield Record(source=source, line=line.number, value=None, problem=line.problem)


def _texts(lines: Iterable[Line], broken: list[Line]) -> Iterator[str]:
    for line in lines:
        if line.problem is not None:
            broken.append(line)
            return
        # Bytes that are no UTF-8 are found again in the row that they are in.
        yield line.raw.decode(errors="surrogateescape")


def _rows(source: str, first: str, texts: Iterator[str]) -> Iterator[Record]:
    delimiter = max(_DELIMITERS, key=first.count)
    header = [name.strip() for name in next(csv.reader([first], delimiter=delimiter), [])]
    if "" in header or len(set(header)) < len(header):
        raise LogFormatError(
            f"{source!r}: the first line of a CSV file must name each column once, it has "
            f"{len(header)} columns with {len(set(header) - {''})} names."
        )
    reader = csv.reader(texts, delimiter=delimiter)
    line = 2
    while True:
        problem = None
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            cells, problem = [], f"Not CSV: {error}."
        if cells or problem:
            yield _row(source, line, header, cells, problem)
        line = reader.line_num + 2  # one for the header, one for the line that comes


def _row(
    source: str, line: int, header: list[str], cells: list[str], problem: str | None
) -> Record:
    raw = ",".join(cells).encode(errors="surrogateescape")
    if problem is None and len(cells) != len(header):
        problem = f"The row has {len(cells)} cells, the first line names {len(header)} columns."
    if problem is None and not _is_utf8(raw):
        problem = "Not UTF-8."
    value: dict[str, Any] | None = None
    if problem is None:
        value = {name: cell or None for name, cell in zip(header, cells, strict=True)}
    return Record(source=source, line=line, value=value, raw=raw, problem=problem)


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
