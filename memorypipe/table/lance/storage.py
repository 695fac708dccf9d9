"""The Lance back end: one dataset in a LanceDB database directory.

A commit is one Lance transaction that replaces the head row. The head lives in a fragment of its
own and two transactions that touch one fragment conflict, so any two concurrent commits do:
that is the compare-and-swap, on every store that Lance can commit to, with no lock server.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from memorypipe.errors import TableError, TableNotFoundError
from memorypipe.table.embedding import Revector
from memorypipe.table.lance.clean import clean, purge
from memorypipe.table.lance.cluster import cluster, groups, index_scopes
from memorypipe.table.lance.dataset import (
    FILE_VERSION,
    commit_operation,
    find_head,
    open_dataset,
    reading,
    write,
)
from memorypipe.table.lance.locate import locate
from memorypipe.table.lance.pieces import LancePiece, lance_pieces
from memorypipe.table.lance.reembed import replace_vectors
from memorypipe.table.lance.scan import scan
from memorypipe.table.lance.search import refresh_indexes, search_all
from memorypipe.table.lance.tidy import tidy
from memorypipe.table.records import Head, head_row
from memorypipe.table.search_all import Wanted
from memorypipe.table.side_by_side import in_two
from memorypipe.table.storage import RaceLostError, Where, left_out
from memorypipe.table.times import now_utc
from memorypipe.table.turns import turn

__all__ = ["LanceSnapshot", "LanceStorage"]

_DATASET = "memories.lance"  # LanceDB shows it as the table "memories"

# Every lost race means that a commit landed.
_MAX_RACES = 20

# A row address: fragment number in the upper half, offset in the fragment in the lower.
_OFFSET_BITS = 32


@dataclass(frozen=True)
class LanceSnapshot:
    """One version of the dataset.

    Attributes:
        dataset: Opened at that version.
        head: Its head row.
        head_fragment: Number of the fragment that holds it.
    """

    dataset: Any
    head: Head
    head_fragment: int

    @property
    def uri(self) -> str:
        """Of the dataset."""
        return str(self.dataset.uri)

    def scan(self, columns: Sequence[str], where: Where) -> pa.Table:
        """Read columns of the selected rows."""
        with reading(self.uri):
            return scan(self.dataset, columns, where)

    def locate(self, memory_ids: pa.Array, text_hashes: pa.Array) -> pa.Table:
        """Find all revisions of records and the live rows that say certain texts."""
        with reading(self.uri):
            return locate(self.dataset, memory_ids, text_hashes, left_out=left_out(self.head))

    def pieces(self) -> list[LancePiece]:
        """Cut this version into its fragments."""
        return lance_pieces(self.dataset)

    def commit(self, *, closed: pa.Array, rows: pa.Table, head: pa.Table) -> None:
        """Replace closed rows and head, as one Lance transaction."""
        try:
            (updated, removed), fragments = in_two(
                lambda: self._without(closed),
                # The head comes last: see `find_head`.
                lambda: [*write(self.dataset, rows), *write(self.dataset, head)],
            )
        except OSError as error:
            raise TableError(f"Nothing was committed to {self.uri!r}: {error}") from error
        operation = lance.LanceOperation.Update(
            removed_fragment_ids=[*removed, self.head_fragment],
            updated_fragments=updated,
            new_fragments=fragments,
        )
        commit_operation(self.dataset, operation)

    def _without(self, closed: pa.Array) -> tuple[list[Any], list[int]]:
        with reading(self.uri):
            return _without_rows(self.dataset, closed)

    def replace_vectors(self, revector: Revector, *, rows: pa.Table, head: pa.Table) -> None:
        """Give all rows new vectors, as one Lance transaction."""
        replace_vectors(self.dataset, self.head_fragment, revector, rows=rows, head=head)

    def search_all(self, wanted: Wanted) -> pa.Table:
        """Find the best rows of all scopes."""
        return search_all(self.dataset, wanted)


@dataclass(frozen=True)
class LanceStorage:
    """A directory with one Lance dataset.

    Attributes:
        uri: Of the directory.
    """

    uri: str

    @property
    def _dataset_uri(self) -> str:
        return f"{self.uri}/{_DATASET}"

    def exists(self) -> bool:
        """Tell whether there is a dataset."""
        try:
            self._open()
        except TableNotFoundError:
            return False
        return True

    def create(self, head: Head) -> None:
        """Make an empty table; where another process made one meanwhile, that one stays."""
        row = head_row(head)
        try:
            lance.write_dataset(
                row,
                self._dataset_uri,
                schema=row.schema,
                mode="create",
                data_storage_version=FILE_VERSION,
            )
        except OSError as error:
            if not self.exists():
                raise TableError(f"No table could be made at {self.uri!r}: {error}") from error

    def snapshot(self) -> LanceSnapshot:
        """Read the newest version."""
        for _ in range(_MAX_RACES - 1):
            with contextlib.suppress(RaceLostError):
                dataset = self._open()
                return LanceSnapshot(dataset, *find_head(dataset))
        dataset = self._open()
        return LanceSnapshot(dataset, *find_head(dataset))

    def turn(self, races: int) -> contextlib.AbstractContextManager[None]:
        """Wait until no other writer is at work, but not for long."""
        return turn(self.uri, races)

    def tidy(self) -> None:
        """Merge small fragments once there are many of them; now and then remove old versions.

        Versions stay for a day at least.
        """
        # Mostly another commit touched the same fragments. The rows are safe where they are, and
        # the next commit tries again.
        with self._giving_way():
            tidy(self._open(), now=now_utc())

    def optimize(self) -> None:
        """Sort the rows of every scope together and refresh the indexes."""
        snapshot = self.snapshot()
        chosen: list[list[int]] = []
        with self._giving_way():
            chosen = groups(snapshot.dataset, snapshot.head_fragment, snapshot.head.vector_dim)
        for group in chosen:
            with self._giving_way():
                cluster(self._open(), group)
        with self._giving_way():
            index_scopes(self._open())
        with self._giving_way():
            refresh_indexes(self._open())

    def clean(self, *, older_than: timedelta) -> None:
        """Remove old versions and unnamed files of at least this age.

        Raises:
            TableError: Where commits came first again and again, or the files cannot be written.
        """
        self._insist(partial(clean, older_than=older_than, now=now_utc()), "cleaned")

    def purge(self) -> None:
        """Leave no file that holds anything but the rows of the newest version.

        Raises:
            TableError: Where commits came first again and again, or the files cannot be written.
        """
        self._insist(purge, "purged")

    def _insist(self, work: Callable[[str], None], done: str) -> None:
        """Do it again and again while commits come first."""
        for _ in range(_MAX_RACES - 1):
            with contextlib.suppress(OSError, RaceLostError), reading(self._dataset_uri):
                work(self._dataset_uri)
                return
        try:
            with reading(self._dataset_uri):
                work(self._dataset_uri)
        except OSError as error:
            raise TableError(f"The table at {self.uri!r} cannot be {done}: {error}") from error

    def _open(self) -> Any:
        return open_dataset(self._dataset_uri)

    @contextlib.contextmanager
    def _giving_way(self) -> Iterator[None]:
        """Leave undone what others came first with."""
        with contextlib.suppress(OSError, TableError), reading(self._dataset_uri):
            yield


def _without_rows(dataset: Any, closed: pa.Array) -> tuple[list[Any], list[int]]:
    """Mark rows as deleted: fragments with a new deletion file, and those with no row left."""
    addresses = np.sort(np.asarray(closed.cast(pa.uint64())))
    numbers = (addresses >> np.uint64(_OFFSET_BITS)).astype(np.int64)
    offsets = (addresses & np.uint64((1 << _OFFSET_BITS) - 1)).astype(np.int64)
    updated, removed = [], []
    for number in np.unique(numbers).tolist():
        metadata = dataset.get_fragment(number).delete_rows(offsets[numbers == number])
        if metadata is None:
            removed.append(number)
        else:
            updated.append(metadata)
    return updated, removed
