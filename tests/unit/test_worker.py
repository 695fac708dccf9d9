"""The worker: one attempt budget, and what a bad reply leads to."""

import asyncio

import pytest

from memorypipe.errors import (
    RejectedRequestError,
)
from memorypipe.llm.types import Reply, Request
from tests.support.scripted_model import WordStage, content, said
from tests.support.scripted_worker import BUSY, HalfStage, Start, cut_long, echo, half_done


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
    all_there = asyncio.Barrier(7)

    async def answer(request: Request, number: int) -> Reply:
        if number <= 7:
            async with asyncio.timeout(30):
                await all_there.wait()
        return echo(request, number)

    worker, model = start(answer, max_concurrency=7)
    outcomes = worker.run(WordStage(), [f"task {n}" for n in range(100)], portion=portion)
    assert {outcome.status for outcome in outcomes} == {"ok"}
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


def test_what_is_left_undecided_is_asked_again_with_the_error(start: Start) -> None:
    worker, model = start(half_done, max_retries=1)
    (outcome,) = worker.run(HalfStage(), ["x"])
    assert (outcome.value, outcome.status) == (("all", "done"), "ok")
    assert len(model.requests) == 2


def test_the_best_reading_is_kept_when_a_later_one_is_worse(start: Start) -> None:
    worker, _ = start(lambda _, n: said("half") if n == 1 else said("[bad"), max_retries=1)
    (outcome,) = worker.run(HalfStage(), ["x"])
    assert (outcome.value, outcome.status) == (("half",), "incomplete")


def test_items_of_a_cut_reply_outlive_halves_that_cannot_be_read(start: Start) -> None:
    def script(_: Request, number: int) -> Reply:
        return said("one two three", finish_reason="length") if number == 1 else said("[bad")

    worker, _ = start(script, max_retries=4)
    (outcome,) = worker.run(WordStage(), ["one two three four"])
    assert (outcome.value, outcome.status) == (("one", "two"), "truncated")


def test_a_model_that_says_the_same_bad_thing_twice_is_not_asked_again(start: Start) -> None:
    worker, model = start(lambda *_: said(""), max_retries=5)
    (outcome,) = worker.run(WordStage(), ["x"])
    assert (outcome.status, len(model.requests)) == ("parse_error", 2)


def test_what_could_be_read_outlives_a_correction_that_fails(start: Start) -> None:
    worker, _ = start(
        lambda _, n: said("half") if n == 1 else RejectedRequestError("no"), max_retries=1
    )
    (outcome,) = worker.run(HalfStage(), ["x"])
    assert (outcome.status, outcome.value) == ("incomplete", ("half",))
