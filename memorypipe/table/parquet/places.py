"""Where a Parquet table lies: what its back end asks of a folder, and a folder on this machine.

Everything is written once under a fresh name and never changed; only manifests are made under a
name that others may want too, and exactly one of them gets it.
"""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from memorypipe.table.storage import UnknownOutcomeError

__all__ = ["Folder", "Place", "open_place"]

# The name was surely not taken: no right, no room, or no such thing on this file system.
_SURELY_NOT = frozenset(
    {
        errno.EACCES,
        errno.EDQUOT,
        errno.EMLINK,
        errno.ENOSPC,
        errno.ENOSYS,
        errno.EOPNOTSUPP,
        errno.EPERM,
        errno.EROFS,
        errno.EXDEV,
    }
)


class Place(Protocol):
    """A folder, or a prefix of an object store; names are relative to it.

    Every method raises `OSError` where the place cannot do it, and `FileNotFoundError` where a
    name is not there.
    """

    @property
    def workers(self) -> int:
        """How many files to handle at once."""
        ...

    @property
    def alone_bytes(self) -> int:
        """Work on less than this is quicker in one thread."""
        ...

    def read(self, name: str) -> bytes:
        """Read a whole file."""
        ...

    def source(self, name: str, size_bytes: int | None = None) -> Any:
        """Give what `pyarrow.parquet.ParquetFile` can read parts of.

        Args:
            name: Of the file.
            size_bytes: Of the file; None where the caller does not know.
        """
        ...

    def identity(self, name: str) -> object | None:
        """Give what no other file ever has under this name; None where there is no file."""
        ...

    def listing(self, folder: str) -> dict[str, float]:
        """List a folder: names to times of writing, in seconds since 1970; empty if missing."""
        ...

    def write(self, name: str, data: Any) -> None:
        """Write a file under a name that nobody else uses; on disk when this returns."""
        ...

    def create(self, name: str, data: bytes) -> bool:
        """Write a whole file unless there is one; False where the name is taken.

        Raises:
            OSError: Surely not written.
            UnknownOutcomeError: Perhaps written.
        """
        ...

    def scratch(self) -> str | None:
        """Give a folder on this machine to write a file for `replace` in; None for any."""
        ...

    def replace(self, name: str, path: Path) -> None:
        """Put a file under a name that may be taken: readers see the old one or the new one."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file; one that is gone is no error."""
        ...


class Folder:
    """A folder of a local, or mounted, file system that can make hard links.

    Args:
        path: Of the folder; made with the first file.
    """

    workers = min(4, os.cpu_count() or 1)
    alone_bytes = 1 << 20

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        # Folders that have got files whose names may not be on the disk yet.
        self._fresh: set[Path] = set()

    def read(self, name: str) -> bytes:
        """Read a whole file."""
        return (self._path / name).read_bytes()

    def source(self, name: str, size_bytes: int | None = None) -> Any:  # noqa: ARG002  # not needed
        """Give the path."""
        return str(self._path / name)

    def identity(self, name: str) -> object | None:
        """Give inode and time."""
        try:
            found = (self._path / name).stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    def listing(self, folder: str) -> dict[str, float]:
        """List the files in a folder."""
        return dict(_listed(self._path / folder, f"{folder}/"))

    def write(self, name: str, data: Any) -> None:
        """Write a file, and see it to the disk; its name follows with the next `create`."""
        path = self._path / name
        _write(path, data)
        self._fresh.add(path.parent)

    def create(self, name: str, data: bytes) -> bool:
        """Write a file aside, then link it to its name: that fails where the name is taken."""
        for folder in tuple(self._fresh):
            self._fresh.discard(folder)  # first: what comes from now on marks it again
            _sync_names(folder)
        path = self._path / name
        aside = path.parent / f".{uuid4().hex}.tmp"
        _write(aside, data)
        try:
            return _linked(aside, path)
        finally:
            aside.unlink(missing_ok=True)

    def scratch(self) -> str | None:
        """Give the folder itself: only within one file system a file is moved at once."""
        self._path.mkdir(parents=True, exist_ok=True)
        return str(self._path)

    def replace(self, name: str, path: Path) -> None:
        """Move a file to its name."""
        with path.open("rb") as file:
            os.fsync(file.fileno())
        path.replace(self._path / name)

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self._path / name).unlink(missing_ok=True)


def _listed(folder: Path, prefix: str) -> Iterator[tuple[str, float]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    if entry.is_file():
                        yield prefix + entry.name, entry.stat().st_mtime
                except FileNotFoundError:
                    continue  # removed since the folder was read
    except FileNotFoundError:
        return


def _write(path: Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _linked(aside: Path, path: Path) -> bool:
    try:
        os.link(aside, path)
    except FileExistsError:
        # Over a network the first answer may be lost and the link made again.
        return _same(aside, path)
    except FileNotFoundError:
        return False  # a purge removed what lay aside: the commit has lost to it
    except OSError as error:
        if error.errno in _SURELY_NOT:
            raise
        raise UnknownOutcomeError(f"{str(path)!r} may or may not be there: {error}") from error
    try:
        _sync_names(path.parent)
    except OSError as error:
        raise UnknownOutcomeError(f"{str(path)!r} was not seen to the disk: {error}") from error
    return True


def _same(aside: Path, path: Path) -> bool:
    try:
        return aside.samefile(path)
    except FileNotFoundError:
        return False


def _sync_names(folder: Path) -> None:
    """See the names in a folder to the disk; what has one is there for all who look."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def open_place(uri: str, objects: Callable[[str], Place]) -> Place:
    """Open a path, a ``file://`` address, or by `objects` any other address."""
    if "://" not in uri:
        return Folder(uri)
    parts = urlsplit(uri)
    return Folder(unquote(parts.path)) if parts.scheme == "file" else objects(uri)
