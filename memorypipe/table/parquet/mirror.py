"""The mirror of a table: a folder with one plain Parquet file that holds exactly the live rows.

The file is written aside and takes the old one's place at once: whoever reads the folder sees one
version. Several processes may refresh it; the last to do so makes sure that it shows the newest.
"""

import contextlib
import logging
import shutil
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

import pyarrow as pa
import pyarrow.parquet as pq

from memorypipe import ids
from memorypipe.errors import InvalidArgumentError, TableError
from memorypipe.schema import table_schema
from memorypipe.table.parquet.places import Place, open_place
from memorypipe.table.parquet.storage import objects_place
from memorypipe.table.pinned import PinnedRead, Selection
from memorypipe.table.records import Head
from memorypipe.table.scratch import remove_left
from memorypipe.table.storage import Snapshot, Storage, Where
from memorypipe.table.times import Clock, read_clock
from memorypipe.table.transfer_export import export_columns, export_rows

__all__ = ["MIRROR_FILE", "MirroredStorage", "mirrored"]

MIRROR_FILE = "memories.parquet"

_TABLE_KEY = b"memorypipe.table"  # when the table was made tells it from any other
_VERSION_KEY = b"memorypipe.version"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class MirroredStorage:
    """A storage that refreshes a mirror after each commit, and after a purge.

    Attributes:
        storage: Of the table.
        mirror: Path or address of the folder.
        clock: Decides what has expired.
    """

    storage: Storage
    mirror: str
    clock: Clock

    def exists(self) -> bool:
        """Tell whether there is a table."""
        return self.storage.exists()

    def create(self, head: Head) -> None:
        """Make an empty table."""
        self.storage.create(head)

    def snapshot(self) -> Snapshot:
        """Read the newest version."""
        return self.storage.snapshot()

    def turn(self, races: int) -> contextlib.AbstractContextManager[None]:
        """Wait until no other writer of the table is at work, but not for long."""
        return self.storage.turn(races)

    def tidy(self) -> None:
        """Refresh the mirror; where that fails the commit stands, and the next one tries again."""
        self.storage.tidy()
        try:
            self.refresh()
        except TableError as error:
            _logger.warning("The commit has landed, but its mirror is behind: %s", error)

    def optimize(self) -> None:
        """Merge files; the mirror stays as it is."""
        self.storage.optimize()

    def clean(self, *, older_than: timedelta) -> None:
        """Remove old versions; the mirror stays as it is."""
        self.storage.clean(older_than=older_than)

    def purge(self) -> None:
        """Leave nothing but the newest version, here and in the mirror.

        What other processes write aside goes: the refresh that follows shows their commits.
        """
        self.storage.purge()
        with contextlib.suppress(OSError):  # the refresh tells of it
            folder, prefix = self._aside()
            for each in folder.glob(f"{prefix}*"):
                shutil.rmtree(each, ignore_errors=True)
        self.refresh()

    def refresh(self) -> None:
        """Bring the mirror to the newest version, unless it is there.

        Raises:
            TableError: Where the mirror cannot be written, or is another table's.
        """
        try:
            while not self._shows(self.snapshot().head):
                # Another process may have put a newer one in its place meanwhile, and this one
                # over that: look again.
                self._write(self.snapshot())
        except (OSError, pa.ArrowException) as error:
            raise TableError(f"The mirror {self.mirror!r} cannot be written: {error}") from error

    @cached_property
    def _place(self) -> Place:
        return open_place(self.mirror, objects_place)

    def _shows(self, head: Head) -> bool:
        try:
            with pq.ParquetFile(self._place.source(MIRROR_FILE)) as opened:
                metadata = opened.schema_arrow.metadata or {}
        except FileNotFoundError:
            return False
        if metadata.get(_TABLE_KEY) != _identity(head):
            raise TableError(
                f"The file {MIRROR_FILE!r} in {self.mirror!r} is no mirror of this table; give "
                "another folder, or remove it."
            )
        return int(metadata[_VERSION_KEY]) >= head.number

    def _write(self, snapshot: Snapshot) -> None:
        aside, prefix = self._aside()
        with TemporaryDirectory(prefix=prefix, dir=aside) as folder:
            remove_left(Path(folder), f"{prefix}*")
            path = Path(folder) / MIRROR_FILE
            export_rows(self._read(snapshot), path, "parquet")
            self._place.replace(MIRROR_FILE, path)

    def _aside(self) -> tuple[Path, str]:
        """Say where a refresh writes its file first, and how the names of its folders begin."""
        own = self._place.scratch()
        if own is not None:
            return Path(own), ".mirror-"
        return Path(gettempdir()), f".mirror-{ids.digest('mirror', self.mirror).hex()}-"

    def _read(self, snapshot: Snapshot) -> PinnedRead:
        head = snapshot.head
        whole = table_schema(head.vector_dim)
        columns = export_columns(whole, "parquet", head.settings.embedder)
        return PinnedRead(
            version=head.number,
            embedder=head.settings.embedder,
            schema=pa.schema(
                [whole.field(name) for name in columns],
                metadata={**whole.metadata, _TABLE_KEY: _identity(head)},
            ),
            selection=Selection(
                columns=tuple(columns),
                include=("live",),
                now=read_clock(self.clock),
                moment=None,
                where=Where(rows="live"),
            ),
            pieces=tuple(snapshot.pieces()),
        )


def _identity(head: Head) -> bytes:
    return head.created_at.isoformat().encode()


def mirrored(storage: Storage, uri: str, mirror: str, clock: Clock) -> MirroredStorage:
    """Give a storage a mirror, and bring that to the newest version.

    Args:
        storage: Of the table.
        uri: Of the table.
        mirror: Path or address of a folder that is nobody else's.
        clock: Decides what has expired.

    Raises:
        InvalidArgumentError: If the mirror is blank, or lies in the table.
        TableError: If it cannot be written, or is another table's.
    """
    inside = f"{mirror.rstrip('/')}/".startswith(f"{uri}/")
    if not mirror.strip() or inside:
        raise InvalidArgumentError(
            f"The mirror {mirror!r} must be a folder of its own, outside of the table {uri!r}."
        )
    made = MirroredStorage(storage, mirror.rstrip("/"), clock)
    made.refresh()
    return made
