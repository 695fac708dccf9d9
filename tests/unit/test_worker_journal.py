"""The worker and its journal: one reply per request, now and in later runs."""

import asyncio
import traceback
from pathlib import Path

import orjson

from memorypipe.errors import (
    RejectedRequestError,
)
from memorypipe.llm.types import Reply, Request
from tests.support.scripted_model import WordStage, content, said
from tests.support.scripted_worker import BUSY, HalfStage, Start, cut_long, echo


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


def test_an_incomplete_reply_answers_no_later_run(start: Start, tmp_path: Path) -> None:
    first, _ = start(lambda *_: said("half"), journal=str(tmp_path))
    assert first.run(HalfStage(), ["x"])[0].status == "incomplete"
    second, model = start(lambda *_: said("all done"), journal=str(tmp_path))
    assert second.run(HalfStage(), ["x"])[0].status == "ok"
    assert len(model.requests) == 1


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
