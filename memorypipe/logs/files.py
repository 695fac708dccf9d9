"""Log files to records: which files a path means, and where one record ends. Reads the disk."""

import glob
import gzip
import json
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import orjson

from memorypipe.errors import InvalidArgumentError
from memorypipe.logs.formats import classify, explode
from memorypipe.logs.records import Record

__all__ = ["find_files", "read_records"]

_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# So many lines decide whether a file is JSON lines or one document.
_PROBED_LINES = 20


class _Line(NamedTuple):
    number: int  # from 1
    raw: bytes


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
            f"No log file at {str(path)!r}; give a file, a directory with files, or a pattern."
        )
    return sorted(found)


def _is_visible(path: Path) -> bool:
    return not any(part.startswith((".", "_")) for part in path.parts)


def read_records(path: Path) -> Iterator[Record]:
    """Read the records of a file, which may be compressed with gzip.

    JSON lines are read one at a time. A JSON document is read whole: one whose first line is no
    JSON value by itself, or that has one line only.

    Args:
        path: Of an existing file.

    Returns:
        One record per line or per item of the document (see `memorypipe.logs.formats.explode`);
        a line that is no JSON is a record with a `problem`.
    """
    with _open(path) as stream:
        lines = _lines(stream)
        head = list(islice(lines, _PROBED_LINES))
        if _may_be_document(head):
            yield from _document_records(str(path), [*head, *lines])
        else:
            yield from _line_records(str(path), chain(head, lines))


def _open(path: Path) -> IO[bytes]:
    with path.open("rb") as stream:
        zipped = stream.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    return cast("IO[bytes]", gzip.open(path)) if zipped else path.open("rb")


def _lines(stream: Iterable[bytes]) -> Iterator[_Line]:
    for number, raw in enumerate(stream, start=1):
        line = raw.removeprefix(_BYTE_ORDER_MARK) if number == 1 else raw
        if line.strip():
            yield _Line(number, line)


def _may_be_document(head: list[_Line]) -> bool:
    if len(head) == 1:
        return True
    if not head or _loads(head[0].raw)[1] is None:
        return False
    if head[0].raw.strip() in {b"[", b"{"}:
        return True
    return not any(classify(_loads(line.raw)[0]) for line in head)


def _document_records(source: str, lines: list[_Line]) -> Iterator[Record]:
    value, problem = _loads(b"".join(line.raw for line in lines))
    if problem is not None:
        yield from _line_records(source, lines)
        return
    for number, item in enumerate(explode(value), start=1):
        yield Record(source=source, line=number, value=item)


def _line_records(source: str, lines: Iterable[_Line]) -> Iterator[Record]:
    for number, raw in lines:
        value, problem = _loads(raw)
        if problem is not None:
            yield Record(source=source, line=number, value=None, raw=raw, problem=problem)
            continue
        items = explode(value)
        for item in items:
            yield Record(
                source=source, line=number, value=item, raw=raw if len(items) == 1 else None
            )


def _loads(raw: bytes) -> tuple[Any, str | None]:
    """Parse JSON; the second value says why it could not be."""
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
