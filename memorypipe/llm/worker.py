"""The live side of a model spec: one loop, one client, one set of limits, one journal handle.

A process has one worker per distinct spec. Threads that hold blocks hand their tasks over and
wait; the worker keeps the endpoint busy across all of them.
"""

import asyncio
import atexit
import logging
import os
import random
import socket
import threading
import uuid
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import CancelledError
from copy import copy
from itertools import islice
from typing import Any, TypeVar

from memorypipe.errors import ModelError
from memorypipe.llm.admission import Admission
from memorypipe.llm.caller import Caller
from memorypipe.llm.journal.open import open_journal
from memorypipe.llm.limits.control import Connect, Coordinator
from memorypipe.llm.limits.limits import Limits
from memorypipe.llm.metrics import WorkerMetrics, merge
from memorypipe.llm.models import make_model
from memorypipe.llm.owner import Owner
from memorypipe.llm.solving import Solver
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.stage import Outcome, Stage
from memorypipe.llm.tally import Tally
from memorypipe.llm.types import Model

__all__ = [
    "Worker",
    "all_or_none",
    "close_workers",
    "close_workers_of",
    "get_worker",
    "share_worker",
]

TaskT = TypeVar("TaskT")
ValueT = TypeVar("ValueT")
T = TypeVar("T")

# Rows in hand, in times of the requests in flight: those under way, as many that are ready when
# they are done, and some that wait between two attempts.
_ROWS_IN_HAND = 3

_logger = logging.getLogger(__name__)


class Worker:
    """Answers tasks through a model, within the limits of its spec.

    Args:
        spec: What to call, and how.
        model: The live model; None makes the one that the spec describes.
        rng: Dice of the retry jitter.
        coordinator: Who shares the limits out where several workers keep them together; None
            where this worker is on its own.
        make_loop: Makes the loop that it lives on; with it comes the clock of all waiting.

    Attributes:
        admission: Holds blocks back whose rows could not be asked soon anyway.
    """

    def __init__(
        self,
        spec: ModelSpec,
        *,
        model: Model | None = None,
        rng: random.Random | None = None,
        coordinator: Coordinator | None = None,
        make_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    ) -> None:
        self.spec = spec
        self.admission = Admission(_ROWS_IN_HAND * spec.concurrency)
        self._model = model or make_model(spec, environ=os.environ)
        self._journal = None if spec.journal is None else open_journal(spec.journal)
        self._counts: defaultdict[str, WorkerMetrics] = defaultdict(WorkerMetrics)
        self._limits = Limits(
            spec.max_qps,
            spec.concurrency,
            spec.max_tokens_per_minute,
            coordinator=coordinator,
            worker=f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}",
            group=spec.limit_group or spec.key(),
            prices=spec.prices,
            snapshot=self.snapshot,
            may_be_bounded=spec.run is not None,
        )
        self._caller = Caller(
            spec,
            model=self._model,
            limits=self._limits,
            journal=self._journal,
            rng=rng or random.Random(),  # noqa: S311  # jitter, no secret
        )
        self._jobs: set[asyncio.Task[Any]] = set()
        self._is_closed = False
        # Held while work is handed over, so that none comes to a loop that ends.
        self._handing_over = threading.Lock()
        self._loop = make_loop()
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

        Raises:
            CancelledError: Where the worker is closed, or is closed before the work is done.
        """
        with self._handing_over:
            if self._is_closed:
                work.close()
                raise CancelledError("The worker is closed.")
            future = asyncio.run_coroutine_threadsafe(self._job(work), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def run(
        self,
        stage: Stage[TaskT, ValueT],
        tasks: Sequence[TaskT],
        *,
        scope_keys: Sequence[str | None] | None = None,
        portion: int = 1,
        on_done: Callable[[], None] = lambda: None,
    ) -> list[Outcome[ValueT]]:
        """Answer tasks and wait for all of them.

        Args:
            stage: The kind of work.
            tasks: Any number of tasks.
            scope_keys: Whose data each is about, for the journal; None where nobody says.
            portion: Tasks handed over at a time; it does not cap the requests in flight.
            on_done: Called on the worker's loop after each task.

        Returns:
            One outcome per task, in their order; a task that failed has an outcome too.

        Raises:
            EndpointError: Where the endpoint cannot serve the job at all. Nothing more is sent.
        """
        keys = scope_keys or [None] * len(tasks)
        return self.wait(self._run(stage, list(zip(tasks, keys, strict=True)), portion, on_done))

    def serve(self, owner: Owner | None) -> None:
        """Say whom the work is for: once that process has ended, nothing more is sent."""
        self._caller.owner = owner

    def reset(self) -> None:
        """Forget that the endpoint was given up, so that a new job may try it again."""
        self._loop.call_soon_threadsafe(self._caller.reset)

    def snapshot(self) -> dict[str, Any]:
        """Give the counters since the start, as `memorypipe.llm.metrics` describes them.

        Those of each kind of work are beside them, as `stages`: `kind` of the stage to counters.
        """
        counts = self._limits.counts
        stages = {kind: each.snapshot() for kind, each in list(self._counts.items())}
        return {
            **merge([WorkerMetrics().snapshot(), *stages.values()]),
            "stages": stages,
            "in_flight": counts.in_flight,
            "max_in_flight": counts.max_in_flight,
            "waited_s": {
                "concurrency": counts.waited_concurrency_s,
                "qps": counts.waited_qps_s,
                "tokens": counts.waited_tokens_s,
                "pause": counts.waited_pause_s,
            },
        }

    def close(self) -> None:
        """Cancel what is under way, close the client and end the thread; once."""
        with self._handing_over:
            if self._is_closed:
                return
            self._is_closed = True
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # --- on the loop ---

    async def _job(self, work: Coroutine[Any, Any, T]) -> T:
        job: Any = asyncio.current_task()
        self._jobs.add(job)
        try:
            return await work
        finally:
            self._jobs.discard(job)
            if not self._jobs:
                # Nothing comes after this that would tell it.
                await self._limits.flush()

    async def _close(self) -> None:
        """End the work, not what keeps its results: replies on their way to a store arrive."""
        jobs = list(self._jobs)
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        steps: list[Callable[[], Awaitable[None]]] = [self._caller.close, self._close_journal]
        for step in (*steps, self._limits.close, self._model.close):
            try:
                await step()
            except Exception:  # one that fails must not keep the others open
                _logger.exception("A worker of %s could not be closed whole.", self.spec.endpoint)

    async def _close_journal(self) -> None:
        if self._journal is not None:
            try:
                await self._journal.flush()
            finally:
                self._journal.close()

    async def _run(
        self,
        stage: Stage[TaskT, ValueT],
        tasks: Sequence[tuple[TaskT, str | None]],
        portion: int,
        on_done: Callable[[], None],
    ) -> list[Outcome[ValueT]]:
        outcomes: dict[int, Outcome[ValueT]] = {}
        rows = iter(enumerate(tasks))
        handed_over: deque[tuple[int, tuple[TaskT, str | None]]] = deque()

        async def lane() -> None:
            while True:
                if not handed_over:
                    handed_over.extend(islice(rows, portion))
                if not handed_over:
                    return
                index, (task, scope_key) = handed_over.popleft()
                outcomes[index] = await self.answer(stage, task, scope_key=scope_key)
                on_done()

        await all_or_none([lane() for _ in range(min(self.spec.concurrency, len(tasks)))])
        return [outcomes[index] for index in range(len(tasks))]

    async def answer(
        self,
        stage: Stage[TaskT, ValueT],
        task: TaskT,
        *,
        scope_key: str | None = None,
        goes_first: bool = False,
    ) -> Outcome[ValueT]:
        """Answer one task; only to be awaited on the worker's loop.

        Args:
            stage: The kind of work.
            task: The task.
            scope_key: Whose data it is about, for the journal.
            goes_first: Whether it is asked before other tasks that wait as well.

        Raises:
            EndpointError: Where the endpoint cannot serve the job at all.
        """
        caller = self._caller
        tally = Tally(
            attempts_left=1 + self.spec.max_retries,
            counts=self._counts[stage.kind],
            goes_first=goes_first,
        )
        try:
            reading = await Solver(stage, caller, tally, scope_key).solve(task)
        except ModelError as error:
            if caller.stopped is not None:
                # A new one each: what many raise gathers the traceback of all of them.
                raise copy(caller.stopped) from None
            return tally.failed(error)
        return tally.outcome(reading)


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

# Runs that ended early, while threads of theirs were on their way to a worker.
_over: set[str] = set()


def get_worker(spec: ModelSpec, connect: Connect = lambda _spec: None) -> Worker:
    """Give this process's worker for a spec; it is made on first use.

    Args:
        spec: What to call, and how.
        connect: Finds the coordinator of its run, where it has one.

    Raises:
        CancelledError: Where the run is over.
    """

    def make() -> Worker:
        if spec.run in _over:
            raise CancelledError("The run is over.")
        return Worker(spec, coordinator=connect(spec))

    return share_worker(spec.key(), make)


def share_worker(key: str, make: Callable[[], Worker]) -> Worker:
    """Give this process's worker of a key; it is made on first use."""
    with _workers_lock:
        if key not in _workers:
            _workers[key] = make()
        return _workers[key]


def close_workers_of(run: str, *, is_over: bool = False) -> None:
    """Close the workers that this process has of a run.

    Args:
        run: As `ModelSpec.run` names it.
        is_over: Whether threads may still ask for one, which get none any more.
    """
    with _workers_lock:
        if is_over:
            _over.add(run)
        keys = [key for key, worker in _workers.items() if worker.spec.run == run]
        workers = [_workers.pop(key) for key in keys]
    for worker in workers:
        worker.close()


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
