"""Batches without Ray and without a disk journal: requests, a journal in memory, one call."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from memorypipe.llm.batch.api import BatchApi
from memorypipe.llm.batch.fill import BatchFiller
from memorypipe.llm.batch.lines import BatchRequest, batch_request
from memorypipe.llm.batch.records import BatchFolder, BatchTotals
from memorypipe.llm.batch.settings import BatchSettings
from memorypipe.llm.journal.types import JournalStats
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.types import Reply, Request

__all__ = ["DictJournal", "Holder", "KilledError", "Killer", "fill", "requests", "spec_of"]


class KilledError(BaseException):
    """Stands for the end of the process: nothing catches it, nothing is put right after it."""


class Killer:
    """Counts the steps of a run that leave a trace, and ends the run before or after one.

    Args:
        at: Number of the step, from 1; None never.
        after: Whether the step takes effect first.
    """

    def __init__(self, at: int | None = None, *, after: bool = False) -> None:
        self._at = at
        self._after = after
        self.steps = 0

    async def step(self, work: Callable[[], Any]) -> Any:
        self._begin()
        found = work()
        found = await found if asyncio.iscoroutine(found) else found
        self._end()
        return found

    def step_at_once(self, work: Callable[[], None]) -> None:
        self._begin()
        work()
        self._end()

    def _begin(self) -> None:
        self.steps += 1
        if self.steps == self._at and not self._after:
            raise KilledError

    def _end(self) -> None:
        if self.steps == self._at:
            raise KilledError


class Holder(Killer):
    """Holds a run up after one of its calls, until something else has happened.

    Args:
        at: Number of the call, from 1; writing records does not count.
        meanwhile: What happens.
    """

    def __init__(self, at: int, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self._held_at = at
        self._meanwhile = meanwhile
        self.calls = 0

    async def step(self, work: Callable[[], Any]) -> Any:
        self.calls += 1
        is_held = self.calls == self._held_at
        found = await super().step(work)
        if is_held:
            await asyncio.to_thread(self._meanwhile)
        return found


class DictJournal:
    """A journal in memory; what it was given survives the run."""

    def __init__(self, killer: Killer | None = None) -> None:
        self.lines: list[tuple[str, Reply, bool, str | None]] = []
        self._usable: dict[str, Reply] = {}
        self._evidence: dict[str, Reply] = {}
        self.killer = killer or Killer()

    @property
    def stats(self) -> JournalStats:
        return JournalStats(
            size_bytes=0, segments=0, known=0, unreadable=0, hits=0, misses=0, written=0
        )

    async def get(self, key: str, *, unusable: bool = False) -> Reply | None:
        return self._usable.get(key) or (self._evidence.get(key) if unusable else None)

    async def put(
        self, key: str, reply: Reply, *, usable: bool, scope_key: str | None = None
    ) -> None:
        def write() -> None:
            self.lines.append((key, reply, usable, scope_key))
            (self._usable if usable else self._evidence)[key] = reply

        await self.killer.step(write)

    async def flush(self) -> None:
        """Every reply is written at once."""

    def close(self) -> None:
        """There is nothing to close."""


class _DyingApi(BatchApi):
    """The real one, whose calls that change something are steps."""

    killer: Killer

    async def upload(self, path: Path, file_name: str) -> str:
        return str(await self.killer.step(lambda: super(_DyingApi, self).upload(path, file_name)))

    async def create(self, file_id: str, *, name: str, run_id: str) -> Any:
        create = super().create
        return await self.killer.step(lambda: create(file_id, name=name, run_id=run_id))

    async def retrieve(self, batch_id: str) -> Any:
        retrieve = super().retrieve
        return await self.killer.step(lambda: retrieve(batch_id))

    async def download(self, file_id: str, path: Path) -> None:
        download = super().download
        await self.killer.step(lambda: download(file_id, path))


class _DyingFolder(BatchFolder):
    """The real one, in which writing a file is a step."""

    killer: Killer

    def write_whole(self, file_name: str, content: bytes) -> None:
        write = super().write_whole
        self.killer.step_at_once(lambda: write(file_name, content))


def spec_of(base_url: str, **changes: Any) -> ModelSpec:
    return ModelSpec(**{"base_url": base_url, "model": "m-7", "api_key": "sk-1", **changes})


def requests(spec: ModelSpec, numbers: Iterable[int]) -> list[BatchRequest]:
    return [
        batch_request(
            spec,
            Request(messages=[{"role": "user", "content": f"[user]: I own {n} boats."}]),
            f"scope {n}",
        )
        for n in numbers
    ]


def _is_usable(reply: Reply) -> bool:
    return "memories" in (reply.content or "") and reply.finish_reason == "stop"


def fill(  # noqa: PLR0913  # each is one thing that a test turns
    spec: ModelSpec,
    folder: Path,
    journal: DictJournal,
    asked: Sequence[BatchRequest],
    *,
    run_id: str = "run_1",
    killer: Killer | None = None,
    waits: list[float] | None = None,
    progress: list[tuple[int, int]] | None = None,
    **settings: Any,
) -> BatchTotals:
    """Run one try to its end; no time passes."""
    slept: list[float] = [] if waits is None else waits
    reported: list[tuple[int, int]] = [] if progress is None else progress
    killer = killer or Killer()
    journal.killer = killer

    async def sleep(wait_s: float) -> None:
        slept.append(wait_s)

    async def main() -> BatchTotals:
        api = _DyingApi(spec, environ={}, sleep=sleep)
        records = _DyingFolder(folder)
        api.killer = records.killer = killer
        filler = BatchFiller(
            spec=spec,
            api=api,
            folder=records,
            journal=journal,
            run_id=run_id,
            is_usable=_is_usable,
            settings=BatchSettings(**settings),
            sleep=sleep,
            on_progress=lambda done, total: reported.append((done, total)),
        )
        try:
            return await filler.fill(asked)
        finally:
            await api.close()

    return asyncio.run(main())
