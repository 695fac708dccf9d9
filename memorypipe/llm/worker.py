"""The live side of a model spec: one loop, one client, one set of limits, one journal handle.

A process has one worker per distinct spec. Threads that hold blocks hand their tasks over and
wait; the worker keeps the endpoint busy across all of them.
"""

import asyncio
import atexit
import contextlib
import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from memorypipe.errors import EndpointError, ModelError, RejectedRequestError, StoppedError
from memorypipe.llm.journal import Journal, journal_key
from memorypipe.llm.limits import Limits
from memorypipe.llm.models import make_model
from memorypipe.llm.retry import EndpointHealth, is_retryable, next_wait_s
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.stage import Outcome, Reading, Stage
from memorypipe.llm.tally import Tally
from memorypipe.llm.types import Model, Reply, Request
from memorypipe.prompts.retry import retry_messages

__all__ = ["Worker", "all_or_none", "close_workers", "get_worker"]

TaskT = TypeVar("TaskT")
ValueT = TypeVar("ValueT")
T = TypeVar("T")

# A truncated reply is worth keeping: asked again it would be cut again.
_WORTH_KEEPING = frozenset({"ok", "empty", "truncated"})

# The model may do better when it is told what was wrong.
_WORTH_ANOTHER = frozenset({"parse_error", "incomplete"})


class Worker:
    """Answers tasks through a model, within the limits of its spec.

    Args:
        spec: What to call, and how.
        model: The live model; None makes the one that the spec describes.
        rng: Dice of the retry jitter.
    """

    def __init__(
        self, spec: ModelSpec, *, model: Model | None = None, rng: random.Random | None = None
    ) -> None:
        self.spec = spec
        self._model = model or make_model(spec, environ=os.environ)
        self._rng = rng or random.Random()  # noqa: S311  # jitter, no secret
        self._health = EndpointHealth()
        self._journal = None if spec.journal is None else Journal.open(spec.journal)
        self._schema_works = True
        self._shared: dict[str, asyncio.Future[Reply]] = {}
        self._stopped: EndpointError | None = None
        self._limits = Limits(spec.max_qps, spec.concurrency, spec.max_tokens_per_minute)
        self._stop_signal = asyncio.Event()
        self._key_reads = 0
        self._key_turn = asyncio.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="memorypipe-llm", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    # --- called from any thread ---

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the worker's loop and wait for it; `answer` may be awaited in it.

        Where the waiting ends early, by an interrupt say, the work is cancelled: nothing more is
        sent for it.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def run(
        self, stage: Stage[TaskT, ValueT], tasks: Sequence[TaskT], *, portion: int = 1
    ) -> list[Outcome[ValueT]]:
        """Answer tasks and wait for all of them.

        Args:
            stage: The kind of work.
            tasks: Any number of tasks.
            portion: Tasks handed over at a time; it does not cap the requests in flight.

        Returns:
            One outcome per task, in their order; a task that failed has an outcome too.

        Raises:
            EndpointError: Where the endpoint cannot serve the job at all. Nothing more is sent.
        """
        return self.wait(self._run(stage, tasks, portion))

    def reset(self) -> None:
        """Forget that the endpoint was given up, so that a new job may try it again."""
        self.wait(self._reset())

    def close(self) -> None:
        """Cancel what is under way, close the client and end the thread; once."""
        if self._loop.is_closed():
            return
        self.wait(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        if self._journal is not None:
            self._journal.close()

    # --- on the loop ---

    async def _reset(self) -> None:
        self._stopped = None
        self._stop_signal.clear()
        self._health = EndpointHealth()

    async def _close(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._model.close()

    async def _run(
        self, stage: Stage[TaskT, ValueT], tasks: Sequence[TaskT], portion: int
    ) -> list[Outcome[ValueT]]:
        outcomes: dict[int, Outcome[ValueT]] = {}
        rows = iter(enumerate(tasks))
        handed_over: deque[tuple[int, TaskT]] = deque()

        async def lane() -> None:
            while True:
                if not handed_over:
                    handed_over.extend(islice(rows, portion))
                if not handed_over:
                    return
                index, task = handed_over.popleft()
                outcomes[index] = await self.answer(stage, task)

        await all_or_none([lane() for _ in range(min(self.spec.concurrency, len(tasks)))])
        return [outcomes[index] for index in range(len(tasks))]

    async def answer(self, stage: Stage[TaskT, ValueT], task: TaskT) -> Outcome[ValueT]:
        """Answer one task; only to be awaited on the worker's loop.

        Raises:
            EndpointError: Where the endpoint cannot serve the job at all.
        """
        tally = Tally(attempts_left=1 + self.spec.max_retries)
        try:
            reading = await self._solve(stage, task, tally)
        except ModelError as error:
            if self._stopped is not None:
                raise self._stopped from error
            return tally.failed(error)
        return tally.outcome(reading)

    async def _solve(
        self, stage: Stage[TaskT, ValueT], task: TaskT, tally: Tally
    ) -> Reading[ValueT]:
        """Get a reading of a task, asking again or cutting it in two while the budget lasts."""
        request = stage.request(task)
        best: Reading[ValueT] | None = None
        while True:
            reply, reading = await self._ask(stage, task, request, tally)
            tally.last_reply = reply
            if reading.status == "truncated" and tally.attempts_left > 1:
                tally.fail("truncated")
                return await self._solve_halves(stage, task, reading, tally)
            if reading.value is not None:
                best = reading
            if reading.status not in _WORTH_ANOTHER or not tally.attempts_left:
                return best or reading
            tally.fail(reading.status)
            error = reading.error or "it holds no readable item"
            messages = retry_messages(request.messages, reply.content, error)
            request = replace(request, messages=messages)

    async def _solve_halves(
        self,
        stage: Stage[TaskT, ValueT],
        task: TaskT,
        whole: Reading[ValueT],
        tally: Tally,
    ) -> Reading[ValueT]:
        """Answer the two halves of a task whose reply did not fit."""
        halves = stage.split(task)
        if halves is None:
            return whole
        first, second = [await self._solve_half(stage, half, tally) for half in halves]
        if first.value is None and second.value is None:
            return whole
        good = {first.status, second.status} <= {"ok", "empty"}
        errors = [reading.error for reading in (whole, first, second) if reading.error]
        return Reading(
            value=stage.merge(task, first.value, second.value, whole.value),
            status="ok" if good else "truncated",
            error=None if good else "; ".join(errors),
            dropped_items=first.dropped_items + second.dropped_items,
            repaired=first.repaired + second.repaired,
        )

    async def _solve_half(
        self, stage: Stage[TaskT, ValueT], half: TaskT, tally: Tally
    ) -> Reading[ValueT]:
        if not tally.attempts_left:
            return Reading(value=None, status="truncated", error="no attempt is left for a half")
        try:
            return await self._solve(stage, half, tally)
        except ModelError as error:
            if self._stopped is not None:
                raise
            return Reading(value=None, status="truncated", error=f"{type(error).__name__}: {error}")

    async def _ask(
        self, stage: Stage[TaskT, ValueT], task: TaskT, request: Request, tally: Tally
    ) -> tuple[Reply, Reading[ValueT]]:
        """Get a reply: from the journal, from an equal request in flight, or from the model."""
        request = replace(request, params={**request.params, **self.spec.params})
        if self._journal is None:
            reply = await self._attempts(request, tally)
            return reply, stage.read(task, reply)
        spec = self.spec
        key = journal_key(
            spec.endpoint, spec.model, request.params, request.messages, spec.repeat_key
        )
        known = self._journal.get(key)
        if known is None and key in self._shared:
            known = await asyncio.shield(self._shared[key])
        if known is not None:
            tally.hit(known)
            return known, stage.read(task, known)
        return await self._ask_and_keep(stage, task, request, tally, key)

    async def _ask_and_keep(
        self,
        stage: Stage[TaskT, ValueT],
        task: TaskT,
        request: Request,
        tally: Tally,
        key: str,
    ) -> tuple[Reply, Reading[ValueT]]:
        shared = self._shared[key] = self._loop.create_future()
        try:
            reply = await self._attempts(request, tally)
            reading = stage.read(task, reply)
            if self._journal is not None:
                self._journal.put(key, reply, usable=reading.status in _WORTH_KEEPING)
        except BaseException as error:
            shared.set_exception(error)
            shared.exception()  # seen: nobody may be waiting
            raise
        else:
            shared.set_result(reply)
            return reply, reading
        finally:
            del self._shared[key]

    async def _attempts(self, request: Request, tally: Tally) -> Reply:
        """Send a request until a reply comes or the attempts are used up."""
        attempt = 0
        while True:
            attempt += 1
            tally.take()
            key_reads = self._key_reads
            try:
                reply = await self._send(request)
            except ModelError as error:
                tally.fail(self._note_failure(error))
                if isinstance(error, EndpointError):
                    await self._read_key_again(key_reads)
                if not self._worth_another(error) or not tally.attempts_left:
                    raise
                await self._pause(next_wait_s(error, attempt, rng=self._rng))
                continue
            self._health.success(time.monotonic())
            tally.paid(reply)
            return reply

    def _note_failure(self, error: ModelError) -> str:
        """Count a failure, and give the endpoint up where it is final for the job."""
        kind = getattr(error, "kind", type(error).__name__)
        gave_up = self._health.failure(error, time.monotonic()) == "stop"
        if gave_up and isinstance(error, EndpointError) and self._stopped is None:
            self._stopped = error
            self._stop_signal.set()
        return kind

    async def _read_key_again(self, known_reads: int) -> None:
        """Read the key again, once for all requests that failed with the one before."""
        async with self._key_turn:
            if self._key_reads == known_reads and self._stopped is None:
                await self._model.refresh_key()
                self._key_reads += 1

    def _worth_another(self, error: ModelError) -> bool:
        if self._stopped is not None:
            return False
        return is_retryable(error) or isinstance(error, EndpointError)

    async def _pause(self, wait_s: float) -> None:
        """Wait between attempts, but not beyond a stop."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop_signal.wait(), timeout=wait_s)

    async def _send(self, request: Request) -> Reply:
        """Send once; a schema that the server does not know is left out from then on."""
        if "response_format" not in request.params or "response_format" in self.spec.params:
            return await self._send_as_is(lambda: request)
        params = {k: v for k, v in request.params.items() if k != "response_format"}
        plain = replace(request, params=params)
        try:
            # Which of the two is known only when its turn has come.
            return await self._send_as_is(lambda: request if self._schema_works else plain)
        except RejectedRequestError as error:
            if not error.rejects_schema:
                raise
        self._schema_works = False
        return await self._send_as_is(lambda: plain)

    async def _send_as_is(self, shape: Callable[[], Request]) -> Reply:
        async with self._limits.attempt(_prompt_tokens(shape())) as attempt:
            if self._stopped is not None:
                raise StoppedError("The endpoint was given up; this request was not sent.")
            try:
                reply = await self._model.complete(shape())
            except ModelError as error:
                attempt.failed(error)
                raise
            attempt.replied(reply)
            return reply


def _prompt_tokens(request: Request) -> float:
    """Estimate what a prompt costs, at a quarter of a token per character."""
    return sum(len(str(message.get("content"))) for message in request.messages) / 4


async def all_or_none(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Await coroutines together; where one fails, the others are cancelled before it is raised."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


_workers: dict[str, Worker] = {}
_workers_lock = threading.Lock()


def get_worker(spec: ModelSpec) -> Worker:
    """Give this process's worker for a spec; it is made on first use."""
    key = spec.key()
    with _workers_lock:
        if key not in _workers:
            _workers[key] = Worker(spec)
        return _workers[key]


@atexit.register
def close_workers() -> None:
    """Close every worker of this process; those asked for afterwards are new."""
    with _workers_lock:
        workers = list(_workers.values())
        _workers.clear()
    for worker in workers:
        worker.close()


def _forget_workers() -> None:
    """Begin without workers in a forked child: the threads of its parent are not there."""
    global _workers_lock  # noqa: PLW0603  # the lock may have been held when the fork came
    _workers_lock = threading.Lock()
    _workers.clear()


os.register_at_fork(after_in_child=_forget_workers)
