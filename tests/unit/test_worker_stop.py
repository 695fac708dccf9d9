"""The worker: a stop that stops, and what goes on after a failure."""

import asyncio
import threading
import traceback
from concurrent.futures import CancelledError

import pytest

from memorypipe.errors import (
    EndpointError,
    JournalError,
)
from memorypipe.llm.owner import Owner
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.types import Reply, Request
from memorypipe.llm.worker import Worker
from tests.support.scripted_model import ScriptedModel, WordStage
from tests.support.scripted_worker import Start, echo


def test_a_wrong_key_stops_the_job_with_one_error(start: Start) -> None:
    worker, model = start(lambda *_: EndpointError("wrong key"), max_concurrency=4, max_retries=9)
    with pytest.raises(EndpointError, match="wrong key"):
        worker.run(WordStage(), [f"task {n}" for n in range(100)])
    assert len(model.requests) <= 4, "only what was in flight"


def test_after_a_reset_the_endpoint_is_tried_again(start: Start) -> None:
    worker, _ = start(lambda request, n: EndpointError("wrong key") if n == 1 else echo(request, n))
    with pytest.raises(EndpointError):
        worker.run(WordStage(), ["a"])
    with pytest.raises(EndpointError):
        worker.run(WordStage(), ["a"])
    worker.reset()
    assert worker.run(WordStage(), ["a"])[0].status == "ok"


def test_an_endpoint_that_has_answered_may_fail_and_the_key_is_read_again(start: Start) -> None:
    worker, model = start(
        lambda request, n: EndpointError("restarting") if n == 2 else echo(request, n),
        max_retries=1,
        max_concurrency=1,
    )
    outcomes = worker.run(WordStage(), ["a", "b", "c"])
    assert [outcome.status for outcome in outcomes] == ["ok", "ok", "ok"]
    assert model.refreshed == 1


def test_closing_closes_the_model(start: Start) -> None:
    worker, model = start(echo)
    worker.run(WordStage(), ["a"])
    worker.close()
    assert model.closed


def test_a_key_is_read_again_after_a_401_without_any_retry_left(start: Start) -> None:
    error = EndpointError("expired", status=401)
    worker, model = start(
        lambda request, n: error if 1 < n <= 5 else echo(request, n), max_concurrency=4
    )
    worker.run(WordStage(), ["first"])
    worker.run(WordStage(), ["a", "b", "c", "d"])
    assert model.refreshed == 1, "once for all that failed with the same key"


def test_an_unexpected_error_stops_everything_that_is_queued(start: Start) -> None:
    worker, model = start(
        lambda request, n: OSError("disk full") if n == 3 else echo(request, n), max_concurrency=2
    )
    with pytest.raises(OSError, match="disk full"):
        worker.run(WordStage(), [f"task {n}" for n in range(100)])
    sent = len(model.requests)
    worker.run(WordStage(), ["one more"])
    assert len(model.requests) == sent + 1 <= 8


def test_closing_ends_what_is_under_way() -> None:
    never = asyncio.Event()

    class Hanging(ScriptedModel):
        async def complete(self, request: Request) -> Reply:
            self.requests.append(request)
            started.set()
            await never.wait()
            raise AssertionError("it never comes")

    started = threading.Event()
    model = Hanging(echo)
    worker = Worker(ModelSpec(base_url="http://localhost:1/v1", model="m"), model=model)
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            worker.run(WordStage(), ["x"])
        except BaseException as error:  # noqa: BLE001  # what it is, is the question
            ended.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert started.wait(10)
    worker.close()
    waiting.join(10)
    assert [type(error) for error in ended] == [CancelledError]


def test_when_the_process_that_wants_the_replies_has_ended_nothing_more_is_sent(
    start: Start,
) -> None:
    worker, model = start(echo)
    owner = Owner.current()
    worker.serve(owner)
    assert worker.run(WordStage(), ["x"])[0].status == "ok"
    owner.pid = 2**22 + 1  # beyond the greatest process id
    (outcome,) = worker.run(WordStage(), ["y"])
    assert (outcome.status, outcome.attempts, len(model.requests)) == ("llm_error", 0, 1)


def test_the_error_of_a_given_up_endpoint_does_not_grow_with_those_who_meet_it(
    start: Start,
) -> None:
    worker, _ = start(lambda *_: EndpointError("wrong key", status=401), max_concurrency=8)

    def shown() -> int:
        with pytest.raises(EndpointError, match="wrong key") as caught:
            worker.run(WordStage(), [f"task {n}" for n in range(50)])
        assert caught.value.status == 401
        return len("".join(traceback.format_exception(caught.value)))

    first = shown()
    assert [shown() <= first for _ in range(5)] == [True] * 5


def test_a_key_source_that_fails_for_a_moment_costs_no_row_its_attempts(start: Start) -> None:
    worker, model = start(
        lambda request, n: EndpointError("expired", status=401) if n == 2 else echo(request, n),
        max_retries=2,
        max_concurrency=1,
    )

    async def fails() -> None:
        model.refreshed += 1
        raise EndpointError("the command failed")

    model.refresh_key = fails  # type: ignore[method-assign]
    outcomes = worker.run(WordStage(), ["a", "b", "c"])
    assert [outcome.status for outcome in outcomes] == ["ok"] * 3
    assert model.refreshed == 1


def test_closing_waits_for_replies_on_their_way_to_a_store_and_closes_everything(
    start: Start,
) -> None:
    worker, model = start(echo, journal="memory://closing/journal")
    worker.run(WordStage(), ["x"])

    async def break_flush() -> None:
        raise JournalError("the store is down")

    worker._journal.flush = break_flush  # type: ignore[method-assign,union-attr]
    worker.close()
    assert model.closed
    assert not worker._thread.is_alive()
