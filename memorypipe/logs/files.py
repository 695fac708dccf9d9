"""Log files to records: which files a path means, and where one record ends. Reads the disk."""

import glob
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import orjson

from memorypipe.errors import InvalidArgumentError, LogFormatError
from memorypipe.logs.formats.registry import classify, explode
from memorypipe.logs.records import Record
from memorypipe.logs.streams import BYTE_ORDER_MARK, Line, first_bytes, read_lines
from memorypipe.logs.tables import PARQUET_MAGIC, csv_records, parquet_records

__all__ = ["BYTE_ORDER_MARK", "find_files", "load_json", "read_records"]

_ZIP_MAGIC = b"PK\x03\x04"
_CSV_NAME = re.compile(r"\.(csv|tsv)(\.gz|\.zst)?$", re.IGNORECASE)

# So many lines decide whether a file is JSON lines or one document.
_PROBED_LINES = 20


def find_files(path: str | Path) -> list[Path]:
    """List the files that a path means, sorted.

    Args:
        path: A file, a directory (with all files below it, but for those whose name begins with
            ``.`` or ``_``), or a glob pattern.

    Raises:
        InvalidArgumentError: There is no such file.
    """
    place = Path(path)
    if place.is_file():
        return [place]
    if place.is_dir():
        found = [p for p in place.rglob("*") if p.is_file() and _is_visible(p.relative_to(place))]
    else:
        found = [Path(p) for p in glob.glob(str(path), recursive=True) if Path(p).is_file()]  # noqa: PTH207  # Path.glob takes no absolute pattern
    if not found:
        raise InvalidArgumentError(
            f"No file at {str(path)!r}; give a file, a directory with files, or a pattern."
        )
    return sorted(found)


def _is_visible(path: Path) -> bool:
    return not any(part.startswith((".", "_")) for part in path.parts)


def read_records(path: Path, *, is_mapped: bool = False) -> Iterator[Record]:
    """Read the records of a file: Parquet, CSV, JSON lines or one JSON document.

    All but Parquet may be compressed with gzip or Zstandard. A file is CSV by its name (``.csv``,
    ``.tsv``); JSON lines are read one at a time. A JSON document is read whole: one whose first
    line is no JSON value by itself, or that has one line only.

    Args:
        path: Of an existing file.
        is_mapped: Whether a mapping says what is where: a file that begins like no JSON is CSV
            then, and a record needs no known shape.

    Returns:
        One record per line or row, or per item of the document (see
        `memorypipe.logs.formats.registry.explode`); what cannot be read is a record with a
        `problem`.

    Raises:
        LogFormatError: The file begins like one of a kind that it is not.
    """
    magic = first_bytes(path, len(PARQUET_MAGIC))
    if magic == PARQUET_MAGIC:
        yield from parquet_records(path)
        return
    if magic == _ZIP_MAGIC:
        raise LogFormatError(f"{str(path)!r} is a zip archive; unpack it and give its JSON file.")
    if _CSV_NAME.search(path.name) or (is_mapped and _begins_like_csv(read_lines(path))):
        yield from csv_records(str(path), read_lines(path))
        return
    lines = filter(_has_text, read_lines(path))
    head = list(islice(lines, _PROBED_LINES))
    records_of = _rows_of if is_mapped else explode
    if _may_be_document(head, is_mapped=is_mapped):
        yield from _document_records(str(path), [*head, *lines], records_of)
    else:
        yield from _line_records(str(path), chain(head, lines), records_of)


def _begins_like_csv(lines: Iterator[Line]) -> bool:
    first = next(filter(_has_text, lines), None)
    return first is not None and first.raw.lstrip()[:1] not in {b"[", b"{"}


def _has_text(line: Line) -> bool:
    return line.problem is not None or bool(line.raw.strip())


def _rows_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _may_be_document(head: list[Line], *, is_mapped: bool) -> bool:
    if len(head) == 1:
        return True
    if not head or load_json(head[0].raw)[1] is None:
        return False
    if head[0].raw.strip() in {b"[", b"{"}:
        return True
    values = [load_json(line.raw)[0] for line in head]
    if is_mapped:
        return not any(isinstance(value, dict) for value in values)
    return not any(map(classify, values))


def _document_records(
    source: str, lines: list[Line], records_of: Callable[[Any], list[Any]]
) -> Iterator[Record]:
    value, problem = load_json(b"".join(line.raw for line in lines))
    if problem is not None:
        yield from _line_records(source, lines, records_of)
        return
    for number, item in enumerate(records_of(value), start=1):
        yield Record(source=source, line=number, value=item)


def _line_records(
    source: str, lines: Iterable[Line], records_of: Callable[[Any], list[Any]]
) -> Iterator[Record]:
    for number, raw, damage in lines:
        value, problem = (None, damage) if damage else load_json(raw)
        if problem is not None:
            yield Record(source=source, line=number, value=None, raw=raw, problem=problem)
            continue
        items = records_of(value)
        for item in items:
            yield Record(
                source=source, line=number, value=item, raw=raw if len(items) == 1 else None
            )


def load_json(raw: bytes) -> tuple[Any, str | None]:
    """Parse JSON.

    Args:
        raw: UTF-8; NaN and escaped lone surrogates are read too.

    Returns:
        The value, and why it could not be read; None where it could.
    """
    try:
        return orjson.loads(raw), None
    except orjson.JSONDecodeError:
        # The standard library also reads NaN and escaped lone surrogates, which are repaired
        # later and must not cost the line.
        return _loads_leniently(raw)


def _loads_leniently(raw: bytes) -> tuple[Any, str | None]:
    try:
        return json.loads(raw.decode()), None
    except UnicodeDecodeError as error:
        return None, f"Not UTF-8 (byte {error.start})."
    except json.JSONDecodeError as error:
        return None, f"Not JSON: {error.msg} (character {error.pos})."
    except RecursionError:
        return None, "Not readable: nested too deeply."
