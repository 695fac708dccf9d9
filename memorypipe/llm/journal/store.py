"""A prefix of an object store: what a journal does there, with `obstore` (extra `object-store`)."""

import io
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote, urlsplit

from memorypipe.errors import JournalError
from memorypipe.llm.journal.catalog import INDEX_SUFFIX, SEGMENT_SUFFIX
from memorypipe.llm.journal.index import Index, map_index
from memorypipe.llm.journal.lines import Scan, scan_lines

try:
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError
    from obstore.store import MemoryStore, from_url
except ImportError:
    raise JournalError(
        "A journal in an object store needs the extra 'object-store': "
        "pip install 'memorypipe[object-store]'."
    ) from None

if TYPE_CHECKING:  # names that only type checkers see
    from obstore import ObjectMeta
    from obstore.store import RetryConfig

__all__ = ["ObjectStore"]

FoundT = TypeVar("FoundT")

_REQUESTS_AT_ONCE = 16
_FIRST_READ_BYTES = 16 * 1024
_MAX_REASON_CHARS = 200
_GIVE_UP_AFTER = timedelta(seconds=60)
# Every opening of one name meets the same objects, as it would at a real store.
_memories: dict[str, MemoryStore] = {}


class ObjectStore:
    """The objects under one prefix, by their names.

    Args:
        uri: Address for messages.
        store: The bucket.
        prefix: "" or what all names begin with, without a slash at its end.
    """

    def __init__(self, uri: str, store: "obstore.store.ObjectStore", prefix: str) -> None:
        self.uri = uri
        self._store = store
        self._prefix = prefix

    @classmethod
    def open(cls, uri: str) -> "ObjectStore":
        """Open ``scheme://bucket/prefix``; credentials are taken from the environment."""
        parts = urlsplit(uri)
        prefix = unquote(parts.path).strip("/")
        if parts.scheme == "memory":
            return cls(uri, _memories.setdefault(parts.netloc, MemoryStore()), prefix)
        retries: RetryConfig = {"max_retries": 5, "retry_timeout": _GIVE_UP_AFTER}
        try:
            store = from_url(f"{parts.scheme}://{parts.netloc}", config=None, retry_config=retries)
        except (BaseError, ValueError) as error:
            raise _failed("opened", uri, error) from None
        return cls(uri, store, prefix)

    def listing(self) -> dict[str, int]:
        """Give the names of segments and indexes, and their sizes in bytes."""
        return {
            name: meta["size"]
            for name, meta in self._list()
            if name.endswith((SEGMENT_SUFFIX, INDEX_SUFFIX))
        }

    def segment_times(self) -> list[float]:
        """Give the times at which the segments were written, in seconds since 1970."""
        return [
            meta["last_modified"].timestamp()
            for name, meta in self._list()
            if name.endswith(SEGMENT_SUFFIX)
        ]

    def indexes(self, names: Sequence[str]) -> dict[str, Index | None]:
        """Fetch indexes and map them; None where one is gone or cannot be used."""
        return dict(_at_once(self._index, names))

    def _index(self, name: str) -> Index | None:
        with tempfile.NamedTemporaryFile() as file:
            try:
                for part in obstore.get(self._store, self._path(name)):
                    file.write(part)
            except FileNotFoundError:
                return None
            except BaseError as error:
                raise _failed("read", self.uri, error) from None
            file.flush()
            # What is mapped stays there when the name is gone.
            return map_index(Path(file.name))

    def scans(self, tails: Mapping[str, int]) -> Iterator[tuple[str, Scan | None]]:
        """Fetch and scan segments; None where one is gone. They are never longer than before."""
        return _at_once(self._scan, list(tails))

    def _scan(self, name: str) -> Scan | None:
        whole = self.read(name)
        return None if whole is None else scan_lines(io.BytesIO(whole))

    def read_all(self, names: Sequence[str]) -> Iterator[tuple[str, bytes | None]]:
        """Fetch objects; None where one is gone."""
        return _at_once(self.read, names)

    def read(self, name: str) -> bytes | None:
        """Fetch an object; None where it is gone.

        Raises:
            JournalError: Where the store does not give it.
        """
        try:
            return obstore.get(self._store, self._path(name)).bytes().to_bytes()
        except FileNotFoundError:
            return None
        except BaseError as error:
            raise _failed("read", self.uri, error) from None

    async def line(self, name: str, offset: int, size_bytes: int) -> bytes:
        """Fetch a line of an object.

        Args:
            name: The segment.
            offset: Where the line begins.
            size_bytes: How far the segment goes, as far as it is known.

        Raises:
            FileNotFoundError: The segment is gone.
            JournalError: Where the store does not give it.
        """
        read = b""
        length = _FIRST_READ_BYTES
        while b"\n" not in read and offset + len(read) < size_bytes:
            start = offset + len(read)
            path = self._path(name)
            try:
                read += await obstore.get_range_async(
                    self._store, path, start=start, end=min(start + length, size_bytes)
                )
            except BaseError as error:
                raise _failed("read", self.uri, error) from None
            length *= 4
        return read.partition(b"\n")[0]

    def write(self, name: str, data: bytes) -> None:
        """Store an object at once.

        Raises:
            JournalError: Where the store does not take it.
        """
        try:
            obstore.put(self._store, self._path(name), data)
        except BaseError as error:
            raise _failed("written", self.uri, error) from None

    async def write_async(self, name: str, data: bytes) -> None:
        """Store an object; when this returns it is there. Raises as `write`."""
        try:
            await obstore.put_async(self._store, self._path(name), data)
        except BaseError as error:
            raise _failed("written", self.uri, error) from None

    def take(self, name: str, *, now: float, stale_after_s: float) -> bool:
        """Make an object that stands for a lock; False where somebody else holds it.

        Args:
            name: Its name.
            now: Seconds since 1970.
            stale_after_s: One that is older was left by somebody who is gone.
        """
        path = self._path(name)
        try:
            obstore.put(self._store, path, b"", mode="create")
        except AlreadyExistsError:
            made = {found: meta for found, meta in self._list() if found == name}
            times = [meta["last_modified"].timestamp() for meta in made.values()]
            if any(now - at < stale_after_s for at in times):
                return False
            obstore.put(self._store, path, b"")
        except BaseError as error:
            raise _failed("written", self.uri, error) from None
        return True

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects; those that are gone are no error."""
        list(_at_once(self._remove, list(names)))

    def _remove(self, name: str) -> None:
        try:
            obstore.delete(self._store, self._path(name))
        except FileNotFoundError:
            return
        except BaseError as error:
            raise _failed("removed from", self.uri, error) from None

    def _path(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    def _list(self) -> "Iterator[tuple[str, ObjectMeta]]":
        """Give the objects right under the prefix."""
        cut = len(self._path(""))
        try:
            for some in obstore.list(self._store, self._prefix or None, chunk_size=1000):
                for meta in some:
                    name = meta["path"][cut:]
                    if "/" not in name:
                        yield name, meta
        except (BaseError, FileNotFoundError) as error:
            raise _failed("listed", self.uri, error) from None


def _at_once(work: Callable[[str], FoundT], names: Sequence[str]) -> Iterator[tuple[str, FoundT]]:
    """Do the same to many objects, some at a time, so that not all results wait in memory."""
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
        for start in range(0, len(names), _REQUESTS_AT_ONCE):
            some = names[start : start + _REQUESTS_AT_ONCE]
            yield from zip(some, pool.map(work, some), strict=True)


def _failed(what: str, uri: str, error: Exception) -> JournalError:
    reason = str(error).strip().split("\n", maxsplit=1)[0][:_MAX_REASON_CHARS]
    return JournalError(
        f"The journal {uri!r} cannot be {what}: {reason}. Check the address, and the credentials "
        "in the environment."
    )
