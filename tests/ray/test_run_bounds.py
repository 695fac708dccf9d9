"""A run stops at its bound, keeps what it has, and the next one pays for the rest only."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from memorypipe import (
    Lookup,
    MemoryBuildAction,
    MemoryExtract,
    MemoryPipeline,
    MemoryTable,
    Plan,
    RunSummary,
)
from memorypipe.errors import EndpointError, InvalidArgumentError
from memorypipe.llm.spec import Prices
from memorypipe.pipeline.planning_config import Progress
from tests.support.endpoint import Endpoint, endpoint

pytestmark = pytest.mark.usefixtures("ray_2_cpus")

_LOG = [
    {
        "user_id": f"u{n % 3}",
        "conversation_id": f"c{n}",
        "messages": [
            {
                "role": "user",
                "content": f"Item {n} is called {n * 7919}.",
                "timestamp": f"2025-01-{n + 1:02}T10:00:00Z",
            }
        ],
    }
    for n in range(9)
]


@pytest.fixture(scope="module")
def shared() -> Iterator[Endpoint]:
    with endpoint() as server:
        yield server


@pytest.fixture
def server(shared: Endpoint) -> Endpoint:
    shared.script(faults=[], count=0, max_in_flight=0, calls=[], require_key=None)
    return shared


def pipeline(server: Endpoint, table: Path, **settings: Any) -> MemoryPipeline:
    names = ("max_retries", "max_concurrency", "api_key", "price_in", "price_out")
    chosen = {name: settings.pop(name) for name in names if name in settings}
    model: Any = {"model": "m", "base_url": server.base_url, **chosen}
    return MemoryPipeline(
        table=str(table),
        extract=MemoryExtract(**model),
        decide=MemoryBuildAction(**model),
        lookup=Lookup(strategy="all", max_memories=None),
        **settings,
    )


def texts(table: Path) -> list[tuple[str, str]]:
    if not MemoryTable.exists(table):
        return []
    rows = MemoryTable.open(table, create=False).to_arrow(columns=["user_id", "text"]).to_pylist()
    return sorted((row["user_id"], row["text"]) for row in rows)


def record(table: Path, run_id: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((table / "runs" / run_id / "run.json").read_text())
    return value


def reasons(table: Path, summary: RunSummary) -> set[str]:
    return set(Plan(str(table), summary.run_id).open_windows()["reason"].to_pylist())


@pytest.mark.parametrize("max_calls", [1, 4, 10])
def test_no_more_calls_are_sent_than_the_bound_allows(
    server: Endpoint, tmp_path: Path, max_calls: int
) -> None:
    summary = pipeline(server, tmp_path, max_calls=max_calls).run(_LOG)
    assert server.call_count() == max_calls == summary.attempts
    assert summary.status == "stopped"
    assert summary.stopped_by is not None
    assert {name: summary.stopped_by[name] for name in ("bound", "limit", "used")} == {
        "bound": "max_calls",
        "limit": max_calls,
        "used": max_calls,
    }
    assert summary.windows_failed > 0
    assert summary.failures["BudgetError"] > 0
    assert any("BudgetError" in reason for reason in reasons(tmp_path, summary))


@pytest.mark.slow
def test_a_run_that_fails_on_the_way_counts_its_failures_against_the_bound(
    server: Endpoint, tmp_path: Path
) -> None:
    server.script(faults=[{"kind": "status", "status": 500, "rate": 0.5}])
    summary = pipeline(server, tmp_path, max_calls=6, max_retries=5).run(_LOG)
    assert server.call_count() == summary.attempts == 6
    assert summary.status == "stopped"


@pytest.mark.slow
def test_runs_taken_up_again_end_with_the_memories_of_one_without_a_bound(
    server: Endpoint, tmp_path: Path
) -> None:
    whole = pipeline(server, tmp_path / "whole").run(_LOG)
    needed = server.call_count()
    assert whole.status == "done"
    statuses = []
    for _ in range(20):
        before = server.call_count()
        summary = pipeline(server, tmp_path / "parts", max_calls=3).run(_LOG)
        assert server.call_count() - before <= 3
        statuses.append(summary.status)
        if summary.status == "done":
            break
    assert statuses[-1] == "done"
    assert set(statuses[:-1]) == {"stopped"}
    assert texts(tmp_path / "parts") == texts(tmp_path / "whole")
    assert server.call_count() - needed >= needed, "facts of one call may be decided in several"
    extracted = [c for c in server.calls()[needed:] if "<transcript-" in json.dumps(c["body"])]
    assert len(extracted) == len(_LOG), "but nothing is extracted twice"


@pytest.mark.slow
def test_a_bound_that_is_just_enough_stops_nothing(server: Endpoint, tmp_path: Path) -> None:
    needed = pipeline(server, tmp_path / "a").run(_LOG).attempts
    summary = pipeline(server, tmp_path / "b", max_calls=needed).run(_LOG)
    assert (summary.status, summary.stopped_by) == ("done", None)


def test_tokens_are_bounded_up_to_what_is_in_flight(server: Endpoint, tmp_path: Path) -> None:
    summary = pipeline(server, tmp_path, max_tokens=2_500, max_concurrency=1).run(_LOG)
    used = summary.tokens_in + summary.tokens_out
    each = used / summary.attempts
    assert summary.status == "stopped"
    assert 2_500 - 2 * each <= used <= 2_500 + 2 * each
    assert summary.stopped_by is not None
    assert summary.stopped_by["bound"] == "max_tokens"


def test_a_cost_is_bounded_and_told(server: Endpoint, tmp_path: Path) -> None:
    prices = Prices(per_million_in=1_000.0, per_million_out=2_000.0)
    priced = {"price_in": 1_000.0, "price_out": 2_000.0, "max_concurrency": 1}
    summary = pipeline(server, tmp_path, max_cost=2.5, **priced).run(_LOG)
    assert summary.status == "stopped"
    assert summary.cost is not None
    assert summary.cost == pytest.approx(prices.cost(summary.tokens_in, summary.tokens_out))
    each = summary.cost / summary.attempts
    assert 2.5 - 2 * each <= summary.cost <= 2.5 + 2 * each
    assert record(tmp_path, summary.run_id)["stopped_by"]["bound"] == "max_cost"


def test_a_cost_without_prices_is_an_error_before_anything_is_sent(
    server: Endpoint, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgumentError, match="has no prices"):
        pipeline(server, tmp_path, max_cost=1.0)
    assert server.call_count() == 0


def test_the_record_accounts_for_every_request_of_both_stages(
    server: Endpoint, tmp_path: Path
) -> None:
    server.script(faults=[{"kind": "status", "status": 500, "calls": [1, 2, 11]}])
    summary = pipeline(server, tmp_path, max_retries=5).run(_LOG)
    assert summary.status == "done"
    told = record(tmp_path, summary.run_id)
    assert told["attempts"] == server.call_count()
    assert told["failures"] == {"http_500": 3}
    assert told["latency_ms"]["p50"] <= told["latency_ms"]["p99"] <= told["latency_ms"]["max"]
    assert server.max_in_flight() <= told["max_in_flight"] <= len(_LOG)
    for name in ("calls", "attempts", "tokens_in", "tokens_out"):
        assert sum(stage[name] for stage in told["stages"].values()) == told[name] > 0
    bodies = [call["body"] for call in server.calls()]
    sent = [sum(len(str(m["content"])) for m in body["messages"]) // 4 for body in bodies]
    assert told["tokens_in"] == sum(sent) - sum(sent[n] for n in (0, 1, 10))
    text = (tmp_path / "runs" / summary.run_id / "metrics.prom").read_text()
    families = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]  # no types there
    samples = [sample for family in families for sample in family.samples]
    sent_by_stage = [s.value for s in samples if s.name == "memorypipe_attempts_total"]
    assert sum(sent_by_stage) == server.call_count()


def test_while_a_run_goes_on_its_record_says_so(server: Endpoint, tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []

    def look(progress: Progress) -> None:
        records = (tmp_path / "runs").glob("[!.]*/run.json")
        seen.extend((progress.stage, json.loads(path.read_text())["status"]) for path in records)

    summary = pipeline(server, tmp_path, on_progress=look).run(_LOG)
    assert ("extract", "running") in seen
    assert ("decide", "running") in seen
    assert seen[-1][1] == summary.status == "done"


def test_an_error_is_in_the_record_of_the_run(server: Endpoint, tmp_path: Path) -> None:
    server.script(require_key="sk-right")
    with pytest.raises(EndpointError):
        pipeline(server, tmp_path, api_key="sk-wrong").plan(_LOG, run_id="r")
    told = record(tmp_path, "r")
    assert told["status"] == "failed"
    assert "401" in told["error"]
    assert len(told["error"]) < 500, "no traceback"
    assert "sk-wrong" not in json.dumps(told)


def test_an_interrupt_is_in_the_record_of_the_run(server: Endpoint, tmp_path: Path) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.stage == "decide":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pipeline(server, tmp_path, on_progress=interrupt).plan(_LOG, run_id="r")
    told = record(tmp_path, "r")
    assert (told["status"], told["error"], told["facts"]) == ("stopped", "interrupted", 9)
