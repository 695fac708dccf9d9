"""The metrics of a run are OpenMetrics text that a parser of the format takes."""

from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from memorypipe.llm.metrics import WorkerMetrics
from memorypipe.pipeline.runs.open_metrics import open_metrics
from memorypipe.pipeline.runs.summary import RunSummary

_NUMBERS: dict[str, Any] = {
    "calls": 4,
    "attempts": 5,
    "journal_hits": 1,
    "failures": {"http_500": 2, 'a "b"\\\n': 1},
    "tokens_in": 30,
    "tokens_out": 7,
    "cost": 0.25,
    "latency_ms": {"p50": 10.0},
    "waited_s": {"qps": 1.5},
    "max_in_flight": 3,
}


def _record(**values: Any) -> dict[str, Any]:
    metrics = WorkerMetrics()
    for latency_ms in (5.0, 10.0, 2_000.0):
        metrics.failed("x", latency_ms)
    summary = RunSummary(
        run_id="run_1",
        status="running",
        windows=9,
        model='the "best"\\model\n',
        max_in_flight=3,
        stages={"extract": _NUMBERS, "decide": {**_NUMBERS, "cost": None, "failures": {}}},
    )
    return {
        **summary.to_dict(),
        "heartbeat_at": datetime(2025, 1, 1, tzinfo=UTC).isoformat(),
        "windows_done": 4,
        "in_flight": [[0.5, 2], [1.0, 1]],
        "latency_buckets": {"extract": metrics.snapshot()["latency_ms"], "decide": {}},
        "latency_total_ms": {"extract": 2_015.0, "decide": 0.0},
        **values,
    }


def _samples(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    families = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]  # no types there
    return {
        (sample.name, tuple(v for k, v in sample.labels.items() if k != "run_id")): sample.value
        for family in families
        for sample in family.samples
    }


def test_every_count_arrives_with_its_labels() -> None:
    text = open_metrics(_record())
    assert text.endswith("\n# EOF\n")
    found = _samples(text)
    assert found["memorypipe_calls_total", ("extract",)] == 4
    assert found["memorypipe_attempts_total", ("decide",)] == 5
    assert found["memorypipe_failures_total", ("extract", "http_500")] == 2
    assert found["memorypipe_tokens_total", ("extract", "out")] == 7
    assert found["memorypipe_cost_total", ("extract",)] == 0.25
    assert ("memorypipe_cost_total", ("decide",)) not in found, "no price, no cost"
    assert found["memorypipe_waited_seconds_total", ("extract", "qps")] == 1.5
    assert found["memorypipe_windows", ("cut",)] == 9
    assert found["memorypipe_windows", ("done",)] == 4
    assert found["memorypipe_in_flight", ()] == 1
    assert found["memorypipe_max_in_flight", ()] == 3
    assert found["memorypipe_heartbeat_timestamp_seconds", ()] == 1_735_689_600
    assert found["memorypipe_paused", ()] == 0
    assert _samples(open_metrics(_record(paused="most fail")))["memorypipe_paused", ()] == 1


def test_texts_with_quotes_and_line_breaks_come_back_unchanged() -> None:
    found = _samples(open_metrics(_record()))
    assert ("memorypipe_failures_total", ("extract", 'a "b"\\\n')) in found
    assert ("memorypipe_run_info", ("running", 'the "best"\\model\n')) in found


def test_latencies_are_a_histogram_of_cumulative_counts() -> None:
    found = _samples(open_metrics(_record()))
    name = "memorypipe_latency_seconds"
    counts = {key[1][1]: n for key, n in found.items() if key[0] == f"{name}_bucket"}
    assert list(counts.values()) == sorted(counts.values())
    assert [n for le, n in counts.items() if 0.004 < float(le) < 0.02] == [1, 2]
    assert counts["+Inf"] == found[f"{name}_count", ("extract",)] == 3
    assert found[f"{name}_sum", ("extract",)] == pytest.approx(2.015)
    assert (f"{name}_count", ("decide",)) not in found


def test_a_record_of_an_older_version_has_fewer_metrics_but_is_valid() -> None:
    found = _samples(open_metrics({"run_id": "r", "status": "done", "windows": 2}))
    assert found["memorypipe_windows", ("cut",)] == 2
