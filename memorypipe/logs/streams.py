"""The lines of a log file, whatever compresses or encodes it. Reads the disk."""

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

import pyarrow as pa

__all__ = ["BYTE_ORDER_MARK", "Line", "first_bytes", "read_lines"]

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class Line(NamedTuple):
    """A line of a file.

    Attributes:
        number: From 1.
        raw: As it stands there, in UTF-8, without a byte order mark.
        problem: Why the file cannot be read from here on; None: it can.
    """

    number: int
    raw: bytes
    problem: str | None = None


def first_bytes(path: Path, count: int) -> bytes:
    """Give the first bytes of a file, as they are on the disk."""
    with path.open("rb") as stream:
        return stream.read(count)


def read_lines(path: Path) -> Iterator[Line]:
    """Read the lines of a file that may be compressed (gzip, Zstandard) and in UTF-16.

    Args:
        path: Of an existing file.

    Returns:
        All lines, blank ones too; where compressed data is damaged a last one with a `problem`.
    """
    number = 0
    try:
        with _open(path) as stream:
            for number, raw in enumerate(_utf8_lines(stream), start=1):
                yield Line(number, raw.removeprefix(BYTE_ORDER_MARK) if number == 1 else raw)
    except (EOFError, zlib.error, gzip.BadGzipFile, pa.ArrowException, UnicodeError) as error:
        yield Line(number + 1, b"", _damage(error))
    except OSError as error:
        if error.errno is not None:
            raise  # the disk, not what is written there
        yield Line(number + 1, b"", _damage(error))


def _damage(error: Exception) -> str:
    return f"The file is damaged or cut here ({type(error).__name__}); the rest cannot be read."


def _open(path: Path) -> IO[bytes]:
    magic = first_bytes(path, len(_ZSTD_MAGIC))
    if magic.startswith(_GZIP_MAGIC):
        return cast("IO[bytes]", gzip.open(path))
    if magic == _ZSTD_MAGIC:
        unpacked = pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")
        return cast("IO[bytes]", io.BufferedReader(unpacked))
    return path.open("rb")


def _utf8_lines(stream: IO[bytes]) -> Iterator[bytes]:
    mark = cast("io.BufferedReader", stream).peek(2)[:2]
    if mark not in _UTF16_MARKS:
        yield from stream
        return
    # What some shells write where output is sent to a file.
    with io.TextIOWrapper(stream, encoding="utf-16", newline="\n") as text:
        for line in text:
            yield line.encode(errors="replace")
