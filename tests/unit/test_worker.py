"""The worker: one attempt budget, one reply per request, a stop that stops."""

import asyncio
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from memorypipe.errors import (
    EndpointError,
    JournalError,
    RejectedRequestError,
    RetryableModelError,
)
from memorypipe.llm.owner import Owner
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.stage import Reading
from memorypipe.llm.types import Reply, Request
from memorypipe.llm.worker import Worker
from tests.support.scripted_model import ScriptedModel, WordStage, content, said

Start = Callable[..., tuple[Worker, ScriptedModel]]
BUSY = RetryableModelError("busy", "http_503", 0.0)


@pytest.fixture
def start() -> Iterator[Start]:
    """Start workers over scripted models; all are closed at the end."""
    workers: list[Worker] = []

    def make(script: Any, **spec: Any) -> tuple[Worker, ScriptedModel]:
        model = ScriptedModel(script)
        described = ModelSpec(base_url="http://localhost:1/v1", model="m", **spec)
        workers.append(Worker(described, model=model))
        return workers[-1], model

    yield make
    for worker in workers:
        worker.close()


def echo(request: Request, _number: int) -> Reply:
    return said(content(request))


def test_outcomes_come_in_the_order_of_the_tasks(start: Start) -> None:
    worker, model = start(echo, max_concurrency=7)
    tasks = [f"task {n}" for n in range(50)]
    outcomes = worker.run(WordStage(), tasks)
    assert [" ".join(outcome.value or ()) for outcome in outcomes] == tasks
    assert len(model.requests) == 50


@pytest.mark.parametrize("portion", [1, 4, 100])
def test_concurrency_is_used_up_and_never_passed_whatever_the_portion(
    start: Start, portion: int
) -> None:
    worker, model = start(echo, max_concurrency=7)
    worker.run(WordStage(), [f"task {n}" for n in range(100)], portion=portion)
    assert model.max_in_flight == 7


def test_no_tasks_need_nothing(start: Start) -> None:
    worker, model = start(echo)
    assert worker.run(WordStage(), []) == []
    assert model.requests == []


def test_a_failure_that_may_pass_is_tried_again_within_the_budget(start: Start) -> None:
    worker, model = start(lambda request, n: BUSY if n < 3 else echo(request, n), max_retries=2)
    (outcome,) = worker.run(WordStage(), ["hello there"])
    assert (outcome.status, outcome.attempts, len(model.requests)) == ("ok", 3, 3)
    assert outcome.failures == (("http_503", 2),)


def test_a_used_up_budget_is_an_error_and_no_empty_result(start: Start) -> None:
    worker, model = start(lambda *_: BUSY, max_retries=2)
    (outcome,) = worker.run(WordStage(), ["hello"])
    assert (outcome.value, outcome.status) == (None, "llm_error")
    assert outcome.error == "RetryableModelError: busy"
    assert len(model.requests) == 3


def test_a_rejected_request_is_final_for_its_row_alone(start: Start) -> None:
    def script(request: Request, n: int) -> Reply | Exception:
        return RejectedRequestError("too long") if "long" in content(request) else echo(request, n)

    worker, model = start(script, max_retries=5)
    outcomes = worker.run(WordStage(), ["a long one", "a good one"])
    assert [outcome.status for outcome in outcomes] == ["llm_error", "ok"]
    assert len(model.requests) == 2


def test_a_bad_reply_is_told_to_the_model(start: Start) -> None:
    worker, model = start(lambda _, n: said("[bad") if n == 1 else said("fine"), max_retries=1)
    (outcome,) = worker.run(WordStage(), ["hello"])
    assert "it stands in brackets" in content(model.requests[1])
    assert (outcome.status, outcome.attempts) == ("ok", 2)
    assert outcome.prompt_tokens == 2, "the bad reply was paid for too"


def test_transport_retries_and_corrections_share_one_budget(start: Start) -> None:
    worker, model = start(lambda _, n: BUSY if n % 2 else said("[bad"), max_retries=3)
    (outcome,) = worker.run(WordStage(), ["hello"])
    assert (outcome.status, len(model.requests)) == ("parse_error", 4)
    assert outcome.raw_reply == "[bad"


def cut_long(request: Request, _number: int) -> Reply:
    """Cut what is longer than two words."""
    words = content(request).split()
    return said(" ".join(words[:2]), finish_reason="length" if len(words) > 2 else "stop")


def test_a_reply_that_was_cut_is_asked_for_in_halves(start: Start) -> None:
    worker, model = start(cut_long, max_retries=6)
    (outcome,) = worker.run(WordStage(), ["one two three four"])
    assert (outcome.value, outcome.status) == (("one", "two", "three", "four"), "ok")
    assert [content(request) for request in model.requests] == [
        "one two three four",
        "one two",
        "three four",
    ]


@pytest.mark.parametrize("max_retries", [0, 1])
def test_without_a_budget_for_both_halves_the_complete_items_are_kept(
    start: Start, max_retries: int
) -> None:
    worker, model = start(cut_long, max_retries=max_retries)
    (outcome,) = worker.run(WordStage(), ["one two three four"])
    assert (outcome.value, outcome.status, len(model.requests)) == (("one",), "truncated", 1)


def test_halves_never_pass_the_budget(start: Start) -> None:
    worker, model = start(cut_long, max_retries=2)
    (outcome,) = worker.run(WordStage(), [" ".join("abcdefgh")])
    assert (outcome.status, len(model.requests)) == ("truncated", 3)


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


def test_a_schema_that_the_server_rejects_is_left_out_from_then_on(start: Start) -> None:
    def script(request: Request, n: int) -> Reply | Exception:
        if "response_format" in request.params:
            return RejectedRequestError("unknown response_format", rejects_schema=True)
        return echo(request, n)

    worker, model = start(script, max_concurrency=1)
    outcomes = worker.run(WordStage(), ["a", "b"])
    assert [(outcome.status, outcome.attempts) for outcome in outcomes] == [("ok", 1), ("ok", 1)]
    assert len(model.requests) == 3


def test_the_callers_own_response_format_is_never_left_out(start: Start) -> None:
    error = RejectedRequestError("unknown response_format", rejects_schema=True)
    worker, model = start(lambda *_: error, params={"response_format": {"type": "json_object"}})
    (outcome,) = worker.run(WordStage(), ["a"])
    assert (outcome.status, len(model.requests)) == ("llm_error", 1)
    assert model.requests[0].params["response_format"] == {"type": "json_object"}


def test_what_the_journal_knows_is_not_asked_again(start: Start, tmp_path: Path) -> None:
    first, _ = start(echo, journal=str(tmp_path))
    first.run(WordStage(), ["a b", "c"])
    again, model = start(echo, journal=str(tmp_path))
    outcomes = again.run(WordStage(), ["a b", "c", "d"])
    assert [(outcome.cached, outcome.attempts) for outcome in outcomes] == [
        (True, 0),
        (True, 0),
        (False, 1),
    ]
    assert outcomes[0].value == ("a", "b")
    assert len(model.requests) == 1


def test_equal_requests_in_flight_are_sent_once_and_both_get_the_reply(
    start: Start, tmp_path: Path
) -> None:
    worker, model = start(echo, journal=str(tmp_path))
    outcomes = worker.run(WordStage(), ["same"] * 5)
    assert [outcome.value for outcome in outcomes] == [("same",)] * 5
    assert len(model.requests) == 1


def test_equal_requests_in_flight_share_a_failure_too(start: Start, tmp_path: Path) -> None:
    worker, model = start(lambda *_: RejectedRequestError("no"), journal=str(tmp_path))
    outcomes = worker.run(WordStage(), ["same"] * 5)
    assert [outcome.status for outcome in outcomes] == ["llm_error"] * 5
    assert len(model.requests) == 1


def test_a_bad_reply_is_not_served_from_the_journal(start: Start, tmp_path: Path) -> None:
    bad, _ = start(lambda *_: said("[bad"), journal=str(tmp_path))
    assert bad.run(WordStage(), ["a"])[0].status == "parse_error"
    good, _ = start(echo, journal=str(tmp_path))
    assert good.run(WordStage(), ["a"])[0].status == "ok"


def test_a_resumed_run_splits_as_the_first_one_did(start: Start, tmp_path: Path) -> None:
    first, _ = start(cut_long, journal=str(tmp_path), max_retries=6)
    (before,) = first.run(WordStage(), [" ".join("abcdefgh")])
    again, model = start(cut_long, journal=str(tmp_path), max_retries=6)
    (after,) = again.run(WordStage(), [" ".join("abcdefgh")])
    assert (after.value, after.status) == (before.value, before.status) == (tuple("abcdefgh"), "ok")
    assert model.requests == []


def test_a_later_run_goes_on_where_the_attempts_of_the_one_before_ended(
    start: Start, tmp_path: Path
) -> None:
    task, sent, statuses = " ".join("abcdefgh"), [], []
    for _ in range(3):
        worker, model = start(cut_long, journal=str(tmp_path), max_retries=2)
        statuses.append(worker.run(WordStage(), [task])[0].status)
        sent.append([content(request) for request in model.requests])
    assert statuses == ["truncated", "truncated", "ok"]
    assert sent == [[task, "a b c d", "e f g h"], ["a b", "c d"], ["e f", "g h"]]


def test_a_cut_reply_that_leads_nowhere_is_asked_for_again_by_the_next_run(
    start: Start, tmp_path: Path
) -> None:
    first, _ = start(
        lambda *_: said("one two", finish_reason="length"), journal=str(tmp_path), max_retries=2
    )
    assert first.run(WordStage(), ["word"])[0].status == "truncated", "one word has no halves"
    second, model = start(echo, journal=str(tmp_path), max_retries=2)
    assert second.run(WordStage(), ["word"])[0].status == "ok"
    third, silent = start(echo, journal=str(tmp_path), max_retries=2)
    assert third.run(WordStage(), ["word"])[0].status == "ok", "the whole reply is found, not both"
    assert (len(model.requests), len(silent.requests)) == (1, 0)


def test_closing_closes_the_model(start: Start) -> None:
    worker, model = start(echo)
    worker.run(WordStage(), ["a"])
    worker.close()
    assert model.closed


def half_done(request: Request, number: int) -> Reply:
    """Leave the task half done until it is told."""
    return said("all done") if "wrong" in str(content(request)) or number > 9 else said("half")


class HalfStage(WordStage):
    """A task is done only where the model says so; half of it is kept."""

    def read(self, task: str, reply: Reply) -> Reading[tuple[str, ...]]:
        reading = super().read(task, reply)
        if reply.content == "half":
            return replace(reading, status="incomplete", error="half is missing, that is wrong")
        return reading


def test_what_is_left_undecided_is_asked_again_with_the_error(start: Start) -> None:
    worker, model = start(half_done, max_retries=1)
    (outcome,) = worker.run(HalfStage(), ["x"])
    assert (outcome.value, outcome.status) == (("all", "done"), "ok")
    assert len(model.requests) == 2


def test_the_best_reading_is_kept_when_a_later_one_is_worse(start: Start) -> None:
    worker, _ = start(lambda _, n: said("half") if n == 1 else said("[bad"), max_retries=1)
    (outcome,) = worker.run(HalfStage(), ["x"])
    assert (outcome.value, outcome.status) == (("half",), "incomplete")


def test_an_incomplete_reply_answers_no_later_run(start: Start, tmp_path: Path) -> None:
    first, _ = start(lambda *_: said("half"), journal=str(tmp_path))
    assert first.run(HalfStage(), ["x"])[0].status == "incomplete"
    second, model = start(lambda *_: said("all done"), journal=str(tmp_path))
    assert second.run(HalfStage(), ["x"])[0].status == "ok"
    assert len(model.requests) == 1


def test_items_of_a_cut_reply_outlive_halves_that_cannot_be_read(start: Start) -> None:
    def script(_: Request, number: int) -> Reply:
        return said("one two three", finish_reason="length") if number == 1 else said("[bad")

    worker, _ = start(script, max_retries=4)
    (outcome,) = worker.run(WordStage(), ["one two three four"])
    assert (outcome.value, outcome.status) == (("one", "two"), "truncated")


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


def test_an_equal_request_outlives_the_cancelling_of_the_first_one(
    start: Start, tmp_path: Path
) -> None:
    sent, answer = asyncio.Event(), asyncio.Event()

    async def when_told(request: Request, _number: int) -> Reply:
        sent.set()
        await answer.wait()
        return said(content(request))

    worker, model = start(when_told, journal=str(tmp_path))

    async def both() -> str:
        first = asyncio.ensure_future(worker.answer(WordStage(), "the same"))
        second = asyncio.ensure_future(worker.answer(WordStage(), "the same"))
        await sent.wait()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        answer.set()
        return (await second).status

    assert worker.wait(both()) == "ok"
    assert len(model.requests) == 1


def test_a_request_that_nobody_waits_for_any_more_is_called_off(
    start: Start, tmp_path: Path
) -> None:
    sent, called_off = asyncio.Event(), asyncio.Event()

    async def never(_request: Request, _number: int) -> Reply:
        sent.set()
        try:
            await asyncio.Event().wait()
        finally:
            called_off.set()
        raise AssertionError

    worker, _ = start(never, journal=str(tmp_path))

    async def give_up() -> None:
        task = asyncio.ensure_future(worker.answer(WordStage(), "x"))
        await sent.wait()
        task.cancel()
        await asyncio.wait_for(called_off.wait(), timeout=10)

    worker.wait(give_up())


def test_what_the_endpoint_rejected_for_good_is_not_sent_again(
    start: Start, tmp_path: Path
) -> None:
    worker, model = start(lambda *_: RejectedRequestError("no"), journal=str(tmp_path))
    outcomes = [worker.run(WordStage(), ["x"])[0] for _ in range(3)]
    assert {outcome.status for outcome in outcomes} == {"llm_error"}
    assert len(model.requests) == 1


def test_a_model_that_says_the_same_bad_thing_twice_is_not_asked_again(start: Start) -> None:
    worker, model = start(lambda *_: said(""), max_retries=5)
    (outcome,) = worker.run(WordStage(), ["x"])
    assert (outcome.status, len(model.requests)) == ("parse_error", 2)


def test_with_journal_only_nothing_is_sent_and_what_is_missing_says_so(
    start: Start, tmp_path: Path
) -> None:
    paying, _ = start(echo, journal=str(tmp_path))
    paying.run(WordStage(), ["known words"])
    replaying, model = start(echo, journal=str(tmp_path), journal_only=True)
    known, unknown = replaying.run(WordStage(), ["known words", "unknown"])
    assert (known.status, known.cached) == ("ok", True)
    assert (unknown.status, unknown.attempts) == ("llm_error", 0)
    assert (unknown.error or "").startswith("JournalMissError: The journal")
    assert model.requests == []


def test_journal_only_repeats_a_run_with_its_bad_replies(start: Start, tmp_path: Path) -> None:
    def second_try(request: Request, number: int) -> Reply:
        return said("") if number == 1 else said(content(request))

    paying, _ = start(second_try, journal=str(tmp_path), max_retries=1)
    (first,) = paying.run(WordStage(), ["x"])
    replaying, model = start(second_try, journal=str(tmp_path), max_retries=1, journal_only=True)
    (again,) = replaying.run(WordStage(), ["x"])
    assert (again.status, again.value, again.failures) == (
        first.status,
        first.value,
        first.failures,
    )
    assert model.requests == []


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


def test_a_snapshot_counts_what_was_sent_failed_and_served(start: Start, tmp_path: Path) -> None:
    worker, _ = start(
        lambda request, n: BUSY if n == 1 else echo(request, n),
        journal=str(tmp_path),
        max_retries=1,
    )
    worker.run(WordStage(), ["x"])
    worker.run(WordStage(), ["x"])
    counted = worker.snapshot()
    assert (counted["attempts"], counted["replies"], counted["journal_hits"]) == (2, 1, 1)
    assert (counted["failures"], counted["in_flight"]) == ({"http_503": 1}, 0)


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


def test_a_corrected_row_is_not_paid_again(start: Start, tmp_path: Path) -> None:
    """The bad reply is served too, since the journal knows what its correction led to."""

    def bad_at_first(_request: Request, number: int) -> Reply:
        return said("[bad]") if number == 1 else said("good words")

    first, _ = start(bad_at_first, journal=str(tmp_path), max_retries=1)
    paid = first.run(WordStage(), ["x"])[0]
    again, model = start(bad_at_first, journal=str(tmp_path), max_retries=1)
    served = again.run(WordStage(), ["x"])[0]
    assert (served.value, served.status, served.failures) == (paid.value, "ok", paid.failures)
    assert (served.cached, model.requests) == (True, [])


def test_what_could_be_read_outlives_a_correction_that_fails(start: Start) -> None:
    worker, _ = start(
        lambda _, n: said("half") if n == 1 else RejectedRequestError("no"), max_retries=1
    )
    (outcome,) = worker.run(HalfStage(), ["x"])
    assert (outcome.status, outcome.value) == ("incomplete", ("half",))


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


def test_whoever_joins_a_request_that_is_called_off_sends_its_own(
    start: Start, tmp_path: Path
) -> None:
    sent = asyncio.Event()

    async def first_hangs(request: Request, number: int) -> Reply:
        sent.set()
        if number == 1:
            await asyncio.Event().wait()
        return said(content(request))

    worker, _ = start(first_hangs, journal=str(tmp_path))

    async def both() -> str:
        first = asyncio.ensure_future(worker.answer(WordStage(), "same"))
        await sent.wait()
        first.cancel()
        # The first wait ends in the next turn of the loop; the request itself later.
        await asyncio.sleep(0)
        return (await worker.answer(WordStage(), "same")).status

    assert worker.wait(both()) == "ok"


def test_rejections_shared_by_many_rows_do_not_grow_and_a_reset_forgets_them(
    start: Start, tmp_path: Path
) -> None:
    is_mended = False

    def rejects(request: Request, number: int) -> Reply | Exception:
        return echo(request, number) if is_mended else RejectedRequestError("no")

    worker, _ = start(rejects, journal=str(tmp_path))
    worker.run(WordStage(), ["x"] * 300)
    (known,) = worker._caller._rejected.values()
    assert len(list(traceback.walk_tb(known.__traceback__))) < 20
    is_mended = True
    worker.reset()
    assert worker.run(WordStage(), ["x"])[0].status == "ok"


def test_the_journal_knows_whose_data_a_reply_holds(start: Start, tmp_path: Path) -> None:
    worker, _ = start(echo, journal=str(tmp_path))
    worker.run(WordStage(), ["x", "y"], scope_keys=["ann", None])
    worker.close()
    written = "".join(path.read_text() for path in tmp_path.glob("*.jsonl"))
    lines = [orjson.loads(line) for line in written.splitlines()]
    assert sorted(line["scope_key"] or "" for line in lines) == ["", "ann"]


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
