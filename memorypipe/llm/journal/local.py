"""A journal in a local folder.

Each handle appends to a segment of its own, each reply by one `write()`: a process that is killed
leaves whole lines and at most one torn tail. Readers pass over a torn tail and never cut it off,
since it may be a line that another process is just writing. A finished segment gets an index;
whoever opens the folder maps the indexes and scans only what none covers.
"""

import contextlib
import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

from memorypipe.llm.journal.catalog import INDEX_SUFFIX, Catalog
from memorypipe.llm.journal.files import (
    FolderSource,
    SegmentReader,
    claim,
    index_path,
    new_segment,
    new_token,
)
from memorypipe.llm.journal.index import (
    Index,
    covered_by,
    make_run,
    map_index,
    merge_indexes,
    write_index,
)
from memorypipe.llm.journal.lines import LineHead, Scan, decode_reply, encode_line, evidence_key
from memorypipe.llm.journal.types import JournalSettings, JournalStats
from memorypipe.llm.types import Reply

__all__ = ["LocalJournal"]

# Each mapped index costs a look-up a search; above this they are merged into fewer.
_MAX_MAPPED = 4


class LocalJournal:
    """A handle on a journal folder; not to be shared between threads or processes.

    Args:
        folder: Where it is; it is made where there is none.
        writer_id: Begins the names of the segments that this handle writes; None takes the
            process id. Two writers with one id do not get in each other's way.
        settings: How it is kept.
        now: Gives seconds since 1970, to compare with the times of files.
        clock: Gives seconds that only ever grow.

    Raises:
        OSError: Where the folder cannot be made or read.
    """

    def __init__(
        self,
        folder: Path,
        *,
        writer_id: str | None = None,
        settings: JournalSettings | None = None,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._writer = f"{writer_id or f'pid{os.getpid()}'}-{new_token()}"
        self._settings = settings or JournalSettings()
        self._now, self._clock = now, clock
        self._source = FolderSource(folder)
        self._reader = SegmentReader(folder)
        self._catalog = Catalog(self._settings.memory_bytes)
        self._segment: _OwnSegment | None = None
        self._hits = self._misses = self._written = 0
        self._looked_at = 0.0
        self._look()

    @property
    def stats(self) -> JournalStats:
        """What this handle knows and has done."""
        own_bytes = self._segment.scan.end if self._segment else 0
        return JournalStats(
            size_bytes=self._catalog.size_bytes + own_bytes,
            segments=len(self._catalog.segments()),
            known=len(self._catalog.places),
            unreadable=self._catalog.unreadable,
            hits=self._hits,
            misses=self._misses,
            written=self._written,
        )

    async def get(self, key: str, *, unusable: bool = False) -> Reply | None:
        """Give a usable reply to a request, the last one that this handle knows of."""
        reply, is_gone = self._find(key, unusable=unusable)
        if reply is None and (is_gone or self._may_look()):
            self._look()
            reply, _ = self._find(key, unusable=unusable)
        if reply is None:
            self._misses += 1
        else:
            self._hits += 1
        return reply

    async def put(
        self, key: str, reply: Reply, *, usable: bool, scope_key: str | None = None
    ) -> None:
        """Write a reply down; when this returns it survives the end of the process.

        Raises:
            OSError: Where it cannot be written in full; later replies go to a new segment.
        """
        line = encode_line(key, reply, usable=usable, scope_key=scope_key)
        segment = self._writable()
        offset = segment.scan.end
        written = 0
        try:
            written = os.write(segment.fd, line)
        finally:
            if written < len(line):
                # What follows in the same segment would be glued to the torn line.
                self.close()
        if written < len(line):
            raise OSError(errno.ENOSPC, "The journal took only part of a reply", str(self._folder))
        segment.scan.note(LineHead(key=key, usable=usable), line, offset)
        segment.last_at = self._clock()
        self._written += 1
        name = key if usable else evidence_key(key)
        self._catalog.places.put(name, segment.number, offset)

    async def flush(self) -> None:
        """Do nothing: a reply is written down before `put` returns."""

    def close(self) -> None:
        """Finish the segment; another reply would begin a new one."""
        self._reader.close()
        segment, self._segment = self._segment, None
        if segment is None:
            return
        covered = covered_by(segment.path.name, segment.scan)
        index = index_path(segment.path)
        self._catalog.finish(covered)
        self._catalog.pass_over(index.name)
        self._catalog.size_bytes += segment.scan.end
        try:
            if segment.scan.end >= self._settings.index_from_bytes:
                # Without one the segment is scanned: a full disk is no reason to fail here.
                with contextlib.suppress(OSError):
                    write_index(index, [covered], make_run(segment.scan.places))
        finally:
            os.close(segment.fd)

    def _writable(self) -> "_OwnSegment":
        """Give the segment to write to: a new one where the old one is full or long unused."""
        segment = self._segment
        if segment is not None and (
            segment.scan.end >= self._settings.segment_bytes
            or self._clock() - segment.last_at >= self._settings.idle_s
        ):
            self.close()
        if self._segment is None:
            path, fd = new_segment(self._folder, self._writer)
            number = self._catalog.add_own(path.name)
            self._segment = _OwnSegment(path=path, fd=fd, number=number, last_at=self._clock())
        return self._segment

    def _find(self, key: str, *, unusable: bool) -> tuple[Reply | None, bool]:
        """Look a key up; also tell whether a segment that it may be in is gone."""
        is_gone = False
        places = self._catalog.places.candidates(key, unusable=unusable)
        for number, offset, is_evidence in places:
            segment = self._catalog.segment(number)
            if segment is None:
                continue
            try:
                reply = decode_reply(
                    self._reader.line(segment.name, offset), key, unusable=is_evidence
                )
            except FileNotFoundError:
                is_gone = True
                continue
            if reply is not None:
                return reply, is_gone
        return None, is_gone

    def _may_look(self) -> bool:
        return self._clock() - self._looked_at >= self._settings.look_every_s

    def _look(self) -> None:
        self._looked_at = self._clock()
        self._reader.forget(self._catalog.look(self._source, self._index_dead))
        if len(self._catalog.mapped) > _MAX_MAPPED:
            with contextlib.suppress(OSError):
                self._catalog.map(_fewer(self._catalog.mapped, self._folder))

    def _index_dead(self, name: str, scan: Scan) -> None:
        """Write the index that a killed writer left to others."""
        if scan.end < self._settings.index_from_bytes:
            return
        path = self._folder / name
        finished_after_s = self._settings.finished_after_s
        with (
            contextlib.suppress(OSError),
            claim(path, now=self._now(), finished_after_s=finished_after_s) as is_dead,
        ):
            if is_dead:
                covered = covered_by(name, scan)
                self._catalog.pass_over(index_path(path).name)
                write_index(index_path(path), [covered], make_run(scan.places))


class _OwnSegment:
    """The segment that a handle writes to, and what is in it."""

    def __init__(self, *, path: Path, fd: int, number: int, last_at: float) -> None:
        self.path = path
        self.fd = fd
        self.number = number
        self.last_at = last_at
        self.scan = Scan()


def _fewer(mapped: dict[str, Index], folder: Path) -> dict[str, Index]:
    """Merge small indexes: all but those that are bigger than the smaller ones together."""
    names = sorted(mapped, key=lambda name: len(mapped[name]))
    rest = sum(len(index) for index in mapped.values())
    while len(names) > 1 and len(mapped[names[-1]]) > rest - len(mapped[names[-1]]):
        rest -= len(mapped[names.pop()])
    if len(names) < 2:  # noqa: PLR2004  # a merge takes two
        return mapped
    path = folder / f"merged-{new_token()}{INDEX_SUFFIX}"
    merge_indexes([mapped[name] for name in names], path)
    made = map_index(path)
    kept = {name: index for name, index in mapped.items() if name not in names}
    return mapped if made is None else {**kept, path.name: made}
