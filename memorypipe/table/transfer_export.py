"""Export: the rows of a table as one plain file that needs no library of ours to be read."""

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from memorypipe.errors import InvalidArgumentError, TableError
from memorypipe.table.pinned import PinnedRead
from memorypipe.table.scratch import remove_left

__all__ = [
    "EMBEDDER_KEY",
    "EXPORT_FORMATS",
    "VERSION_KEY",
    "ExportFormat",
    "ExportResult",
    "check_format",
    "export_columns",
    "export_rows",
]

ExportFormat = Literal["parquet", "jsonl"]
EXPORT_FORMATS: tuple[str, ...] = get_args(ExportFormat)

#: Key of a Parquet export's metadata: which embedder made its vectors.
EMBEDDER_KEY = "memorypipe.embedder"

#: The same for the table's version; every Parquet export of ours has it.
VERSION_KEY = "memorypipe.version"

# A row group of a Parquet file is at least this large, whatever pieces the rows came in.
_GROUP_ROWS = 1 << 16
_GROUP_BYTES = 1 << 26

# It repeats the text on live rows and is null on all others.
_DERIVED = frozenset({"search_text"})
_JSON_TEXTS = ("metadata", "payload")
_MAPS = ("scope", "labels")


@dataclass(frozen=True, kw_only=True)
class ExportResult:
    """What was exported.

    Attributes:
        path: The file.
        format: Its format.
        rows: How many rows are in it.
        version: The table's version that it shows.
    """

    path: str
    format: ExportFormat
    rows: int
    version: int


def check_format(name: str) -> ExportFormat:
    """Check the name of a format.

    Raises:
        InvalidArgumentError: For an unknown one.
    """
    for known in get_args(ExportFormat):
        if name == known:
            return known  # type: ignore[no-any-return]  # `get_args` knows no types
    raise InvalidArgumentError(f"Unknown format {name!r}; choices: {EXPORT_FORMATS!r}.")


def export_columns(schema: pa.Schema, form: ExportFormat, embedder: str | None) -> list[str]:
    """Choose the columns of an export.

    Args:
        schema: Of the table.
        form: JSON lines leave the vectors of an embedder out: they follow from the texts.
        embedder: Of the table; None: the vectors are the caller's own.
    """
    left_out = _DERIVED if form == "parquet" or embedder is None else _DERIVED | {"vector"}
    return [name for name in schema.names if name not in left_out]


def export_rows(read: PinnedRead, path: str | os.PathLike[str], form: ExportFormat) -> ExportResult:
    """Write rows to a file, some at a time; it is there when all of it is.

    Parquet keeps the types of `memorypipe.schema.table_schema`: `scope` and `labels` are maps,
    `metadata` and `payload` texts with JSON. In JSON lines all four are objects, and times are
    ISO 8601 in UTC.

    Args:
        read: The rows, with the columns of `export_columns`.
        path: Of the file; one that is there is replaced.
        form: Of the file.

    Raises:
        InvalidArgumentError: If the folder is not there.
        TableError: If the file cannot be written, or the version is gone.
    """
    target = Path(path)
    if not target.parent.is_dir() or target.is_dir():
        raise InvalidArgumentError(
            f"The export cannot be written to {str(target)!r}: "
            f"{'it is a folder' if target.is_dir() else 'its folder is not there'}; "
            "name a file in a folder that is."
        )
    write = _write_parquet if form == "parquet" else _write_lines
    try:
        with _replacing(target) as scratch:
            rows = write(read, scratch)
    except OSError as error:
        raise TableError(f"The export {str(target)!r} cannot be written: {error}") from error
    return ExportResult(path=str(target), format=form, rows=rows, version=read.version)


@contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """Give a file beside the target that takes its place once it is whole."""
    scratch = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        scratch.touch()
        remove_left(scratch, f".{glob.escape(target.name)}.*.new")
        yield scratch
        scratch.replace(target)
    finally:
        scratch.unlink(missing_ok=True)


def _write_parquet(read: PinnedRead, path: Path) -> int:
    metadata = {VERSION_KEY: str(read.version)}
    if read.embedder is not None:
        metadata[EMBEDDER_KEY] = read.embedder
    schema = read.schema.with_metadata({**(read.schema.metadata or {}), **metadata})
    rows = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for group in _groups(read.tables()):
            writer.write_table(group.cast(schema), row_group_size=group.num_rows)
            rows += group.num_rows
    return rows


def _groups(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Put small tables together to row groups worth having."""
    pending: list[pa.Table] = []
    rows = size_bytes = 0
    for table in tables:
        pending.append(table)
        rows += table.num_rows
        size_bytes += table.nbytes
        if rows >= _GROUP_ROWS or size_bytes >= _GROUP_BYTES:
            yield pa.concat_tables(pending)
            pending, rows, size_bytes = [], 0, 0
    if pending:
        yield pa.concat_tables(pending)


def _write_lines(read: PinnedRead, path: Path) -> int:
    rows = 0
    with path.open("wb") as stream:
        for row in read.rows():
            stream.write(orjson.dumps(_json_row(row), option=_LINE))
            rows += 1
    return rows


_LINE = orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z


def _json_row(row: dict[str, Any]) -> dict[str, Any]:
    """Give a row as JSON values: maps and JSON texts as objects."""
    for name in _MAPS:
        if row[name] is not None:
            row[name] = dict(row[name])
    for name in _JSON_TEXTS:
        if row[name] is not None:
            row[name] = _loaded(row[name])
    if row.get("vector", ...) is None:
        del row["vector"]
    return row


def _loaded(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text  # it stays what it is
