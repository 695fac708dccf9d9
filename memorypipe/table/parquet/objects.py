"""A prefix of an object store as the place of a Parquet table, with `obstore`.

A name is made exclusively by a conditional put. The client repeats requests that failed half-way:
where the name is taken, what lies there tells whether it was this put that took it.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from memorypipe.errors import TableError
from memorypipe.table.storage import UnknownOutcomeError

try:
    import obstore
    from obstore.exceptions import (
        AlreadyExistsError,
        BaseError,
        NotSupportedError,
        PermissionDeniedError,
        UnauthenticatedError,
    )
    from obstore.store import MemoryStore, from_url
except ImportError:
    raise TableError(
        "A Parquet table, or any table's ledger, in an object store needs the extra "
        "'object-store': pip install 'memorypipe[object-store]'."
    ) from None

if TYPE_CHECKING:  # a name that only type checkers see
    from obstore.store import RetryConfig

__all__ = ["Objects"]

_GIVE_UP_AFTER = timedelta(seconds=60)
_SURELY_NOT = (NotSupportedError, PermissionDeniedError, UnauthenticatedError)
# Every opening of one name meets the same objects, as it would at a real store.
_memories: dict[str, MemoryStore] = {}


class Objects:
    """The objects under one prefix.

    Args:
        uri: ``scheme://bucket/prefix``; credentials are taken from the environment.

    Raises:
        TableError: For an address that no store has.
    """

    workers = 16
    alone_bytes = 0  # each request waits for its answer

    def __init__(self, uri: str) -> None:
        parts = urlsplit(uri)
        self._prefix = unquote(parts.path).strip("/")
        if parts.scheme == "memory":
            self._store: Any = _memories.setdefault(parts.netloc, MemoryStore())
            return
        retries: RetryConfig = {"max_retries": 5, "retry_timeout": _GIVE_UP_AFTER}
        try:
            self._store = from_url(
                f"{parts.scheme}://{parts.netloc}", config=None, retry_config=retries
            )
        except (BaseError, ValueError) as error:
            raise TableError(f"There is no table at {uri!r}: {_first_line(error)}") from None

    def read(self, name: str) -> bytes:
        """Fetch an object."""
        with _as_os_errors():
            return obstore.get(self._store, self._path(name)).bytes().to_bytes()

    def source(self, name: str, size_bytes: int | None = None) -> Any:
        """Open an object; what is read of it is fetched by ranges."""
        path = self._path(name)
        with _as_os_errors():
            size = obstore.head(self._store, path)["size"] if size_bytes is None else size_bytes
        return pa.PythonFile(_Ranges(self._store, path, size), mode="r")

    def identity(self, name: str) -> object | None:
        """Give the tag and time of an object."""
        try:
            with _as_os_errors():
                found = obstore.head(self._store, self._path(name))
        except FileNotFoundError:
            return None
        return found["e_tag"], found["last_modified"]

    def listing(self, folder: str) -> dict[str, float]:
        """List the objects under a prefix."""
        cut = len(self._path(""))
        with _as_os_errors():
            return {
                meta["path"][cut:]: meta["last_modified"].timestamp()
                for some in obstore.list(self._store, self._path(folder), chunk_size=1000)
                for meta in some
            }

    def write(self, name: str, data: Any) -> None:
        """Store an object."""
        with _as_os_errors():
            obstore.put(self._store, self._path(name), memoryview(data).cast("B"))

    def create(self, name: str, data: bytes) -> bool:
        """Store an object unless there is one."""
        try:
            obstore.put(self._store, self._path(name), data, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return self._is_ours(name, data)
        except _SURELY_NOT as error:
            raise OSError(_first_line(error)) from error
        except (BaseError, OSError) as error:
            raise UnknownOutcomeError(_first_line(error)) from error
        return True

    def _is_ours(self, name: str, data: bytes) -> bool:
        try:
            return self.read(name) == data
        except FileNotFoundError:
            return False  # taken, and removed again since
        except OSError as error:
            raise UnknownOutcomeError(_first_line(error)) from error

    def scratch(self) -> str | None:
        """Any folder will do."""
        return None

    def replace(self, name: str, path: Path) -> None:
        """Store a file as an object."""
        with _as_os_errors():
            obstore.put(self._store, self._path(name), path)

    def remove(self, name: str) -> None:
        """Remove an object."""
        try:
            with _as_os_errors():
                obstore.delete(self._store, self._path(name))
        except FileNotFoundError:
            return

    def _path(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name


class _Ranges(io.RawIOBase):
    """An object as a file: each read is one request."""

    def __init__(self, store: Any, path: str, size_bytes: int) -> None:
        self._store = store
        self._path = path
        self._size_bytes = size_bytes
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size_bytes}[whence]
        self._place = start + offset
        return self._place

    def read(self, size: int = -1) -> bytes:
        end = self._size_bytes if size < 0 else min(self._place + size, self._size_bytes)
        if end <= self._place:
            return b""
        with _as_os_errors():
            found = obstore.get_range(self._store, self._path, start=self._place, end=end)
        self._place = end
        return found.to_bytes()


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """Raise the store's errors as those that a file system raises; a missing object is one."""
    try:
        yield
    except BaseError as error:
        raise OSError(_first_line(error)) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", maxsplit=1)[0][:200]
