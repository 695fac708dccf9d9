"""A journal in an object store: immutable objects, each of what came within a moment.

Objects cannot be appended to. Replies that come close together are stored as one segment, and
`put` returns when it is stored. A handle writes an index over its segments from time to time and
at its end; compaction makes few big ones of many small ones.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable

from memorypipe.errors import JournalError
from memorypipe.llm.journal.catalog import INDEX_SUFFIX, SEGMENT_SUFFIX, Catalog
from memorypipe.llm.journal.files import new_token
from memorypipe.llm.journal.index import (
    OFFSET_BITS,
    Covered,
    covered_by,
    make_run,
    pack_index,
)
from memorypipe.llm.journal.lines import LineHead, Scan, decode_reply, encode_line
from memorypipe.llm.journal.store import ObjectStore
from memorypipe.llm.journal.types import JournalSettings, JournalStats
from memorypipe.llm.types import Reply

__all__ = ["ObjectJournal"]

# A look at a store is a request, which costs money and some 50 ms.
_LOOK_FACTOR = 5
# Segments without an index that whoever opens the journal has to fetch.
_MAX_UNINDEXED = 256


class ObjectJournal:
    """A handle on a journal in an object store; for one event loop.

    Args:
        store: Where it is.
        writer_id: Begins the names of what this handle writes; None takes the process id.
        settings: How it is kept.
        clock: Gives seconds that only ever grow.

    Raises:
        JournalError: Where the store cannot be listed.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        writer_id: str | None = None,
        settings: JournalSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._writer = f"{writer_id or f'pid{os.getpid()}'}-{new_token()}".replace("/", "_")
        self._settings = settings or JournalSettings()
        self._clock = clock
        self._catalog = Catalog(self._settings.memory_bytes)
        self._batch: _Batch | None = None
        self._batches: set[_Batch] = set()
        self._unindexed: list[tuple[Covered, dict[str, int]]] = []
        self._made = 0
        self._hits = self._misses = self._written = self._written_bytes = 0
        self._looking: asyncio.Task[object] | None = None
        self._catalog.look(store)
        self._looked_at = clock()

    @property
    def stats(self) -> JournalStats:
        """What this handle knows and has done."""
        return JournalStats(
            size_bytes=self._catalog.size_bytes + self._written_bytes,
            segments=len(self._catalog.segments()),
            known=len(self._catalog.places),
            unreadable=self._catalog.unreadable,
            hits=self._hits,
            misses=self._misses,
            written=self._written,
        )

    async def get(self, key: str, *, unusable: bool = False) -> Reply | None:
        """Give a usable reply to a request.

        Raises:
            JournalError: Where the store does not answer.
        """
        reply, is_gone = await self._find(key, unusable=unusable)
        every_s = self._settings.look_every_s * _LOOK_FACTOR
        is_due = self._looking is not None or self._clock() - self._looked_at >= every_s
        if reply is None and (is_gone or is_due):
            await self._look()
            reply, _ = await self._find(key, unusable=unusable)
        if reply is None:
            self._misses += 1
        else:
            self._hits += 1
        return reply

    async def put(
        self, key: str, reply: Reply, *, usable: bool, scope_key: str | None = None
    ) -> None:
        """Store a reply, with others that come within a moment; it is stored when this returns.

        Raises:
            JournalError: Where the store does not take it.
        """
        line = encode_line(key, reply, usable=usable, scope_key=scope_key)
        batch = self._batch
        if batch is None:
            batch = self._batch = self._new_batch()
        batch.scan.note(LineHead(key=key, usable=usable), line, batch.scan.end)
        batch.lines.append(line)
        if batch.scan.end >= self._settings.batch_bytes:
            self._end_batch(batch)
        # The batch is stored even where one of those who wait for it is cancelled.
        await asyncio.shield(batch.task)
        self._written += 1

    async def flush(self) -> None:
        """Store what waits for others to come."""
        if self._batch is not None:
            self._end_batch(self._batch)
        await asyncio.gather(*(batch.task for batch in self._batches))

    def close(self) -> None:
        """Store what is not stored yet, and the index; the loop may be closed already."""
        self._batch = None
        for batch in list(self._batches):
            self._store.write(batch.name, b"".join(batch.lines))
            self._note_stored(batch)
        if sum(covered.size_bytes for covered, _ in self._unindexed):
            name, data = self._next_index()
            self._store.write(name, data)

    def _new_batch(self) -> "_Batch":
        self._made += 1
        batch = _Batch(f"{self._writer}.{self._made:08d}{SEGMENT_SUFFIX}")
        batch.task = asyncio.get_running_loop().create_task(self._store_batch(batch))
        batch.task.add_done_callback(_see)
        self._batches.add(batch)
        self._catalog.add_own(batch.name)
        return batch

    def _end_batch(self, batch: "_Batch") -> None:
        batch.is_full.set()
        if self._batch is batch:
            self._batch = None

    async def _store_batch(self, batch: "_Batch") -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(batch.is_full.wait(), self._settings.linger_s)
        self._end_batch(batch)
        try:
            await self._store.write_async(batch.name, b"".join(batch.lines))
        except JournalError:
            # Those who wait are told that these replies are not kept.
            self._batches.discard(batch)
            raise
        self._note_stored(batch)
        if len(self._unindexed) >= _MAX_UNINDEXED:
            name, data = self._next_index()
            # Without one the segments are fetched whole: no reason to fail here.
            with contextlib.suppress(JournalError):
                await self._store.write_async(name, data)

    def _note_stored(self, batch: "_Batch") -> None:
        self._batches.discard(batch)
        number = self._catalog.add_own(batch.name)
        self._catalog.places.add(number, batch.scan.places)
        covered = covered_by(batch.name, batch.scan)
        self._unindexed.append((covered, batch.scan.places))
        self._written_bytes += batch.scan.end
        self._catalog.finish(covered)

    def _next_index(self) -> tuple[str, bytes]:
        """Give the index over the segments that have none yet: its name and bytes."""
        segments, self._unindexed = self._unindexed, []
        places = {
            key: number << OFFSET_BITS | offset
            for number, (_, offsets) in enumerate(segments)
            for key, offset in offsets.items()
        }
        name = segments[-1][0].name.removesuffix(SEGMENT_SUFFIX) + INDEX_SUFFIX
        self._catalog.pass_over(name)
        return name, b"".join(pack_index([covered for covered, _ in segments], make_run(places)))

    async def _find(self, key: str, *, unusable: bool) -> tuple[Reply | None, bool]:
        """Look a key up; also tell whether a segment that it may be in is gone."""
        is_gone = False
        places = self._catalog.places.candidates(key, unusable=unusable)
        for number, offset, is_evidence in places:
            found = self._catalog.segment(number)
            if found is None:
                continue
            try:
                line = await self._store.line(found.name, offset, found.size_bytes)
            except FileNotFoundError:
                is_gone = True
                continue
            reply = decode_reply(line, key, unusable=is_evidence)
            if reply is not None:
                return reply, is_gone
        return None, is_gone

    async def _look(self) -> None:
        """Look for what others have stored; all who miss at the same time look together."""
        if self._looking is None:
            self._looked_at = self._clock()
            work = asyncio.to_thread(self._catalog.look, self._store)
            self._looking = asyncio.get_running_loop().create_task(work)
        looking = self._looking
        try:
            await asyncio.shield(looking)
        finally:
            if self._looking is looking and looking.done():
                self._looking = None


class _Batch:
    """Replies that are stored together."""

    task: "asyncio.Task[None]"

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[bytes] = []
        self.scan = Scan()
        self.is_full = asyncio.Event()


def _see(task: "asyncio.Task[None]") -> None:
    """Take note of a failure: those who waited for it may have been cancelled."""
    if not task.cancelled():
        task.exception()
