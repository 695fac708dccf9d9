"""Compaction of a local journal: many segments become few, and what nobody needs goes.

At every moment each reply is in a segment that can be read: the new segment is complete, on disk
and in its place before the first old one is removed. A crash leaves a draft or replies that are
there twice; the next compaction takes both away.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memorypipe.errors import JournalError
from memorypipe.llm.journal.catalog import INDEX_SUFFIX, SEGMENT_SUFFIX
from memorypipe.llm.journal.files import COMPACTED, claim, index_path, new_token
from memorypipe.llm.journal.index import (
    DRAFT_SUFFIX,
    Index,
    covered_by,
    drafted,
    make_run,
    map_index,
    write_index,
)
from memorypipe.llm.journal.lines import Scan, decode_reply, head_of, scope_of
from memorypipe.llm.journal.types import Compaction, JournalSettings

__all__ = ["LineFilter", "compact_folder", "groups_of", "superfluous"]

_LOCK = "compact.lock"


@dataclass(kw_only=True)
class LineFilter:
    """Decides line by line what a compaction keeps; the first usable reply of a key stays.

    Attributes:
        keep_unusable: Whether replies that were kept as evidence stay.
        drop_scopes: Lines of these scope keys go.
        kept: Lines kept.
        dropped: Lines left out: repeated, unusable, damaged or torn.
        erased: Lines left out for their scope.
        scan: What the lines kept so far would give when scanned.
    """

    keep_unusable: bool = False
    drop_scopes: Collection[str] = ()
    kept: int = 0
    dropped: int = 0
    erased: int = 0
    scan: Scan = field(default_factory=Scan)

    def begin(self) -> None:
        """Begin a new segment."""
        self.scan = Scan()

    def choose(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Give the lines that stay."""
        for line in lines:
            head = head_of(line)
            if head is not None and self.drop_scopes and scope_of(line) in self.drop_scopes:
                self.erased += 1
            elif head is None or not self._stays(head.key, line, is_usable=head.usable):
                # What was erased in place was counted then.
                self.dropped += not line.isspace()
            else:
                self.kept += 1
                self.scan.note(head, line, self.scan.end)
                yield line

    def _stays(self, key: str, line: bytes, *, is_usable: bool) -> bool:
        if not is_usable:
            return self.keep_unusable
        # A damaged line must not stand for a good one.
        return key not in self.scan.places and decode_reply(line, key) is not None


def groups_of(
    sizes: Sequence[tuple[str, int]], target_bytes: int, *, always: Collection[str] = ()
) -> Iterator[list[str]]:
    """Put segments together until they reach a size.

    Args:
        sizes: Names and sizes in bytes.
        target_bytes: A group ends when it has reached this.
        always: Segments that must be written again; a last group of one segment that compaction
            made is left out otherwise.
    """
    group: list[str] = []
    size_bytes = 0
    for name, more_bytes in sizes:
        group.append(name)
        size_bytes += more_bytes
        if size_bytes >= target_bytes:
            yield group
            group, size_bytes = [], 0
    if len(group) > 1 or any(name in always or not name.startswith(COMPACTED) for name in group):
        yield group


def compact_folder(
    folder: Path,
    *,
    settings: JournalSettings,
    keep_unusable: bool,
    drop_scopes: Collection[str],
    now: Callable[[], float],
) -> Compaction:
    """Merge the finished segments of a folder.

    Raises:
        JournalError: Where another compaction is at work.
    """
    with _only_one(folder):
        return _Pass(folder, settings, now).run(
            LineFilter(keep_unusable=keep_unusable), drop_scopes
        )


@contextlib.contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    fd = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalError(
                f"The journal {str(folder)!r} is being compacted by another process; wait for "
                "its end and try again."
            ) from None
        yield
    finally:
        os.close(fd)


class _Pass:
    """One pass over a folder."""

    def __init__(self, folder: Path, settings: JournalSettings, now: Callable[[], float]) -> None:
        self._folder = folder
        self._settings = settings
        self._now = now
        self._read_bytes: dict[str, int] = {}
        self._newest: dict[str, float] = {}
        self._made: set[str] = set()

    def run(self, lines: LineFilter, drop_scopes: Collection[str]) -> Compaction:
        self._remove_drafts()
        erased = {name: _erase(self._folder / name, drop_scopes) for name in self._sizes()}
        before = self._sizes()
        target_bytes = self._settings.compacted_bytes
        holed = {name for name, count in erased.items() if count}
        small = [
            (name, size)
            for name, size in before.items()
            if name in holed or size < target_bytes // 2 or not name.startswith(COMPACTED)
        ]
        tried: set[str] = set()
        for group in groups_of(small, target_bytes, always=holed):
            tried.update(group)
            self._merge(group, lines)
            for name in group:
                self._remove(name)
        left = self._sizes().keys() - self._made
        self._remove_indexes()
        return Compaction(
            merged=len(before.keys() - left),
            made=len(self._made),
            left_alone=len(left & tried),
            kept=lines.kept,
            dropped=lines.dropped,
            erased=sum(erased.values()),
        )

    def _sizes(self) -> dict[str, int]:
        paths = sorted(self._folder.glob(f"*{SEGMENT_SUFFIX}"))
        return {path.name: path.stat().st_size for path in paths}

    def _claim(self, name: str) -> contextlib.AbstractContextManager[bool]:
        finished_after_s = self._settings.finished_after_s
        return claim(self._folder / name, now=self._now(), finished_after_s=finished_after_s)

    def _merge(self, group: Sequence[str], lines: LineFilter) -> None:
        """Write what stays of a group to one new segment."""
        lines.begin()
        path = self._folder / f"{COMPACTED}.{new_token()}{SEGMENT_SUFFIX}"
        with drafted(path) as draft:
            with draft.open("xb") as file:
                for name in group:
                    file.writelines(lines.choose(self._lines(name)))
            # Its age is that of the replies in it.
            newest = max((self._newest.get(name, 0.0) for name in group), default=0.0)
            os.utime(draft, (newest, newest))
            if lines.scan.end:
                # First the index: whoever sees the segment need not scan it.
                covered = [covered_by(path.name, lines.scan)]
                write_index(index_path(path), covered, make_run(lines.scan.places))
        if lines.scan.end:
            self._made.add(path.name)
        else:
            path.unlink()
        _sync_folder(self._folder)

    def _lines(self, name: str) -> Iterator[bytes]:
        """Give the lines of a segment; none of one whose writer may be at work."""
        with self._claim(name) as is_free:
            if not is_free:
                return
            with (self._folder / name).open("rb") as file:
                yield from file
                self._read_bytes[name] = file.tell()
                self._newest[name] = os.fstat(file.fileno()).st_mtime

    def _remove(self, name: str) -> None:
        """Remove a segment that was read to its end, unless it has grown since."""
        path = self._folder / name
        with self._claim(name) as is_free:
            if is_free and path.stat().st_size == self._read_bytes.get(name):
                path.unlink()
                index_path(path).unlink(missing_ok=True)

    def _remove_drafts(self) -> None:
        """Remove what a crash left half written."""
        for draft in self._folder.glob(f"*{DRAFT_SUFFIX}"):
            with contextlib.suppress(FileNotFoundError):
                if draft.stat().st_mtime <= self._now() - self._settings.finished_after_s:
                    draft.unlink()

    def _remove_indexes(self) -> None:
        """Remove indexes that tell nothing which a bigger one does not tell."""
        mapped = {path.name: map_index(path) for path in self._folder.glob(f"*{INDEX_SUFFIX}")}
        for name in superfluous(mapped, self._sizes().keys()):
            (self._folder / name).unlink(missing_ok=True)


def superfluous(indexes: Mapping[str, Index | None], segments: Collection[str]) -> list[str]:
    """Name the indexes that tell nothing of these segments which a bigger one does not tell."""
    known: set[str] = set()
    found = []
    usable = {name: index for name, index in indexes.items() if index is not None}
    for name in sorted(usable, key=lambda name: (-len(usable[name].covered), name)):
        new = {one.name for one in usable[name].covered}.intersection(segments) - known
        known |= new
        if not new:
            found.append(name)
    return found


def _erase(path: Path, scopes: Collection[str]) -> int:
    """Write spaces over the lines of some scopes; gives their number.

    The length stays, so that the segment's writer, and everyone who knows a place in it, can go
    on; those who hold it open find nothing there even when it is removed.
    """
    erased = 0
    if not scopes:
        return erased
    with contextlib.suppress(FileNotFoundError), path.open("rb+", buffering=0) as file:
        at = 0
        with path.open("rb") as lines:
            for line in lines:
                if head_of(line) is not None and scope_of(line) in scopes:
                    os.pwrite(file.fileno(), b" " * (len(line) - 1), at)
                    erased += 1
                at += len(line)
        if erased:
            os.fsync(file.fileno())
    return erased


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
