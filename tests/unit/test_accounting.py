"""What a run cost is what its workers counted; the rows tell what became of each task."""

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import orjson
import pyarrow as pa
import pytest

from memorypipe.llm.limits.control import Bounds
from memorypipe.llm.metrics import WorkerMetrics
from memorypipe.llm.types import Reply
from memorypipe.pipeline.runs.accounting import Accounts, call_totals, fact_totals
from memorypipe.schema import FACTS


def told(**values: Any) -> dict[str, Any]:
    """What a coordinator might tell."""
    common = {"workers": {}, "in_flight": [], "calls": 0, "tokens": 0, "cost": 0.0}
    return {**common, "bound": None, "reason": None, **values}


def facts(*rows: dict[str, Any]) -> pa.Table:
    common = {
        "scope": {},
        "scope_key": "[]",
        "conversation_id": "c",
        "window_id": "w",
        "window_index": 0,
        "message_ids": [],
        "message_times": [],
        "facts_json": '{"memories": [{"text": "a"}, {"text": "b"}]}',
        "status": "ok",
        "attempts": 1,
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "latency_ms": 1.0,
        "cached": False,
        "repaired": 0,
        "dropped_items": 0,
    }
    return pa.Table.from_pylist([{**common, **row} for row in rows], schema=FACTS)


def failed(error: str, *, attempts: int = 1) -> dict[str, Any]:
    return {"facts_json": None, "status": "llm_error", "error": error, "attempts": attempts}


def call(**values: Any) -> str:
    common = {
        "status": "ok",
        "attempts": 1,
        "cached": False,
        "prompt_tokens": 5,
        "completion_tokens": 1,
        "failures": {},
    }
    return orjson.dumps({**common, **values}).decode()


def accounts(*, max_calls: int | None = None, has_prices: bool = False) -> Accounts:
    return Accounts(bounds=Bounds(max_calls=max_calls), has_prices=has_prices)


def worked(*, replies: int = 0, failures: int = 0) -> dict[str, Any]:
    metrics = WorkerMetrics()
    for _ in range(replies):
        metrics.sent()
        metrics.replied(Reply(content="", prompt_tokens=100, latency_ms=50.0), 0.5)
    for _ in range(failures):
        metrics.sent()
        metrics.failed("http_500", 20.0)
    return {**metrics.snapshot(), "waited_s": {"qps": 0.5}, "max_in_flight": replies}


def test_rows_alone_tell_what_they_cost() -> None:
    rows = fact_totals(
        facts({}, {"attempts": 0, "cached": True}, failed("RetryableModelError: no", attempts=3))
    )
    assert (rows["windows"], rows["windows_new"], rows["facts"]) == (3, 2, 4)
    run = accounts()
    run.begin("extract")
    run.add_rows("extract", rows)
    found = run.summary()
    assert (found["calls"], found["attempts"], found["journal_hits"]) == (3, 4, 1)
    assert found["failures"] == {"RetryableModelError": 1}
    assert found["stages"]["extract"]["tokens_in"] == found["tokens_in"] == 30
    assert (found["cost"], found["latency_ms"], found["stopped_by"]) == (None, {}, None)


def test_flags_of_facts_and_decisions_are_counted() -> None:
    run = Accounts(bounds=Bounds(), has_prices=False)
    run.begin("extract")
    flags = [{"fact": 0, "flag": "unsupported"}, {"fact": 1, "flag": "instruction"}]
    run.add_rows(
        "extract", fact_totals(facts({"flags": flags}, {"flags": flags[:1]}, {"flags": None}))
    )
    run.begin("decide")
    run.add_rows("decide", Counter(unverified=3))
    counted = run.summary()
    assert [counted[n] for n in ("unsupported", "instructions", "unverified")] == [2, 1, 3]


def test_both_stages_count_a_reply_that_could_not_be_used_alike() -> None:
    extracted = fact_totals(facts({"status": "parse_error", "facts_json": None}))
    decided = call_totals([call(status="parse_error")])
    assert extracted["ended:parse_error"] == decided["ended:parse_error"] == 1
    assert extracted["calls"] == decided["calls"] == 1


@pytest.mark.parametrize(
    "rows",
    [
        fact_totals(facts(failed("BudgetError: max_calls", attempts=0))),
        call_totals([call(status="llm_error", attempts=0, failures={"BudgetError": 1})]),
    ],
    ids=["extract", "decide"],
)
def test_what_a_bound_kept_from_being_asked_is_a_failure_but_no_call(rows: Counter[str]) -> None:
    run = accounts()
    run.begin("stage")
    run.add_rows("stage", rows)
    found = run.summary()
    assert (found["calls"], found["failures"]) == (0, {"BudgetError": 1})


def test_what_the_workers_counted_has_the_last_word_on_attempts_tokens_and_failures() -> None:
    run = accounts(has_prices=True)
    run.begin("extract")
    run.add_rows("extract", fact_totals(facts({}, failed("BudgetError: max_calls", attempts=0))))
    run.told(told(workers={"a": worked(replies=2, failures=1), "b": worked(replies=1)}))
    found = run.summary()
    assert (found["calls"], found["attempts"], found["tokens_in"]) == (1, 4, 300)
    assert found["cost"] == 1.5
    assert found["failures"] == {"http_500": 1, "BudgetError": 1}
    assert found["waited_s"] == {"qps": 1.0}
    assert found["latency_ms"] == pytest.approx({"p50": 50, "p90": 50, "p99": 50, "max": 50}, 0.05)


def test_each_stage_has_its_own_numbers_though_a_worker_serves_both() -> None:
    run = accounts()
    run.begin("extract")
    first = told(workers={"a": worked(replies=2)}, in_flight=[(0.0, 0), (1.0, 8)])
    run.told(first)
    run.begin("decide")
    later = {"a": worked(replies=2, failures=3), "b": worked(replies=1)}
    run.told(told(workers=later, in_flight=[*first["in_flight"], (2.0, 5)]))
    found = run.summary()
    extract, decide = found["stages"]["extract"], found["stages"]["decide"]
    assert (extract["attempts"], decide["attempts"], found["attempts"]) == (2, 4, 6)
    assert (extract["failures"], decide["failures"]) == ({}, {"http_500": 3})
    assert (extract["max_in_flight"], decide["max_in_flight"]) == (8, 5)
    assert found["max_in_flight"] == 8


def test_stages_at_the_same_time_are_told_apart_by_what_their_worker_counted() -> None:
    run = accounts(has_prices=True)
    run.begin("extract", "decide")
    run.add_rows("decide", Counter(calls=3))
    run.add_rows("extract", Counter(calls=2))
    stages = {"extract": worked(replies=2), "decide": worked(replies=3, failures=1)}
    both = {**worked(replies=5, failures=1), "stages": stages}
    run.told(told(workers={"a": both}, in_flight=[(0.0, 0), (1.0, 8)]))
    found = run.summary()
    extract, decide = found["stages"]["extract"], found["stages"]["decide"]
    assert (extract["calls"], decide["calls"], found["calls"]) == (2, 3, 5)
    assert (extract["attempts"], decide["attempts"], found["attempts"]) == (2, 4, 6)
    assert (extract["cost"], decide["cost"], found["cost"]) == (1.0, 1.5, 2.5)
    assert (extract["failures"], decide["failures"]) == ({}, {"http_500": 1})
    assert (found["max_in_flight"], found["waited_s"]) == (8, {"qps": 0.5})
    assert (extract["max_in_flight"], extract["waited_s"]) == (None, None)
    assert run.extras()["latency_total_ms"] == {"extract": 100.0, "decide": 170.0}


def test_a_worker_that_did_nothing_in_a_stage_is_no_part_of_it() -> None:
    run = accounts()
    run.begin("extract")
    run.told(told(workers={"a": worked(replies=7)}))
    run.begin("decide")
    run.told(told(workers={"a": worked(replies=7), "b": worked(replies=2)}))
    assert run.summary()["stages"]["decide"]["max_in_flight"] == 2


def test_the_bound_that_stopped_a_run_is_told_with_what_was_used() -> None:
    run = accounts(max_calls=3)
    run.begin("extract")
    run.add_rows("extract", fact_totals(facts(failed("BudgetError: max_calls"))))
    run.told(told(calls=3, bound="max_calls", reason="3 of 3 calls are used"))
    assert run.summary()["stopped_by"] == {
        "bound": "max_calls",
        "limit": 3,
        "used": 3,
        "reason": "3 of 3 calls are used",
    }


def test_an_interrupt_is_no_bound_and_no_lost_coordinator() -> None:
    run = accounts(max_calls=9)
    run.begin("extract")
    run.add_rows("extract", fact_totals(facts(failed("StoppedError: interrupted", attempts=0))))
    run.told({**told(workers={}), "interrupted": "The run was interrupted."})
    assert run.summary()["stopped_by"] is None


def test_a_bound_that_kept_nothing_back_stopped_nothing() -> None:
    run = accounts(max_calls=1)
    run.begin("extract")
    run.add_rows("extract", fact_totals(facts({})))
    run.told(told(calls=1, bound="max_calls", reason="1 of 1 calls is used"))
    assert run.summary()["stopped_by"] is None


@pytest.mark.parametrize(
    "rows",
    [
        fact_totals(facts(failed("StoppedError: gone", attempts=0))),
        call_totals([call(status="llm_error", attempts=0, failures={"StoppedError": 1})]),
    ],
    ids=["extract", "decide"],
)
def test_a_run_whose_bounds_nobody_could_keep_was_stopped(rows: Counter[str]) -> None:
    run = accounts(max_calls=100)
    run.begin("stage")
    run.add_rows("stage", rows)
    run.told(told(calls=3))
    stopped_by = run.summary()["stopped_by"]
    assert (stopped_by["bound"], stopped_by["limit"]) == ("coordinator", None)
    assert "could not be reached" in stopped_by["reason"]


def test_a_bound_that_the_coordinator_could_not_tell_of_stopped_the_run_all_the_same() -> None:
    run = accounts(max_calls=3)
    run.begin("extract")
    run.add_rows("extract", fact_totals(facts(failed("BudgetError: max_calls", attempts=0))))
    stopped_by = run.summary()["stopped_by"]
    assert (stopped_by["bound"], stopped_by["limit"], stopped_by["used"]) == ("max_calls", 3, None)


@pytest.fixture
def _restless() -> Iterator[None]:
    """Threads take turns as often as they can."""
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval_s)


@pytest.mark.usefixtures("_restless")
def test_rows_may_come_in_while_another_thread_sums_up() -> None:
    run, ended = accounts(), threading.Event()
    run.begin("extract")
    run.add_rows("extract", Counter({f"ended:{number}": 1 for number in range(100)}))

    def add() -> None:
        number = 100
        while not ended.is_set() and number < 4_000:
            number += 1
            run.add_rows("extract", Counter({f"ended:{number}": 1}))

    thread = threading.Thread(target=add)
    thread.start()
    try:
        while thread.is_alive():
            run.summary()
    finally:
        ended.set()
        thread.join()


def test_what_is_kept_over_time_has_a_bounded_length_and_its_peaks() -> None:
    points = [(float(n), 99 if n == 777 else 1) for n in range(5_000)]
    run = accounts()
    run.begin("extract")
    run.told(told(in_flight=points, workers={"a": worked(replies=1)}))
    extras = run.extras()
    assert len(extras["in_flight"]) <= 500
    assert (777.0, 99) in extras["in_flight"]
    assert extras["latency_buckets"]["extract"] == worked(replies=1)["latency_ms"]


def test_a_run_with_nothing_to_do_has_accounts_too() -> None:
    run = accounts()
    run.told(told())
    assert run.summary()["calls"] == 0
    assert run.extras()["in_flight"] == []
