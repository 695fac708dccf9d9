"""A Lance dataset as this library keeps it: opening, writing, the head row, one transaction."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import lance
import pyarrow as pa
from lance.commit import CommitConflictError
from lance.fragment import write_fragments

from memorypipe.errors import TableError, TableNotFoundError
from memorypipe.table.records import HEAD_TYPE, Head, read_head
from memorypipe.table.storage import RaceLostError, UnknownOutcomeError

__all__ = [
    "FILE_VERSION",
    "Footers",
    "commit_operation",
    "find_head",
    "open_dataset",
    "reading",
    "write",
]

FILE_VERSION: Final = "2.2"  # the first with map columns

# Footers of some ten thousand files.
_CACHE_BYTES = 1 << 28

# A full cache takes next to nothing new in, and every commit brings new files.
_FULL = 0.75
_OPENED_BETWEEN_LOOKS = 512

# The name of a version's manifest: its number counted down from this, in twenty digits.
_MANIFEST_OF_0 = 2**64 - 1

# So many newer versions are asked for one by one; listing all is as quick as asking for more.
_MOST_ASKED = 256

# A manifest is written beside its place, and then put there.
_WRITTEN_WITHIN_S = 0.1

_seen: dict[str, int] = {}
"""The newest version that this process has seen of local datasets, by address."""

# New memory costs more than writing does: what is smaller than the one is copied and waits for
# more, and what is larger than the other does not go through memory that was used before.
_WAITING_BYTES = 1 << 22
_VECTOR_BYTES = 3 << 22

_HEAD_COLUMNS = ["revision", "valid_from", "payload"]


def open_dataset(uri: str) -> Any:
    """Open the newest version.

    Args:
        uri: Of the dataset.

    Raises:
        TableNotFoundError: Where there is none.
        TableError: Where it cannot be read.
    """
    try:
        dataset = _open_beyond_seen(uri)
        if dataset is None:
            dataset = lance.dataset(uri, session=_footers.session())
    except ValueError as error:
        if "was not found" in str(error):
            raise TableNotFoundError(
                f"There is no memory table at {uri!r}; check the path, or let MemoryTable.open "
                "make one with create=True."
            ) from error
        raise TableError(f"The table at {uri!r} cannot be read: {error}") from error
    except OSError as error:
        raise TableError(f"The table at {uri!r} cannot be read: {error}") from error
    if "://" not in uri:
        _seen[uri] = dataset.version
    return dataset


def _open_beyond_seen(uri: str) -> Any | None:
    """Open the newest version by asking for those after one that is known, without a listing.

    Every opening would list all versions otherwise: half a microsecond each, of thousands that a
    burst of commits leaves. Stores of objects list the newest first.

    A version that is missing is none that is still to come where it was cleaned away: those with a
    tag stay, and a cleaning that is broken off leaves any. So nothing may have gone since the last
    one that is there was written.

    Returns:
        None where that did not lead to the newest.
    """
    newest = _seen.get(uri)
    if newest is None or not _manifest(uri, newest).exists():
        return None
    for _ in range(_MOST_ASKED):
        if not _manifest(uri, newest + 1).exists():
            # Not there any more, or another table by now: the listing tells.
            with contextlib.suppress(OSError, ValueError):
                if _was_written_last(_manifest(uri, newest)):
                    return lance.dataset(uri, version=newest, session=_footers.session())
            return None
        newest += 1
    return None


def _manifest(uri: str, version: int) -> Path:
    return Path(uri, "_versions", f"{_MANIFEST_OF_0 - version:020}.manifest")


def _was_written_last(manifest: Path) -> bool:
    """Whether nothing came to its folder, or went from there, since a manifest was written."""
    return abs(manifest.parent.stat().st_mtime - manifest.stat().st_mtime) < _WRITTEN_WITHIN_S


class Footers:
    """What was read of files' footers, shared among all openings of one process.

    Files never change, and opening dozens of small ones anew would take a third of the time of a
    small commit. Once the cache is full of files that have gone out of use, it begins anew; not
    often, for tables whose files in use fill it.

    Args:
        most_bytes: What the cache holds.
        opened_between_looks: Openings from one look at how full it is to the next.
    """

    def __init__(
        self,
        most_bytes: int = _CACHE_BYTES,
        opened_between_looks: int = _OPENED_BETWEEN_LOOKS,
    ) -> None:
        self._most_bytes = most_bytes
        self._opened_between_looks = opened_between_looks
        self._session: Any = None
        self._opened = 0

    def session(self) -> Any:
        """Give the session to open with."""
        if self._session is None or self._is_full():
            self._session = lance.Session(metadata_cache_size_bytes=self._most_bytes)  # type: ignore[attr-defined]
        return self._session

    def _is_full(self) -> bool:
        """Look now and then: it takes a while, since all that is held is added up."""
        self._opened = (self._opened + 1) % self._opened_between_looks
        return not self._opened and self._session.size_bytes() > _FULL * self._most_bytes


_footers = Footers()


@contextlib.contextmanager
def reading(uri: str) -> Iterator[None]:
    """Tell what has gone since a version was opened from what cannot be read.

    Args:
        uri: Of the dataset.

    Raises:
        RaceLostError: Where a file of the version is not there any more.
    """
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        if "not found: " not in str(error).lower():
            raise
        raise RaceLostError(
            f"The version read of {uri!r} is gone: maintenance removed it; read again."
        ) from error


def find_head(dataset: Any) -> tuple[Head, int]:
    """Find the head row of a version, and the number of the fragment that holds it.

    Raises:
        RaceLostError: Where maintenance removed the version since it was opened.
        TableError: Where there is none.
    """
    # The head is the last thing that a commit writes, alone in its fragment.
    single = [each for each in dataset.get_fragments() if each.physical_rows == 1]
    for fragment in sorted(single, key=lambda each: -each.fragment_id):
        with reading(dataset.uri):
            rows = fragment.to_table(columns=_HEAD_COLUMNS, filter=f"record_type = '{HEAD_TYPE}'")
        if rows.num_rows:
            return read_head(rows.to_pylist()[0]), fragment.fragment_id
    raise TableError(
        f"The Lance dataset {dataset.uri!r} has no head row: it is no memory table. "
        "Give another place for the table."
    )


def write(place: Any, rows: pa.Table | pa.RecordBatchReader, **how: Any) -> list[Any]:
    """Write fragments that no version has yet.

    Args:
        place: Address of the dataset; or the dataset itself, opened: then the versions, of which
            a busy table has thousands, are not listed again.
        rows: What to write.
        **how: Further arguments of `write_fragments`.
    """
    if isinstance(rows, pa.Table):
        rows = pa.RecordBatchReader.from_batches(rows.schema, _batches(rows))
        how["data_cache_bytes"] = _WAITING_BYTES
    written: list[Any] = write_fragments(
        rows, place, schema=rows.schema, data_storage_version=FILE_VERSION, **how
    )
    return written


def _batches(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Cut rows into what is written at a time: as many as there are, but few vectors."""
    for batch in rows.to_batches():
        vectors = batch["vector"]
        if vectors.null_count == len(vectors):
            yield batch
            continue
        size = max(_VECTOR_BYTES // (4 * vectors.type.list_size), 1)
        for start in range(0, len(batch), size):
            yield batch.slice(start, size)


def commit_operation(dataset: Any, operation: Any, **how: Any) -> None:
    """Commit an operation that was made for a version.

    Args:
        dataset: Opened at that version.
        operation: What to commit.
        **how: Further arguments of `lance.LanceDataset.commit`.

    Raises:
        RaceLostError: Surely not landed.
        UnknownOutcomeError: Where nobody can tell.
    """
    uri = dataset.uri
    try:
        # By its address: a dataset that is open already commits even where the version that was
        # read is gone, with those that came after it, and so are all traces of a conflict.
        lance.LanceDataset.commit(uri, operation, read_version=dataset.version, **how)
    except CommitConflictError as error:
        raise RaceLostError(f"Another commit to {uri!r} came first.") from error
    except (OSError, RuntimeError, ValueError) as error:
        # The version that was read is gone: maintenance removed it before this commit.
        if "manifest was not found" in str(error):
            raise RaceLostError(f"The version read of {uri!r} is gone.") from error
        raise UnknownOutcomeError(f"The commit to {uri!r} failed: {error}") from error
