"""Threads of a small run: they give what they made, and end with the run."""

import asyncio
import contextlib
import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError

import pyarrow as pa
import pytest

from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.types import Reply, Request
from memorypipe.llm.worker import Worker, close_workers_of, get_worker, share_worker
from memorypipe.pipeline.here import Threads, spared_collector
from tests.support.scripted_model import ScriptedModel, WordStage

RUN = "a run of its own"


@pytest.fixture(autouse=True)
def _no_run_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memorypipe.llm.worker._over", set())


def _square(number: int) -> pa.Table:
    return pa.table({"square": [number * number]})


@pytest.fixture(name="worker")
def _worker() -> Iterator[Worker]:
    async def never(_request: Request, _number: int) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    spec = ModelSpec(base_url="http://127.0.0.1:1/v1", model="m", run=RUN)
    yield share_worker("silent", lambda: Worker(spec, model=ScriptedModel(never)))
    close_workers_of(RUN)


def _all(
    work: Callable[[int], pa.Table],
    count: int,
    *,
    run: str | None = None,
    threads_at_once: int = 4,
) -> list[pa.Table]:
    with Threads(run) as threads:
        threads.hire(threads_at_once, work)
        for number in range(count):
            threads.start(work, number)
        return [result for _, result in threads.results()]


def test_all_that_was_started_is_given_and_more_may_be_started_meanwhile() -> None:
    def negative(square: pa.Table) -> pa.Table:
        return pa.table({"square": [-square["square"][0].as_py()]})

    with Threads(None) as threads:
        threads.hire(2, _square)
        threads.hire(2, negative)
        for number in range(9):
            threads.start(_square, number)
        found = []
        for work, result in threads.results():
            found += result["square"].to_pylist()
            if work is _square:
                threads.start(negative, result)
    squares = [number * number for number in range(9)]
    assert sorted(found) == sorted([*squares, *(-square for square in squares)])


def test_what_is_done_at_the_same_time_comes_in_the_order_in_which_it_was_started() -> None:
    last = threading.Event()

    def take(number: int) -> pa.Table:
        if number == 3:
            last.set()
        last.wait()
        return _square(number)

    with Threads(None) as threads:
        threads.hire(4, take)
        for number in range(4):
            threads.start(take, number)
        for future in list(threads._works):  # all of them have to be done
            future.result()
        assert [result["square"][0].as_py() for _, result in threads.results()] == [0, 1, 4, 9]


def test_an_error_ends_what_waits_for_a_reply_that_never_comes(worker: Worker) -> None:
    asked = threading.Semaphore(0)

    def ask(number: int) -> pa.Table:
        if number == 2:
            # When the others wait for their replies.
            asked.acquire()
            asked.acquire()
            raise ValueError("the third one failed")
        asked.release()
        worker.run(WordStage(), ["x"])
        return _square(number)

    with pytest.raises(ValueError, match="third"):
        _all(ask, 3, run=RUN)


def test_what_has_not_begun_when_the_run_ends_is_not_begun() -> None:
    begun: list[int] = []

    def fail(number: int) -> pa.Table:
        begun.append(number)
        raise ValueError(number)

    with pytest.raises(ValueError, match="0"):
        _all(fail, 9, threads_at_once=1)
    assert len(begun) < 9


def test_a_closed_worker_takes_nothing_and_a_run_that_is_over_gets_no_other(worker: Worker) -> None:
    spec = worker.spec
    close_workers_of(RUN, is_over=True)
    with pytest.raises(CancelledError):
        worker.run(WordStage(), ["x"])
    with pytest.raises(CancelledError):
        get_worker(spec)


def test_what_is_loaded_is_set_aside_from_the_collector_for_the_time_of_the_block() -> None:
    assert gc.get_freeze_count() == 0
    with contextlib.suppress(ZeroDivisionError), spared_collector():
        assert gc.get_freeze_count() > 0
        with spared_collector():
            pass
        assert gc.get_freeze_count() > 0
        1 / 0  # noqa: B018  # an error ends it
    assert gc.get_freeze_count() == 0


def test_what_others_have_set_aside_stays_so() -> None:
    gc.freeze()
    try:
        with spared_collector():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
