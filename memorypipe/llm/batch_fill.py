"""Filling the journal by batches: send what it does not know, wait, write the replies down.

A run may be killed between any two lines of this. What holds then:

* Before its file is uploaded a batch costs nothing. The record says ``uploading`` before the
  upload begins; a restart looks the file up by its name and uploads it only where it is missing.
* The record says ``creating`` before the batch is created; after a restart, and after every
  attempt whose end is unknown, the provider's list is searched for the batch's name first.
* A batch that was created is only ever asked after. Its results are read from the start after a
  restart; a reply that the journal has is not written twice.
* A request that is in an open batch of any run is never put into another one.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Protocol

from memorypipe.errors import EndpointError, PlanError, RetryableModelError
from memorypipe.llm.batch_api import BatchApi, RemoteBatch
from memorypipe.llm.batch_lines import BatchRequest, RequestFile, read_result
from memorypipe.llm.batch_records import BatchFolder, BatchRecord, BatchTotals
from memorypipe.llm.batch_settings import BatchSettings
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.types import Reply

__all__ = ["BatchFiller", "ReplyJournal", "cancel_batches"]

_ENDED = frozenset({"completed", "expired", "cancelled", "failed"})
_NO_ROOM = ("token_limit", "enqueued", "quota_limit", "too_many_batches")
_POLL_GROWTH = 1.5
_SHOWN_FAULTS = 3
_AT_ONCE = 500
# Refusals for overload after which a batch waits its turn behind the others.
_ATTEMPTS_WHILE_FULL = 5


class ReplyJournal(Protocol):
    """The journal, as far as it is needed here."""

    async def get(self, key: str) -> Reply | None:
        """Give the reply to a request; None where there is no usable one."""
        ...

    async def put(
        self, key: str, reply: Reply, *, usable: bool, scope_key: str | None = None
    ) -> None:
        """Write a reply down, durably."""
        ...


class BatchFiller:
    """Sends the requests of one run in batches, and journals what comes back.

    Args:
        spec: Whom to ask.
        api: How to reach its batches.
        folder: Where the records of batches are.
        journal: Where the replies go.
        run_id: The run.
        is_usable: Tells whether a reply says anything; one that does not is asked for again.
        settings: How batches are cut and waited for.
        sleep: Waits so many seconds.
        on_progress: Called with the requests that are through, and all of them.
    """

    def __init__(  # noqa: PLR0913  # the surroundings of a run, each of them once
        self,
        *,
        spec: ModelSpec,
        api: BatchApi,
        folder: BatchFolder,
        journal: ReplyJournal,
        run_id: str,
        is_usable: Callable[[Reply], bool],
        settings: BatchSettings,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_progress: Callable[[int, int], None] = lambda _done, _all: None,
    ) -> None:
        self._spec = spec
        self._api = api
        self._folder = folder
        self._journal = journal
        self._run_id = run_id
        self._is_usable = is_usable
        self._settings = settings
        self._sleep = sleep
        self._on_progress = on_progress
        self._mine: dict[str, BatchRecord] = {}
        self._through: dict[str, int] = {}
        self._refusals: dict[str, int] = {}

    async def fill(self, requests: Iterable[BatchRequest]) -> BatchTotals:
        """Have all requests answered that can be, as far as the journal does not know them.

        Args:
            requests: In any number; one at a time is held.

        Returns:
            What the batches of this run came to, those of earlier tries of it included.

        Raises:
            EndpointError: Where the endpoint has no Batch API, refuses the key, or refuses a
                batch as a whole. Batches that were sent go on, and are taken up by the next try.
            RetryableModelError: Where it failed again and again; likewise.
            PlanError: If another process is sending batches of this folder.
        """
        with self._folder.submitting():
            await self._submit(requests)
        await self._collect()
        return sum((each.totals or _unanswered(each) for each in self._of_run()), BatchTotals())

    # --- sending ---

    async def _submit(self, requests: Iterable[BatchRequest]) -> None:
        self._folder.sweep()
        opened = [record for record in self._folder.records() if record.is_open]
        # The number of the batch that a request is in; -1 for the files of this try.
        place = {key: n for n, each in enumerate(opened) for key in self._folder.keys(each.name)}
        wanted: set[int] = set()
        file = self._new_file()
        try:
            for request in requests:
                key = bytes.fromhex(request.key)
                if key in place:
                    wanted.add(place[key])
                elif await self._journal.get(request.key) is None:
                    file = await self._add(file, request)
                    place[key] = -1
            if file.requests:
                await self._send(self._record_of(file))
        finally:
            file.discard()
        for number in sorted(wanted - {-1}):
            await self._send(opened[number])
        for number in {*range(len(opened))} - wanted:
            if opened[number].run_id == self._run_id and opened[number].state == "written":
                self._folder.drop(opened[number])

    def _new_file(self) -> RequestFile:
        settings = self._settings
        return RequestFile(
            self._folder, max_requests=settings.max_requests, max_bytes=settings.max_bytes
        )

    async def _add(self, file: RequestFile, request: BatchRequest) -> RequestFile:
        """Add a request to a file, which is sent first where it is full."""
        line = request.line()
        if not file.has_room(line) and file.requests:
            await self._send(self._record_of(file))
            file = self._new_file()
        # One that is too long for any file is left to be asked alone.
        if file.has_room(line):
            file.add(request, line)
        return file

    def _record_of(self, file: RequestFile) -> BatchRecord:
        return self._folder.save(
            BatchRecord(
                name=file.close(),
                run_id=self._run_id,
                endpoint=self._spec.endpoint,
                model=self._spec.model,
                requests=file.requests,
                size_bytes=file.size_bytes,
            )
        )

    async def _send(self, record: BatchRecord) -> None:
        """Bring a batch as far as the provider working on it, from wherever it stands."""
        self._mine[record.name] = record
        if record.state in {"written", "uploading"}:
            record = await self._upload(record)
        if record.state in {"uploaded", "creating"}:
            record = await self._create(record)

    async def _upload(self, record: BatchRecord) -> BatchRecord:
        path = self._folder.file(record.name, "jsonl")
        file_id = None
        if record.state == "uploading":
            file_id = await self._api.find_file(_file_name(record))
        record = self._save(replace(record, state="uploading"))
        file_id = file_id or await self._api.upload(path, _file_name(record))
        return self._save(replace(record, state="uploaded", file_id=file_id))

    async def _create(self, record: BatchRecord) -> BatchRecord:
        batch = await self._api.find(record.name) if record.state == "creating" else None
        record = self._save(replace(record, state="creating"))
        attempt = 0
        while batch is None:
            attempt += 1
            try:
                batch = await self._api.create(
                    record.file_id or "", name=record.name, run_id=record.run_id
                )
            except RetryableModelError as error:
                if error.kind == "http_429" and attempt >= _ATTEMPTS_WHILE_FULL:
                    return self._wait_for_room(record, str(error))
                await self._api.back_off(error, attempt)
                batch = await self._api.find(record.name)
        record = self._save(
            replace(record, state="created", batch_id=batch.id, status=batch.status)
        )
        self._folder.file(record.name, "jsonl").unlink(missing_ok=True)
        return record

    def _save(self, record: BatchRecord) -> BatchRecord:
        self._mine[record.name] = record
        return self._folder.save(record)

    # --- waiting ---

    async def _collect(self) -> None:
        wait_s = self._settings.first_poll_s
        while self._open():
            ended = await self._ask_after_all()
            self._report()
            await self._send_refused(has_room=ended)
            if self._open():
                await self._sleep(wait_s)
                slower_s = min(wait_s * _POLL_GROWTH, self._settings.longest_poll_s)
                wait_s = self._settings.first_poll_s if ended else slower_s

    def _open(self) -> list[BatchRecord]:
        return [record for record in self._mine.values() if record.is_open]

    async def _ask_after_all(self) -> bool:
        """Take in what has ended; tell whether anything has."""
        refused: list[EndpointError] = []
        ended = False
        for record in self._open():
            if record.state != "created":
                continue
            batch = await self._api.retrieve(str(record.batch_id))
            self._through[record.name] = batch.done
            if batch.status not in _ENDED:
                continue
            if batch.status == "failed" and _is_for_want_of_room(batch):
                self._wait_for_room(record, _told(batch))
            elif batch.status == "failed":
                self._save(replace(record, state="failed", status="failed"))
                refused.append(_refusal(record, batch))
            else:
                await self._take_in(record, batch)
                ended = True
        if refused:
            raise refused[0]
        return ended

    def _wait_for_room(self, record: BatchRecord, told: str) -> BatchRecord:
        """Leave a batch for later that found the provider's queue full."""
        # Not "uploaded": another process of this run may have sent it again already.
        record = self._save(replace(record, state="creating", batch_id=None))
        if self._works():
            return record
        self._refusals[record.name] = self._refusals.get(record.name, 0) + 1
        if self._refusals[record.name] > self._settings.max_refusals:
            raise EndpointError(
                f"Endpoint {record.endpoint!r} has no room for a batch of {record.requests} "
                f"requests ({told}), though no other batch of this run is there. Start again when "
                f"its queue is empty, or cut smaller files (max_requests)."
            )
        return record

    def _works(self) -> bool:
        return any(record.state == "created" for record in self._open())

    async def _send_refused(self, *, has_room: bool) -> None:
        """Try the next batch again that found the queue full, once there may be room."""
        waiting = [record for record in self._open() if record.state != "created"]
        if waiting and (has_room or not self._works()):
            # Where another process is sending, there is none; the next round tries again.
            with contextlib.suppress(PlanError), self._folder.submitting():
                await self._send(waiting[0])

    def _report(self) -> None:
        done = sum(
            record.requests if not record.is_open else self._through.get(name, 0)
            for name, record in self._mine.items()
        )
        self._on_progress(done, sum(record.requests for record in self._mine.values()))

    # --- taking in ---

    async def _take_in(self, record: BatchRecord, batch: RemoteBatch) -> None:
        """Journal what a batch answered; it is done once all of it is."""
        tally = Counter(batches=1, requests=record.requests)
        open_keys = self._folder.keys(record.name)
        for file_id in (batch.output_file_id, batch.error_file_id):
            if file_id is not None:
                path = self._folder.path / f".new-results-{record.name}"
                await self._api.download(file_id, path)
                await self._journal_lines(path, open_keys, tally)
                path.unlink()
        # Of these the provider said nothing.
        tally["expired" if batch.status == "expired" else "failed"] += len(open_keys)
        totals = BatchTotals(**tally)
        self._save(replace(record, state="done", status=batch.status, totals=totals))
        self._folder.file(record.name, "keys").unlink(missing_ok=True)

    async def _journal_lines(
        self, path: Path, open_keys: dict[bytes, str | None], tally: Counter[str]
    ) -> None:
        with path.open("rb") as file:
            lines = (line for line in file if line.strip())
            # Some at a time: where the journal is far away, each takes its time.
            while some := list(islice(lines, _AT_ONCE)):
                work = [self._journal_line(line, open_keys, tally) for line in some]
                await asyncio.gather(*work)

    async def _journal_line(
        self, line: bytes, open_keys: dict[bytes, str | None], tally: Counter[str]
    ) -> None:
        result = read_result(line)
        if result.key is None or result.key not in open_keys:
            tally["ignored"] += 1
            return
        scope_key = open_keys.pop(result.key)
        if result.reply is None:
            tally[result.outcome] += 1
            return
        usable = self._is_usable(result.reply)
        tally["answered" if usable else "unusable"] += 1
        tally["prompt_tokens"] += result.reply.prompt_tokens
        tally["completion_tokens"] += result.reply.completion_tokens
        key = result.key.hex()
        if await self._journal.get(key) is None:
            await self._journal.put(key, result.reply, usable=usable, scope_key=scope_key)

    def _of_run(self) -> list[BatchRecord]:
        """The batches of this run, and those of others that served it."""
        found = {record.name: record for record in self._folder.records()}
        names = {name for name, each in found.items() if each.run_id == self._run_id}
        return [found[name] for name in sorted(names | self._mine.keys()) if name in found]


async def cancel_batches(api: BatchApi, folder: BatchFolder, run_id: str) -> list[str]:
    """Cancel the batches of a run; what they answered until then is taken in by its next try.

    Args:
        api: How to reach the batches.
        folder: Where the records are.
        run_id: The run.

    Returns:
        The provider's names of the batches that were cancelled.

    Raises:
        PlanError: If another process is sending batches of this folder.
    """
    cancelled = []
    with folder.submitting():
        for record in [each for each in folder.records() if each.is_open]:
            if record.run_id != run_id:
                continue
            batch = await _whereabouts(api, record)
            if batch is None:
                folder.drop(record)
            elif batch.status not in _ENDED | {"cancelling"}:
                await api.cancel(batch.id)
                cancelled.append(batch.id)
    return cancelled


async def _whereabouts(api: BatchApi, record: BatchRecord) -> RemoteBatch | None:
    """Find the batch of a record; None where none was created."""
    if record.batch_id is not None:
        return await api.retrieve(record.batch_id)
    return await api.find(record.name) if record.state == "creating" else None


def _file_name(record: BatchRecord) -> str:
    return f"memorypipe-{record.name}.jsonl"


def _unanswered(record: BatchRecord) -> BatchTotals:
    return BatchTotals(batches=1, requests=record.requests, failed=record.requests)


def _is_for_want_of_room(batch: RemoteBatch) -> bool:
    said = " ".join(f"{fault.code} {fault.message}" for fault in batch.faults).lower()
    return any(word in said for word in _NO_ROOM)


def _told(batch: RemoteBatch) -> str:
    told = [
        f"{'' if fault.line is None else f'line {fault.line}: '}{fault.message or fault.code}"
        for fault in batch.faults[:_SHOWN_FAULTS]
    ]
    more = len(batch.faults) - len(told)
    return "; ".join([*told, *([f"and {more} more"] if more > 0 else [])]) or "no reason given"


def _refusal(record: BatchRecord, batch: RemoteBatch) -> EndpointError:
    return EndpointError(
        f"Endpoint {record.endpoint!r} (model {record.model!r}) refuses batch {batch.id!r} of "
        f"{record.requests} requests as a whole: {_told(batch)}. Nothing of it was answered. "
        f"Mend the cause and start again, or leave --batch-api out; other batches of the run go "
        f"on and are taken up then."
    )
