"""Extraction by a provider's Batch API: the journal is filled before the extraction runs.

The records of batches are in `batches/` beside the table, not in the folder of the run: that one
is made anew by every try, and a log that grew meanwhile is another run with the same windows.

What a batch failed to answer, or answered badly, is asked for in the ordinary way by the
extraction that follows, which finds all the rest in the journal.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow.parquet as pq

from memorypipe.errors import PlanError
from memorypipe.expressions.extract import MemoryExtract
from memorypipe.llm.batch.api import BatchApi
from memorypipe.llm.batch.cancel import cancel_batches
from memorypipe.llm.batch.fill import BatchFiller
from memorypipe.llm.batch.lines import BatchRequest, batch_request
from memorypipe.llm.batch.records import BatchTotals
from memorypipe.llm.batch.settings import BatchSettings
from memorypipe.llm.journal.open import open_journal
from memorypipe.llm.stage import COMPLETE_STATUSES
from memorypipe.llm.types import ExtractTask, Reply
from memorypipe.pipeline.batch_folder import batch_folder, open_batches

__all__ = ["cancel_run", "check_none_open", "fill_journal", "is_usable", "requests_of"]

T = TypeVar("T")

_ROWS = 256


def fill_journal(  # noqa: PLR0913  # what a run knows, each of it once
    windows: Sequence[str],
    extract: MemoryExtract,
    *,
    table_uri: str,
    run_id: str,
    settings: BatchSettings,
    on_progress: Callable[[int, int], None],
) -> BatchTotals:
    """Have the extraction requests of windows answered in batches, into the journal.

    Args:
        windows: Parquet files of schema `memorypipe.schema.WINDOWS`.
        extract: The expression; it has a journal.
        table_uri: The table beside which the records are.
        run_id: The run.
        settings: How batches are cut and waited for.
        on_progress: Called with the requests that are through, and all of them; from a thread.

    Returns:
        What the batches came to.

    Raises:
        ModelError: As `BatchFiller.fill`.
        PlanError: If another process is sending batches for this table.
        KeyboardInterrupt: With a note that the batches go on.
    """

    async def work() -> BatchTotals:
        journal = open_journal(str(extract.spec.journal))
        api = BatchApi(extract.spec, environ=os.environ)
        try:
            filler = BatchFiller(
                spec=extract.spec,
                api=api,
                folder=batch_folder(table_uri),
                journal=journal,
                run_id=run_id,
                is_usable=lambda reply: is_usable(extract, reply),
                settings=settings,
                on_progress=on_progress,
            )
            return await filler.fill(requests_of(windows, extract))
        finally:
            await api.close()
            journal.close()

    try:
        return _wait(work())
    except KeyboardInterrupt as error:
        going = [record for record in open_batches(table_uri) if record.state == "created"]
        error.add_note(
            f"{len(going)} batches go on at the provider. The same command takes their replies "
            f"in; `MemoryPipeline.cancel_batches({run_id!r})` cancels them."
        )
        raise


def check_none_open(windows: Sequence[str], extract: MemoryExtract, *, table_uri: str) -> None:
    """Check that asking for windows one by one pays for nothing that open batches answer.

    Args:
        windows: Parquet files of schema `memorypipe.schema.WINDOWS`.
        extract: The expression.
        table_uri: The table beside which the records are.

    Raises:
        PlanError: If requests of these windows are in open batches.
    """
    if extract.spec.journal_only:
        return
    folder = batch_folder(table_uri)
    run_of = {
        key: record.run_id for record in open_batches(table_uri) for key in folder.keys(record.name)
    }
    keys = {bytes.fromhex(request.key) for request in requests_of(windows, extract)} & run_of.keys()
    if keys:
        cancel = " and ".join(
            f"MemoryPipeline.cancel_batches({run_id!r})"
            for run_id in sorted({run_of[key] for key in keys})
        )
        raise PlanError(
            f"{len(keys)} requests are in open batches and would be paid for again. Add "
            f"--batch-api, which waits for them, or cancel them by {cancel}: then --batch-api "
            f"takes in what was answered and asks for the rest."
        )


def requests_of(windows: Sequence[str], extract: MemoryExtract) -> Iterator[BatchRequest]:
    """Give the requests that the extraction of windows would send, one after the other."""
    for path in windows:
        with pq.ParquetFile(path) as file:
            for rows in file.iter_batches(_ROWS, columns=["messages", "context", "scope_key"]):
                requests = extract.requests(rows["messages"], rows["context"])
                for request, scope_key in zip(requests, rows["scope_key"].to_pylist(), strict=True):
                    if request is not None:
                        yield batch_request(extract.spec, request, scope_key)


def is_usable(extract: MemoryExtract, reply: Reply) -> bool:
    """Tell whether a reply says all there is to say, whatever the transcript.

    One that was cut does not: beside a later reply that is whole it must not be found.
    """
    return extract.stage.read(ExtractTask(turns=()), reply).status in COMPLETE_STATUSES


def cancel_run(extract: MemoryExtract, *, table_uri: str, run_id: str) -> list[str]:
    """Cancel the batches of a run; what they answered until then is kept.

    Args:
        extract: The expression that the run has.
        table_uri: The table.
        run_id: The run.

    Returns:
        The provider's names of the batches that were cancelled.

    Raises:
        ModelError: Where the endpoint fails, or refuses the key.
    """

    async def work() -> list[str]:
        api = BatchApi(extract.spec, environ=os.environ)
        try:
            return await cancel_batches(api, batch_folder(table_uri), run_id)
        finally:
            await api.close()

    return _wait(work())


def _wait(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread of its own: a notebook's has a running loop already."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="memorypipe-batches", daemon=True)
    thread.start()
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    finally:
        future.cancel()
        asyncio.run_coroutine_threadsafe(_cancelled(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _cancelled() -> None:
    """Cancel what is still under way on this loop, and wait until it has put things right."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
