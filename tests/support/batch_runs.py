"""Batches without Ray and without a disk journal: requests, a journal in memory, one call."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from memorypipe.llm.batch_api import BatchApi
from memorypipe.llm.batch_fill import BatchFiller
from memorypipe.llm.batch_lines import BatchRequest, batch_request
from memorypipe.llm.batch_records import BatchFolder, BatchTotals
from memorypipe.llm.batch_settings import BatchSettings
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.types import Reply, Request

__all__ = ["DictJournal", "KilledError", "Killer", "fill", "requests", "spec_of"]


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
        self.steps += 1
        dies = self.steps == self._at
        if dies and not self._after:
            raise KilledError
        found = work()
        found = await found if asyncio.iscoroutine(found) else found
        if dies:
            raise KilledError
        return found


class DictJournal:
    """A journal in memory; what it was given survives the run."""

    def __init__(self, killer: Killer | None = None) -> None:
        self.lines: list[tuple[str, Reply, bool, str | None]] = []
        self._usable: dict[str, Reply] = {}
        self.killer = killer or Killer()

    async def get(self, key: str) -> Reply | None:
        return self._usable.get(key)

    async def put(
        self, key: str, reply: Reply, *, usable: bool, scope_key: str | None = None
    ) -> None:
        def write() -> None:
            self.lines.append((key, reply, usable, scope_key))
            if usable:
                self._usable[key] = reply

        await self.killer.step(write)


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
        # Without a loop of its own: a step that is no coroutine ends at once.
        step = self.killer.step(lambda: super(_DyingFolder, self).write_whole(file_name, content))
        try:
            step.send(None)
        except StopIteration:
            return


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
            is_usable=lambda reply: "memories" in (reply.content or ""),
            settings=BatchSettings(**settings),
            sleep=sleep,
            on_progress=lambda done, total: reported.append((done, total)),
        )
        try:
            return await filler.fill(asked)
        finally:
            await api.close()

    return asyncio.run(main())
