"""Counts of calls add up over workers, and percentiles can be read from what was added up."""

import math
import random
import timeit
from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from memorypipe.llm.metrics import (
    WorkerMetrics,
    bucket_end_ms,
    difference,
    latencies,
    merge,
    percentile,
)
from memorypipe.llm.types import Reply


def reply(latency_ms: float = 10.0, *, tokens_in: int = 3, tokens_out: int = 2) -> Reply:
    return Reply(
        content="x",
        prompt_tokens=tokens_in,
        completion_tokens=tokens_out,
        latency_ms=latency_ms,
    )


def timed(latencies_ms: Sequence[float]) -> WorkerMetrics:
    metrics = WorkerMetrics()
    for latency_ms in latencies_ms:
        metrics.replied(reply(latency_ms), 0.0)
    return metrics


def test_every_kind_of_event_has_its_own_count() -> None:
    metrics = WorkerMetrics()
    metrics.miss()
    metrics.sent()
    metrics.failed("timeout", 50.0)
    metrics.sent()
    metrics.replied(reply(10.0), 0.25)
    metrics.hit()
    found = metrics.snapshot()
    assert {name: found[name] for name in found if name != "latency_ms"} == {
        "attempts": 2,
        "replies": 1,
        "journal_hits": 1,
        "journal_misses": 1,
        "tokens_in": 3,
        "tokens_out": 2,
        "cost": 0.25,
        "failures": {"timeout": 1},
        "total_latency_ms": 60.0,
        "max_latency_ms": 50.0,
    }
    assert sum(found["latency_ms"].values()) == 2


def test_a_snapshot_is_a_copy_of_json_values() -> None:
    metrics = timed([1.0])
    before = metrics.snapshot()
    assert orjson.loads(orjson.dumps(before)) == before
    metrics.failed("timeout", 2.0)
    assert before["failures"] == {}
    assert sum(before["latency_ms"].values()) == 1


def test_merging_counts_what_one_worker_would_have_counted() -> None:
    dice = random.Random(5)  # noqa: S311  # a test's dice
    seen = [dice.lognormvariate(5, 1) for _ in range(500)]
    parts = [timed(seen[:200]).snapshot(), timed(seen[200:]).snapshot()]
    merged, whole = merge(parts), timed(seen).snapshot()
    assert merged.pop("total_latency_ms") == pytest.approx(whole.pop("total_latency_ms"))
    assert merged == whole
    assert merge(reversed(parts)) == merge(parts)
    assert merge([]) == {}


def test_a_number_that_somebody_adds_to_a_snapshot_is_merged_too() -> None:
    parts: list[dict[str, Any]] = [
        {"waited_s": {"qps": 1.5}, "max_in_flight": 4},
        {"waited_s": {"qps": 0.5, "tokens": 2.0}, "max_in_flight": 7},
    ]
    assert merge(parts) == {"waited_s": {"qps": 2.0, "tokens": 2.0}, "max_in_flight": 7}
    assert parts[0]["waited_s"] == {"qps": 1.5}, "what is merged stays as it is"


def test_what_came_between_two_snapshots_is_what_a_worker_started_then_would_have_counted() -> None:
    metrics = timed([5.0, 900.0])
    metrics.failed("timeout", 8.0)
    before = metrics.snapshot()
    metrics.replied(reply(20.0), 0.5)
    metrics.failed("http_500", 30.0)
    part = difference(metrics.snapshot(), before)
    assert (part["replies"], part["cost"], part["failures"]) == (1, 0.5, {"http_500": 1})
    assert sum(part["latency_ms"].values()) == 2
    assert merge([before, part]) == metrics.snapshot()
    assert latencies(part)["max"] == pytest.approx(30.0, rel=0.05), "not the 900 from before"


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_are_at_most_five_percent_off(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311  # a test's dice
    seen = sorted(dice.lognormvariate(6, 1.5) for _ in range(2_000))
    buckets = timed(seen).snapshot()["latency_ms"]
    for share in (0.01, 0.5, 0.9, 0.99, 1.0):
        true_ms = seen[math.ceil(share * len(seen)) - 1]
        assert percentile(buckets, share) == pytest.approx(true_ms, rel=0.05)


def test_latencies_for_people_are_exact_where_there_is_only_one() -> None:
    found = latencies(timed([123.0]).snapshot())
    assert found == pytest.approx({"p50": 123, "p90": 123, "p99": 123, "max": 123}, rel=0.05)
    assert max(found.values()) == found["max"] == 123.0
    assert latencies(timed([100.0, 250.0]).snapshot())["max"] == 250.0
    assert latencies(WorkerMetrics().snapshot()) == {}
    assert percentile({}, 0.5) is None


def test_latencies_beyond_all_buckets_are_in_the_outermost() -> None:
    found = timed([1e-9, 1e12]).snapshot()["latency_ms"]
    assert len(found) == 2
    assert latencies(timed([1e12]).snapshot())["max"] == 1e12


def test_what_took_no_time_was_not_sent_and_is_no_latency() -> None:
    metrics = WorkerMetrics()
    metrics.failed("BudgetError", 0.0)
    assert metrics.snapshot()["latency_ms"] == {}


@pytest.mark.parametrize("number", range(-20, 160, 7))
def test_the_end_of_a_bucket_is_the_greatest_latency_that_it_counts(number: int) -> None:
    end_ms = bucket_end_ms(number)
    found = [int(n) for n in timed([end_ms * 0.999, end_ms * 1.001]).snapshot()["latency_ms"]]
    assert sorted(found) == [number, number + 1]


def test_counting_a_reply_takes_a_few_microseconds() -> None:
    metrics, one = WorkerMetrics(), reply(123.4)
    best_s = min(timeit.repeat(lambda: metrics.replied(one, 0.1), number=2_000, repeat=5)) / 2_000
    assert best_s < 30e-6, "ten times what it takes, since the machine may be busy"
