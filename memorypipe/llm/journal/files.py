"""Segments of a local journal as files: who writes one, who reads it, who may take it away."""

import contextlib
import fcntl
import os
import re
import secrets
import socket
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from memorypipe.ids import digest
from memorypipe.llm.journal.catalog import INDEX_SUFFIX, SEGMENT_SUFFIX
from memorypipe.llm.journal.index import Index, map_index
from memorypipe.llm.journal.lines import Scan, scan_lines

__all__ = [
    "COMPACTED",
    "FolderSource",
    "SegmentReader",
    "claim",
    "index_path",
    "machine_tag",
    "new_segment",
    "new_token",
    "segment_times",
]

# Begins the names of segments that compaction made: nobody ever writes to them.
COMPACTED = "compact"

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_FIRST_READ_BYTES = 4 * 1024
_OPEN_FILES = 64
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_-]")


def new_token() -> str:
    """Give eight random hex digits, which keep two writers with one name apart."""
    return secrets.token_hex(4)


def machine_tag() -> str:
    """Name the running kernel (8 hex digits): file locks reach as far as that for certain."""
    try:
        name = _BOOT_ID.read_text()
    except OSError:
        name = socket.gethostname()
    return digest("machine", name, size=4).hex()


def index_path(segment: Path) -> Path:
    """Give the name of the index beside a segment."""
    return segment.with_suffix(INDEX_SUFFIX)


class FolderSource:
    """A folder of segments and indexes.

    Args:
        folder: Where they lie.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def listing(self) -> dict[str, int]:
        """Give the names of segments and indexes, and their sizes in bytes."""
        found = {}
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name.endswith((SEGMENT_SUFFIX, INDEX_SUFFIX)):
                    with contextlib.suppress(FileNotFoundError):
                        found[entry.name] = entry.stat().st_size
        return found

    def indexes(self, names: Sequence[str]) -> dict[str, Index | None]:
        """Map indexes; None where one is gone or cannot be used."""
        return {name: map_index(self._folder / name) for name in names}

    def scans(self, tails: Mapping[str, int]) -> Iterator[tuple[str, Scan | None]]:
        """Scan segments, each from an offset on; None where one is gone."""
        for name, start in tails.items():
            yield name, self._scan(name, start)

    def _scan(self, name: str, start: int) -> Scan | None:
        try:
            with (self._folder / name).open("rb") as lines:
                lines.seek(start)
                return scan_lines(lines, start)
        except FileNotFoundError:
            return None


class SegmentReader:
    """Reads lines of segments; keeps the files that were used last open.

    Args:
        folder: Where the segments lie.
        open_files: Files kept open at one time.
    """

    def __init__(self, folder: Path, open_files: int = _OPEN_FILES) -> None:
        self._folder = folder
        self._limit = open_files
        self._open: OrderedDict[str, int] = OrderedDict()

    def line(self, name: str, offset: int) -> bytes:
        """Read from an offset to the end of the line; b"" where there is no whole line.

        Raises:
            FileNotFoundError: The segment is gone.
        """
        fd = self._fd(name)
        size = _FIRST_READ_BYTES
        read = os.pread(fd, size, offset)
        while (end := read.find(b"\n")) < 0:
            more = os.pread(fd, size, offset + len(read))
            if not more:
                return b""
            read += more
            size *= 4
        return read[:end]

    def forget(self, names: Iterable[str]) -> None:
        """Close files, of segments that are gone say."""
        for name in names:
            fd = self._open.pop(name, None)
            if fd is not None:
                os.close(fd)

    def close(self) -> None:
        """Close all files; a later read opens them again."""
        self.forget(list(self._open))

    def _fd(self, name: str) -> int:
        fd = self._open.get(name)
        if fd is None:
            fd = self._open[name] = os.open(self._folder / name, os.O_RDONLY | os.O_CLOEXEC)
            if len(self._open) > self._limit:
                os.close(self._open.popitem(last=False)[1])
        else:
            self._open.move_to_end(name)
        return fd


def new_segment(folder: Path, writer: str) -> tuple[Path, int]:
    """Make a segment and lock it for as long as its descriptor is open.

    Args:
        folder: Where.
        writer: Begins the name; other characters than letters, digits, ``_`` and ``-`` are
            replaced.

    Returns:
        Its path, and a descriptor that appends.
    """
    stem = f"{_NOT_PLAIN.sub('_', writer)}.{machine_tag()}"
    number = 0
    while True:
        path = folder / f"{stem}.{number:06d}{SEGMENT_SUFFIX}"
        number += 1
        with contextlib.suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            fd = os.open(path, flags, 0o666)
            if _is_held(fd):
                return path, fd
            os.close(fd)


def _is_held(fd: int) -> bool:
    """Lock a new segment; False where a compaction took it for a dead one's before that."""
    return _lock(fd) and os.fstat(fd).st_nlink > 0


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # A file system without locks: age alone decides there.
        return True
    return True


@contextlib.contextmanager
def claim(path: Path, *, now: float, finished_after_s: float) -> Iterator[bool]:
    """Hold a segment that no writer is at work on; gives False where one may be.

    Args:
        path: The segment.
        now: Seconds since 1970.
        finished_after_s: A segment of another machine counts as finished after such a pause.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        locked = _lock(fd)
        stem = path.name.split(".")
        is_known = stem[0] == COMPACTED or machine_tag() in stem
        yield locked and (is_known or os.fstat(fd).st_mtime <= now - finished_after_s)
    finally:
        os.close(fd)


def segment_times(folder: Path) -> list[float]:
    """Give the times of the last writes to the segments, in seconds since 1970."""
    return [path.stat().st_mtime for path in folder.glob(f"*{SEGMENT_SUFFIX}")]
