"""Filling the journal by batches: send what it does not know, wait, write the replies down.

A run may be killed between any two lines of this. What holds then:

* Before its file is uploaded a batch costs nothing. The record says ``uploading`` before the
  upload begins; a restart looks the file up by its name and uploads it only where it is missing.
* The record says ``creating`` before the batch is created; after a restart, and after every
  attempt whose end is unknown, the provider's list is searched for the batch's name first.
* A batch that was created is only ever asked after. Its results are read from the start after a
  restart; a reply that the journal has is not written twice.
* A request that is in an open batch of any run is never put into another one.

Several processes may wait for the same batch. Each reads the results into a file of its own and
journals what is not journalled yet; a record is only changed by who knows its latest state.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from http import HTTPStatus
from itertools import islice
from pathlib import Path

from memorypipe.errors import EndpointError, PlanError, RetryableModelError
from memorypipe.llm.batch.api import BatchApi, RemoteBatch
from memorypipe.llm.batch.lines import BatchRequest, RequestFile, read_result
from memorypipe.llm.batch.records import BatchFolder, BatchRecord, BatchTotals
from memorypipe.llm.batch.settings import BatchSettings
from memorypipe.llm.journal.types import Journal
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.types import Reply

__all__ = ["BatchFiller"]

_POLL_GROWTH = 1.5
_AT_ONCE = 500
# Refusals for overload after which a batch waits its turn behind the others.
_ATTEMPTS_WHILE_FULL = 5
# So many times in a row a batch or its results must be unknown: listings lag behind.
_LOST_AFTER = 3


class BatchFiller:
    """Sends the requests of one run in batches, and journals what comes back.

    Args:
        spec: Whom to ask.
        api: How to reach its batches.
        folder: Where the records of batches are.
        journal: Where the replies go.
        run_id: The run.
        is_usable: Tells whether a reply is a whole answer; one that says nothing is asked for
            again.
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
        journal: Journal,
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
        self._refusals: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()

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
        return sum(
            (each.totals or _all_of(each, "failed") for each in self._of_run()), BatchTotals()
        )

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
                elif await self._is_worth_asking(request.key):
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

    async def _is_worth_asking(self, key: str) -> bool:
        """Whether a batch could bring a reply; one that was cut would be cut again."""
        if await self._journal.get(key) is not None:
            return False
        known = await self._journal.get(key, unusable=True)
        return known is None or known.finish_reason != "length"

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
        # Another process may have brought it further meanwhile.
        found = self._read_again(record)
        if found is not None and found.state in {"written", "uploading"}:
            found = await self._upload(found)
        if found is not None and found.state in {"uploaded", "creating"}:
            await self._create(found)

    async def _upload(self, record: BatchRecord) -> BatchRecord:
        path = self._folder.file(record.name, "jsonl")
        file_id = None
        if record.state == "uploading":
            file_id = await self._api.find_file(_file_name(record))
        record = self._save(replace(record, state="uploading"))
        file_id = file_id or await self._api.upload(path, _file_name(record))
        return self._save(replace(record, state="uploaded", file_id=file_id))

    async def _create(self, record: BatchRecord) -> None:
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
                    self._wait_for_room(record, str(error))
                    return
                await self._api.back_off(error, attempt)
                batch = await self._api.find(record.name)
        self._save(replace(record, state="created", batch_id=batch.id, status=batch.status))
        self._folder.file(record.name, "jsonl").unlink(missing_ok=True)

    def _save(self, record: BatchRecord) -> BatchRecord:
        """Write a record that nobody else changes: its batch is being sent, and by us."""
        self._mine[record.name] = record
        return self._folder.save(record)

    def _change(self, old: BatchRecord, new: BatchRecord) -> BatchRecord | None:
        """Write a record that others may change too; give what it is from now on."""
        found = self._noted(old.name, self._folder.change(old, new))
        if found is not None and not found.is_open:
            self._folder.file(found.name, "keys").unlink(missing_ok=True)
        return found

    def _read_again(self, record: BatchRecord) -> BatchRecord | None:
        return self._noted(record.name, self._folder.record(record.name))

    def _noted(self, name: str, found: BatchRecord | None) -> BatchRecord | None:
        if found is None:
            self._mine.pop(name, None)
        else:
            self._mine[name] = found
        return found

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
        for each in self._open():
            record = self._read_again(each)
            # What another process saw refused stops this one as well.
            if record is not None and (record.state == "created" or record.status == "failed"):
                ended |= await self._ask_after(record, refused)
            else:
                ended |= record is None or not record.is_open
        if refused:
            raise refused[0]
        return ended

    async def _ask_after(self, record: BatchRecord, refused: list[EndpointError]) -> bool:
        """Take a batch in where it has ended; tell whether it is through."""
        try:
            batch = await self._api.retrieve(str(record.batch_id))
        except EndpointError as error:
            return self._lose(record, error)
        self._through[record.name] = batch.done
        if not batch.has_ended:
            self._unknown.pop(record.name, None)
            return False
        if batch.status != "failed":
            return await self._take_in(record, batch)
        if batch.found_no_room:
            self._wait_for_room(record, batch.reasons)
        else:
            self._change(record, replace(record, state="failed", status="failed"))
            refused.append(_refusal(record, batch))
        return False

    def _lose(self, record: BatchRecord, error: EndpointError) -> bool:
        """Give a batch up that the provider does not know; tell whether that is certain."""
        if error.status != HTTPStatus.NOT_FOUND:
            raise error
        if not self._is_surely_unknown(record):
            return False
        totals = _all_of(record, "lost")
        self._change(record, replace(record, state="failed", status="unknown", totals=totals))
        return True

    def _is_surely_unknown(self, record: BatchRecord) -> bool:
        self._unknown[record.name] += 1
        return self._unknown[record.name] >= _LOST_AFTER

    def _wait_for_room(self, record: BatchRecord, told: str) -> None:
        """Leave a batch for later that found the provider's queue full."""
        # Not "uploaded": another process of this run may have sent it again already.
        waiting = replace(record, state="creating", batch_id=None)
        if self._change(record, waiting) != waiting or self._works():
            return
        self._refusals[record.name] += 1
        if self._refusals[record.name] > self._settings.max_refusals:
            raise EndpointError(
                f"Endpoint {record.endpoint!r} has no room for a batch of {record.requests} "
                f"requests ({told}), though no other batch of this run is there. Start again when "
                f"its queue is empty, or cut smaller files (max_requests)."
            )

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

    async def _take_in(self, record: BatchRecord, batch: RemoteBatch) -> bool:
        """Journal what a batch answered; it is done once all of it is, and True is given."""
        tally = Counter(batches=1, requests=record.requests)
        open_keys = self._folder.keys(record.name)
        is_known = True
        for file_id in (batch.output_file_id, batch.error_file_id):
            if file_id is not None:
                is_known &= await self._journal_file(file_id, open_keys, tally)
        if not is_known and not self._is_surely_unknown(record):
            return False
        # Of these the provider said nothing.
        outcome = "expired" if batch.status == "expired" else "failed"
        tally[outcome if is_known else "lost"] += len(open_keys)
        ended = replace(record, status=batch.status, totals=BatchTotals(**tally))
        self._change(record, replace(ended, state="done" if is_known else "failed"))
        return True

    async def _journal_file(
        self, file_id: str, open_keys: dict[bytes, str | None], tally: Counter[str]
    ) -> bool:
        """Journal a file of results; tell whether the provider has it."""
        path = self._folder.scratch("results")
        try:
            await self._api.download(file_id, path)
            await self._journal_lines(path, open_keys, tally)
        except EndpointError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return False
        finally:
            path.unlink(missing_ok=True)
        return True

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


def _file_name(record: BatchRecord) -> str:
    return f"memorypipe-{record.name}.jsonl"


def _all_of(record: BatchRecord, outcome: str) -> BatchTotals:
    counts = {"requests": record.requests, outcome: record.requests}
    return BatchTotals(batches=1, **counts)


def _refusal(record: BatchRecord, batch: RemoteBatch) -> EndpointError:
    return EndpointError(
        f"Endpoint {record.endpoint!r} (model {record.model!r}) refuses batch {batch.id!r} of "
        f"{record.requests} requests as a whole: {batch.reasons}. Nothing of it was answered. "
        f"Mend the cause and start again: other batches of the run go on and are taken up then. "
        f"Once none is open, --batch-api can be left out."
    )
