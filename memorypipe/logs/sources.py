"""Everything that a log may be read from, as streams of records."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from memorypipe.errors import InvalidArgumentError
from memorypipe.logs.files import find_files, read_records
from memorypipe.logs.records import Record

__all__ = ["PULLED_ROWS", "LogSource", "record_streams"]

# A path, paths, rows, an Arrow table, a pandas frame or a Ray Dataset.
LogSource: TypeAlias = Any

# Rows of a table or dataset that are Python objects at a time.
PULLED_ROWS = 1_024


def record_streams(
    source: LogSource,
    *,
    pull: Callable[[Any], Iterator[pa.Table] | None],
    is_mapped: bool = False,
) -> Iterator[tuple[str, Iterable[Record]]]:
    """Yield a name and the records for each file or table of a source.

    Args:
        source: Of a log.
        pull: Gives the tables of a dataset; None for what is none.
        is_mapped: As `memorypipe.logs.files.read_records`.

    Raises:
        InvalidArgumentError: There is no such file, or nothing can be read from the source.
    """
    if isinstance(source, str | Path):
        source = [source]
    if isinstance(source, Sequence) and source and all(isinstance(p, str | Path) for p in source):
        for path in dict.fromkeys(file for part in source for file in find_files(part)):
            yield str(path), read_records(path, is_mapped=is_mapped)
        return
    name = type(source).__name__
    yield name, _row_records(name, _rows(source, pull(source)))


def _row_records(name: str, rows: Iterable[Any]) -> Iterator[Record]:
    for number, row in enumerate(rows, start=1):
        yield Record(source=name, line=number, value=row)


def _rows(source: LogSource, tables: Iterator[pa.Table] | None) -> Iterator[Any]:
    if isinstance(source, pa.Table):
        tables = iter([source])
    if tables is not None:
        for table in tables:
            for batch in table.to_batches(max_chunksize=PULLED_ROWS):
                yield from batch.to_pylist()
    elif hasattr(source, "to_dict") and hasattr(source, "columns"):  # pandas, without its import
        yield from map(_plain_row, source.to_dict("records"))
    elif isinstance(source, list | tuple):
        yield from source
    else:
        raise InvalidArgumentError(
            f"Cannot read conversations from a {type(source).__name__}; give a path, a list of "
            "paths or mappings, an Arrow table, a pandas frame or a Ray Dataset."
        )


def _plain_row(row: dict[Any, Any]) -> dict[str, Any]:
    # A pandas frame holds NaN and NaT where a cell is missing.
    return {str(name): None if _is_missing(value) else _lists(value) for name, value in row.items()}


def _is_missing(value: Any) -> bool:
    return not isinstance(value, np.ndarray | list | dict | str) and bool(value != value)  # noqa: PLR0124  # NaN


def _lists(value: Any) -> Any:
    """Turn the arrays that pandas holds lists in back into lists."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list):
        return [_lists(item) for item in value]
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return value
