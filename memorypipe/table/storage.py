"""What a back end of the memory table must do: snapshots to read, one atomic commit to write."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol

import pyarrow as pa

from memorypipe.errors import TableError
from memorypipe.table.embedding import Revector
from memorypipe.table.records import Head
from memorypipe.table.search_all import Wanted

__all__ = [
    "ADDRESS",
    "Piece",
    "RaceLostError",
    "Snapshot",
    "Storage",
    "UnknownOutcomeError",
    "Where",
    "left_out",
    "without_nulls",
]

# Column of `Snapshot.locate` and `scan`: where the back end keeps the row, in that snapshot only.
ADDRESS = "_address"


def left_out(head: Head) -> frozenset[str]:
    """Name the columns that `Snapshot.locate` does not read: they follow from the text.

    The vectors of a table without an embedder do not, they are its callers' own.
    """
    return frozenset({"search_text"} | (set() if head.settings.embedder is None else {"vector"}))


def without_nulls(rows: pa.Table) -> pa.Table:
    """Leave `vector` out of located rows of which none has one: nulls are as heavy as vectors."""
    if "vector" in rows.column_names and rows["vector"].null_count == rows.num_rows:
        return rows.drop_columns(["vector"])
    return rows


class RaceLostError(TableError):
    """Another commit came first: this one has surely not landed."""


class UnknownOutcomeError(TableError):
    """The commit failed in a way that does not tell whether it landed."""


@dataclass(frozen=True, kw_only=True)
class Where:
    """Which rows to read; each part that is given narrows.

    Attributes:
        record_type: ``"run"`` for run rows; None for everything but head and run rows.
        scope_keys: Only these scopes; empty means no row.
        memory_ids: Only these records; empty means no row.
        events: Only revisions made by these events; empty means no row.
        touched_at: Only revisions that the commit of this time wrote or closed (UTC).
        rows: Only live revisions, only current ones, or all.
    """

    record_type: Literal["run"] | None = None
    scope_keys: Collection[str] | None = None
    memory_ids: Collection[str] | None = None
    events: Collection[str] | None = None
    touched_at: datetime | None = None
    rows: Literal["live", "current", "all"] = "all"


class Piece(Protocol):
    """Some of the rows of one version; it can be pickled and read by any process."""

    @property
    def num_rows(self) -> int:
        """How many rows it has, whatever their kind and state."""
        ...

    @property
    def size_bytes(self) -> int | None:
        """Of its files; None where nobody knows."""
        ...

    def scan(self, columns: Sequence[str], where: Where) -> Iterator[pa.Table]:
        """Read columns of the rows that `where` selects, a bounded number of rows at a time.

        Raises:
            TableError: Where maintenance has removed the version meanwhile.
        """
        ...


class Snapshot(Protocol):
    """One version of the table, as it stays while others commit."""

    @property
    def head(self) -> Head:
        """The head row of this version."""
        ...

    def scan(self, columns: Sequence[str], where: Where) -> pa.Table:
        """Read columns of the rows that `where` selects, in any order.

        `ADDRESS` may be one of the columns.
        """
        ...

    def pieces(self) -> Sequence[Piece]:
        """Cut this version into pieces, which together hold each of its rows once."""
        ...

    def locate(self, memory_ids: pa.Array, text_hashes: pa.Array) -> pa.Table:
        """Find all revisions of some records and the live rows that say certain texts.

        Args:
            memory_ids: Strings.
            text_hashes: Strings, as from `memorypipe.ids.text_hash`.

        Returns:
            Every column but `search_text` and `vector`, and `ADDRESS`; no head or run rows. And
            `vector` where the table has no embedder and any of the rows has one.
        """
        ...

    def commit(self, *, closed: pa.Array, rows: pa.Table, head: pa.Table) -> None:
        """Replace the closed rows and the head by new ones, atomically.

        Every other commit since this snapshot was read wins over this one.

        Args:
            closed: `ADDRESS` of the rows to take out.
            rows: What to put in, in the table's schema, without the head row.
            head: The new head row.

        Raises:
            RaceLostError: Surely not landed; try again on a fresh snapshot.
            UnknownOutcomeError: Look for the run row in a fresh snapshot.
            TableError: Surely not landed, and not worth another attempt.
        """
        ...

    def replace_vectors(self, revector: Revector, *, rows: pa.Table, head: pa.Table) -> None:
        """Give all rows new vectors, and replace the head, atomically; reads a batch at a time.

        As `commit`: every other commit since this snapshot was read wins over this one.

        Args:
            revector: Makes the rows of the new version from those of this one, head row apart.
            rows: What to put in beside them, in the new schema.
            head: The new head row, likewise.

        Raises:
            RaceLostError: Surely not landed; try again on a fresh snapshot.
            UnknownOutcomeError: Look for the run row in a fresh snapshot.
            TableError: Surely not landed, and not worth another attempt.
            ModelError: As `revector` does.
        """
        ...

    def search_all(self, wanted: Wanted) -> pa.Table:
        """Find the live, unexpired rows of all scopes that fit best.

        Returns:
            Schema `memorypipe.table.search_all.FOUND`, in any order: at least the best
            `wanted.k`, as far as there are so many.

        Raises:
            InvalidArgumentError: Where the back end cannot search all scopes, or not by this
                filter.
        """
        ...


class Storage(Protocol):
    """A place that holds one memory table."""

    def exists(self) -> bool:
        """Tell whether there is a table."""
        ...

    def create(self, head: Head) -> None:
        """Make an empty table; where another process made one meanwhile, that one stays."""
        ...

    def snapshot(self) -> Snapshot:
        """Read the newest version.

        Raises:
            TableNotFoundError: Where there is no table.
        """
        ...

    def turn(self, races: int) -> AbstractContextManager[None]:
        """Wait until no other writer is at work, but not for long: see `memorypipe.table.turns`.

        Args:
            races: How many the commit that asks has lost.
        """
        ...

    def tidy(self) -> None:
        """Merge small files once there are many; never fails a writer, changes no row."""
        ...

    def optimize(self) -> None:
        """Merge small files, put the rows of a scope together and refresh indexes.

        Safe beside writers: it loses races, never they.
        """
        ...

    def clean(self, *, older_than: timedelta) -> None:
        """Remove old versions and files that no version names, of at least this age.

        Safe beside writers whose commits take less.
        """
        ...

    def purge(self) -> None:
        """Leave no file that holds anything but the rows of the newest version.

        What was taken out is rewritten away, indexes are built anew, every other version, tag
        and unreferenced file goes; who reads an older version fails.
        """
        ...
