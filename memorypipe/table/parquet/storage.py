"""The Parquet back end: plain immutable files, and one manifest per version that names them.

A commit writes the touched buckets anew and then creates the manifest of the next version. Only
one writer can create it: that is the compare-and-swap. What no manifest names does not count; it
goes with `ParquetStorage.clean`.
"""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from itertools import pairwise, takewhile
from uuid import uuid4

from memorypipe.errors import TableError, TableNotFoundError
from memorypipe.table.parquet.files import DATA, DataFiles
from memorypipe.table.parquet.manifest import (
    MANIFESTS,
    Manifest,
    manifest_name,
    version_of,
)
from memorypipe.table.parquet.places import Place, open_place
from memorypipe.table.parquet.rewrite import merges
from memorypipe.table.parquet.snapshot import ParquetSnapshot
from memorypipe.table.records import Head, head_row
from memorypipe.table.storage import RaceLostError, UnknownOutcomeError
from memorypipe.table.times import Clock, now_utc
from memorypipe.table.turns import turn

__all__ = ["ParquetStorage", "objects_place"]

# So many versions behind, one listing is quicker than asking for the next one each time.
_STEPS = 8
_MAX_RACES = 100


class ParquetStorage:
    """A folder, or a prefix of an object store, with one Parquet table.

    Args:
        uri: A path, or an address: ``s3://``, ``gs://``, ``az://`` and others need the extra
            ``object-store``.
        clock: What the ages of files are measured by.
    """

    def __init__(self, uri: str, clock: Clock = now_utc) -> None:
        self.uri = uri
        self._clock = clock
        self._place = open_place(uri, objects_place)
        self._files = DataFiles(self._place, uri)
        # The newest manifest seen, and what tells its file from any other.
        self._seen: tuple[Manifest, object] | None = None

    def __reduce__(self) -> tuple[type["ParquetStorage"], tuple[str, Clock]]:
        return ParquetStorage, (self.uri, self._clock)

    def exists(self) -> bool:
        """Tell whether there is a table."""
        try:
            self.snapshot()
        except TableNotFoundError:
            return False
        return True

    def create(self, head: Head) -> None:
        """Make an empty table; where another process made one meanwhile, that one stays."""
        (row,) = head_row(head).select(["revision", "valid_from", "payload"]).to_pylist()
        manifest = Manifest(version=1, token=uuid4().hex, head_row=row, bounds=(0,), files=())
        try:
            self._place.create(manifest_name(1), manifest.encode())
        except (OSError, UnknownOutcomeError) as error:
            if not self.exists():
                raise TableError(f"No table could be made at {self.uri!r}: {error}") from error

    def snapshot(self) -> ParquetSnapshot:
        """Read the newest version."""
        try:
            return ParquetSnapshot(self._files, self._newest())
        except OSError as error:
            raise TableError(f"The table at {self.uri!r} cannot be read: {error}") from error

    def version(self, manifest: Manifest) -> ParquetSnapshot:
        """Read a version, or a part of one, whose manifest is at hand."""
        return ParquetSnapshot(self._files, manifest)

    def turn(self, races: int) -> AbstractContextManager[None]:
        """Wait until no other writer is at work, but not for long."""
        return turn(self.uri, races)

    def tidy(self) -> None:
        """Do nothing: each commit merges small files as it goes."""

    def optimize(self) -> None:
        """Merge the files of each bucket and bring their rows into the order of the scopes."""
        snapshot = self.snapshot()
        if plans := list(merges(snapshot.manifest)):
            try:
                snapshot.write(plans)
            except (RaceLostError, UnknownOutcomeError):
                return  # what a commit rewrote is merged; the rest waits for another time

    def clean(self, *, older_than: timedelta) -> None:
        """Remove versions that another one replaced that long ago, and files that none names.

        Args:
            older_than: More than the longest commit or read takes.
        """
        horizon = self._clock().timestamp() - older_than.total_seconds()
        # Listed before the manifests: what a commit adds meanwhile is named, or not listed.
        try:
            files = self._place.listing(DATA)
            asides, times = self._manifests()
            versions = sorted(times)
            # The oldest first, and none out of their order, even if a clock went back.
            pairs = takewhile(lambda pair: times[pair[1]] < horizon, pairwise(versions))
            replaced = [version for version, _ in pairs]
            kept = versions[len(replaced) :]
            stale = {name for name, time in (files | asides).items() if time < horizon}
            self._remove(replaced, stale - self._named(kept) if stale else stale)
        except OSError as error:
            raise TableError(f"The table at {self.uri!r} cannot be cleaned: {error}") from error

    def purge(self) -> None:
        """Leave nothing but the newest version and its files.

        Rows that a commit took out are in no file of its version. Commits in progress lose: their
        files go, and so that they never land without them, a new version comes before.
        """
        try:
            files, version = self._fence()
            asides, times = self._manifests()
            newest = self._newest()
            gone = files.keys() - {file.name for file in newest.files}
            self._remove([each for each in sorted(times) if each < version], gone | asides.keys())
        except OSError as error:
            raise TableError(f"The table at {self.uri!r} cannot be purged: {error}") from error

    def _fence(self) -> tuple[dict[str, float], int]:
        """List all data files, then make a version that every commit begun before loses to."""
        for _ in range(_MAX_RACES):
            files = self._place.listing(DATA)
            try:
                return files, self.snapshot().write([]).version
            except (RaceLostError, UnknownOutcomeError):
                continue
        raise TableError(f"{_MAX_RACES} commits to {self.uri!r} came first; purge it again.")

    def _named(self, versions: Sequence[int]) -> set[str]:
        """Give the files that versions name; one that is gone names none."""
        manifests = self._files.each(self._read, versions, size_bytes=0)
        return {file.name for each in manifests if each is not None for file in each.files}

    def _newest(self) -> Manifest:
        """Find the newest manifest: versions follow one another and only the oldest go.

        So none has gone of those from one on that is there. Where it is not, a number may have
        been taken again by a writer that came too late.
        """
        start = seen = self._seen
        for _ in range(_STEPS):
            if start is None or seen is None:
                break
            after = self._look(seen[0].version + 1)
            if after is None:
                if self._place.identity(manifest_name(start[0].version)) == start[1]:
                    self._seen = seen
                    return seen[0]
                break
            seen = after
        return self._listed()

    def _listed(self) -> Manifest:
        while versions := self._versions():
            if (seen := self._look(max(versions))) is not None:
                self._seen = seen
                return seen[0]
        raise TableNotFoundError(
            f"There is no memory table at {self.uri!r}; check the path, or let "
            "MemoryTable.open make one with create=True."
        )

    def _look(self, version: int) -> tuple[Manifest, object] | None:
        """Read a manifest, with what tells its file from any other; None where there is none."""
        identity = self._place.identity(manifest_name(version))
        manifest = None if identity is None else self._read(version)
        return None if manifest is None else (manifest, identity)

    def _read(self, version: int) -> Manifest | None:
        try:
            return Manifest.decode(self._place.read(manifest_name(version)), self.uri)
        except FileNotFoundError:
            return None

    def _versions(self) -> Collection[int]:
        return self._manifests()[1].keys()

    def _manifests(self) -> tuple[dict[str, float], dict[int, float]]:
        """List what lies beside the manifests, and the manifests: names and versions to times."""
        listing = self._place.listing(MANIFESTS)
        versions = {name: version_of(name) for name in listing}
        asides = {name: time for name, time in listing.items() if versions[name] is None}
        times = {
            version: listing[name] for name, version in versions.items() if version is not None
        }
        return asides, times

    def _remove(self, versions: Collection[int], names: Collection[str]) -> None:
        """Remove versions, the oldest first, so that those left follow one another; then files."""
        for version in versions:
            self._place.remove(manifest_name(version))
        for _ in self._files.each(self._place.remove, sorted(names), size_bytes=0):
            pass


def objects_place(uri: str) -> Place:
    """Open an address of an object store.

    Raises:
        TableError: Without the extra ``object-store``, or for an address that no store has.
    """
    # Only where a table lies in an object store is its client needed.
    from memorypipe.table.parquet.objects import Objects  # noqa: PLC0415  # an extra

    return Objects(uri)
