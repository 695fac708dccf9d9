"""The live side of a model spec: one loop, one client, one set of limits, one journal handle.

A process has one worker per distinct spec. Threads that hold blocks hand their tasks over and
wait; the worker keeps the endpoint busy across all of them.
"""

import asyncio
import atexit
import os
import random
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
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
from memorypipe.llm.usage import Usage
from memorypipe.prompts.retry import retry_messages

__all__ = ["Worker", "close_workers", "get_worker"]

TaskT = TypeVar("TaskT")
ValueT = TypeVar("ValueT")
T = TypeVar("T")

# A truncated reply is worth keeping: asked again it would be cut again.
_WORTH_KEEPING = frozenset({"ok", "empty", "truncated"})


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
        self.usage = Usage()
        self._model = model or make_model(spec, environ=os.environ)
        self._rng = rng or random.Random()  # noqa: S311  # jitter, no secret
        self._health = EndpointHealth()
        self._journal = None if spec.journal is None else Journal.open(spec.journal)
        self._schema_works = True
        self._shared: dict[str, asyncio.Future[Reply]] = {}
        self._stopped: EndpointError | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="memorypipe-llm", daemon=True)
        self._ready = threading.Event()
        self._thread.start()
        self._ready.wait()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        spec = self.spec
        self._limits = Limits(spec.max_qps, spec.concurrency, spec.max_tokens_per_minute)
        self._stop_signal = asyncio.Event()
        self._loop.call_soon(self._ready.set)
        self._loop.run_forever()

    # --- called from any thread ---

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the worker's loop; `answer` may be awaited in it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

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
        return self.submit(self._run(stage, tasks, portion)).result()

    def reset(self) -> None:
        """Forget that the endpoint was given up, so that a new job may try it again."""
        self.submit(self._reset()).result()

    def close(self) -> None:
        """Close the client and end the thread; once."""
        if self._loop.is_closed():
            return
        self.submit(self._model.close()).result()
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

    async def _run(
        self, stage: Stage[TaskT, ValueT], tasks: Sequence[TaskT], portion: int
    ) -> list[Outcome[ValueT]]:
        outcomes: dict[int, Outcome[ValueT]] = {}
        rows = iter(enumerate(tasks))

        async def answer_row(index: int, task: TaskT) -> None:
            outcomes[index] = await self.answer(stage, task)

        async def lane() -> None:
            while taken := list(islice(rows, portion)):
                await asyncio.gather(*(answer_row(index, task) for index, task in taken))

        # Enough lanes to fill the limit by themselves, one more to cover for a slow portion.
        lanes = min(-(-self.spec.concurrency // portion) + 1, len(tasks))
        await asyncio.gather(*(lane() for _ in range(lanes)))
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
        while True:
            reply, reading = await self._ask(stage, task, request, tally)
            tally.last_reply = reply
            if reading.status == "parse_error" and tally.attempts_left:
                tally.fail("parse_error")
                error = reading.error or "it holds no readable item"
                messages = retry_messages(request.messages, reply.content, error)
                request = replace(request, messages=messages)
                continue
            if reading.status == "truncated" and tally.attempts_left > 1:
                tally.fail("truncated")
                return await self._solve_halves(stage, task, reading, tally)
            return reading

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
        readings = [await self._solve_half(stage, half, tally) for half in halves]
        first, second = readings
        if first is None and second is None:
            return whole
        values = (first.value if first else None, second.value if second else None)
        good = all(reading and reading.status in {"ok", "empty"} for reading in readings)
        errors = [reading.error for reading in readings if reading and reading.error]
        return Reading(
            value=stage.merge(task, *values),
            status="ok" if good else "truncated",
            error=None if good else "; ".join([whole.error or "cut", *errors]),
            dropped_items=sum(reading.dropped_items for reading in readings if reading),
            repaired=sum(reading.repaired for reading in readings if reading),
        )

    async def _solve_half(
        self, stage: Stage[TaskT, ValueT], half: TaskT, tally: Tally
    ) -> Reading[ValueT] | None:
        if not tally.attempts_left:
            return None
        try:
            return await self._solve(stage, half, tally)
        except ModelError:
            if self._stopped is not None:
                raise
            return None

    async def _ask(
        self, stage: Stage[TaskT, ValueT], task: TaskT, request: Request, tally: Tally
    ) -> tuple[Reply, Reading[ValueT]]:
        """Get a reply: from the journal, from an equal request in flight, or from the model."""
        request = replace(request, params={**request.params, **self.spec.params})
        self.usage.calls += 1
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
            self.usage.journal_hits += 1
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
            try:
                reply = await self._send(request)
            except ModelError as error:
                tally.fail(self._note_failure(error))
                if not self._worth_another(error) or not tally.attempts_left:
                    raise
                await self._pause(next_wait_s(error, attempt, rng=self._rng))
                if isinstance(error, EndpointError):
                    await self._model.refresh_key()
                continue
            self._health.success(time.monotonic())
            self.usage.add_reply(reply)
            tally.paid(reply)
            return reply

    def _note_failure(self, error: ModelError) -> str:
        """Count a failure, and give the endpoint up where it is final for the job."""
        kind = getattr(error, "kind", type(error).__name__)
        self.usage.add_failure(kind)
        gave_up = self._health.failure(error, time.monotonic()) == "stop"
        if gave_up and isinstance(error, EndpointError) and self._stopped is None:
            self._stopped = error
            self._stop_signal.set()
        return kind

    def _worth_another(self, error: ModelError) -> bool:
        if self._stopped is not None:
            return False
        return is_retryable(error) or isinstance(error, EndpointError)

    async def _pause(self, wait_s: float) -> None:
        """Wait between attempts, but not beyond a stop."""
        started = self._loop.time()
        try:
            await asyncio.wait_for(self._stop_signal.wait(), timeout=wait_s)
        except TimeoutError:
            pass
        finally:
            self.usage.waited_retry_s += self._loop.time() - started

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
        async with self._limits:
            if self._stopped is not None:
                raise StoppedError("The endpoint was given up; this request was not sent.")
            self.usage.attempts += 1
            self.usage.max_in_flight = max(self.usage.max_in_flight, self._limits.in_flight)
            reply = await self._model.complete(shape())
            self._limits.spend(reply.prompt_tokens + reply.completion_tokens)
            return reply


_workers: dict[str, Worker] = {}
_workers_lock = threading.Lock()


def get_worker(spec: ModelSpec) -> Worker:
    """Give this process's worker for a spec; it is made on first use."""
    key = spec.key()
    with _workers_lock:
        if key not in _workers:
            _workers[key] = Worker(spec)
        return _workers[key]


def _drain() -> Iterator[Worker]:
    with _workers_lock:
        while _workers:
            yield _workers.popitem()[1]


@atexit.register
def close_workers() -> None:
    """Close every worker of this process; those asked for afterwards are new."""
    for worker in _drain():
        worker.close()
