"""The estimate against what a plan really does, call by call."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memorypipe import Lookup, MemoryBuildAction, MemoryExtract, MemoryPipeline, MemoryTable
from memorypipe.errors import InvalidArgumentError, ModelError
from memorypipe.llm.spec import Prices
from tests.support.endpoint import Endpoint, endpoint

pytestmark = pytest.mark.usefixtures("ray_2_cpus")

NOBODY = "http://127.0.0.1:9/v1"  # nothing listens there


@pytest.fixture(scope="module")
def shared() -> Iterator[Endpoint]:
    with endpoint(lifetime_s=1_800) as server:
        yield server


@pytest.fixture
def server(shared: Endpoint) -> Endpoint:
    shared.script(faults=[], count=0, max_in_flight=0, calls=[], require_key=None)
    return shared


def quarters(text: str) -> float:
    """Count as the test endpoint does."""
    return len(text) / 4


def talk(users: int, days: int) -> list[dict[str, Any]]:
    things = ("piano", "boat", "garden", "camera", "bicycle", "telescope", "kiln", "loom")
    return [
        {
            "user_id": f"u{user}",
            "conversation_id": f"u{user}-{day}",
            "messages": [
                {
                    "role": role,
                    "content": f"On day {day} visitor {user} brought a {thing} of kind {n * day}.",
                    "timestamp": f"2025-01-{day:02}T10:{2 * n + (role == 'assistant'):02}:00Z",
                }
                for n, thing in enumerate(things)
                for role in ("user", "assistant")
            ],
        }
        for user in range(users)
        for day in range(1, days + 1)
    ]


def pipeline(base_url: str, table: Path, **settings: Any) -> MemoryPipeline:
    model: Any = {"model": "m", "base_url": base_url, "max_retries": 0}
    return MemoryPipeline(
        table=str(table),
        extract=MemoryExtract(**model),
        decide=MemoryBuildAction(**model),
        lookup=Lookup(strategy="keyword"),
        **{"window_tokens": 300, **settings},
    )


def test_extractions_and_their_prompts_are_exactly_what_the_plan_sends(
    server: Endpoint, tmp_path: Path
) -> None:
    log = talk(2, 3)
    estimate = pipeline(NOBODY, tmp_path / "e").estimate(log, count_tokens=quarters)
    assert not (tmp_path / "e").exists(), "an estimate leaves nothing behind"
    pipeline(server.base_url, tmp_path / "p").plan(log)
    bodies = [call["body"] for call in server.calls()]
    extractions = [b for b in bodies if "<transcript-" in b["messages"][1]["content"]]
    prompt_tokens = sum(sum(len(m["content"]) for m in b["messages"]) // 4 for b in extractions)
    assert estimate.calls_extract == estimate.windows == len(extractions) > 6
    assert (estimate.measured_calls, estimate.spent.calls) == (0, 0)
    decisions = estimate.calls_decide.mid
    only_extract = pipeline(NOBODY, tmp_path / "e").estimate(
        log, count_tokens=lambda text: quarters(text) if "transcript" in text else 0.0
    )
    assert only_extract.calls_decide.mid == decisions
    assert only_extract.tokens_in.mid == pytest.approx(prompt_tokens, abs=len(extractions))


def test_what_the_journal_knows_costs_nothing_decisions_included(
    server: Endpoint, tmp_path: Path
) -> None:
    log = talk(2, 2)
    memories = pipeline(server.base_url, tmp_path)
    memories.plan(log)
    before = server.call_count()
    estimate = memories.estimate(log)
    assert server.call_count() == before
    assert (estimate.calls.high, estimate.tokens_in.high, estimate.tokens_out.high) == (0, 0, 0)
    assert estimate.journal_hits == estimate.windows > 0
    more = memories.estimate(talk(3, 2))
    assert more.windows - more.journal_hits == more.calls_extract == estimate.windows // 2
    assert more.calls_decide.low > 0


@pytest.mark.slow
def test_messages_that_a_committed_run_dealt_with_are_left_out(
    server: Endpoint, tmp_path: Path
) -> None:
    memories = pipeline(server.base_url, tmp_path)
    memories.run(talk(1, 2))
    estimate = memories.estimate(talk(1, 2))
    assert (estimate.windows, estimate.calls.high, estimate.facts.high) == (0, 0, 0)
    grown = memories.estimate(talk(1, 3))
    fresh = pipeline(server.base_url, tmp_path / "fresh").estimate(talk(1, 3))
    assert 0 < grown.windows < fresh.windows
    assert grown.tokens_in.mid / grown.calls.mid > fresh.tokens_in.mid / fresh.calls.mid, (
        "decisions see the memories that are there"
    )


def test_calibration_makes_so_many_calls_and_the_run_takes_them_from_the_journal(
    server: Endpoint, tmp_path: Path
) -> None:
    log = talk(3, 4)
    memories = pipeline(server.base_url, tmp_path, facts_per_call=5)
    estimate = memories.estimate(log, calibrate=10, count_tokens=quarters)
    assert (server.call_count(), estimate.spent.calls) == (10, 10)
    assert estimate.measured_calls == 8
    assert estimate.calls_extract == estimate.windows - 8
    summary = memories.plan(log).summary()
    assert summary.journal_hits >= 8
    assert estimate.calls.mid == pytest.approx(summary.attempts, rel=0.1)
    assert estimate.calls.low <= estimate.calls.mid <= estimate.calls.high
    assert estimate.facts.mid == pytest.approx(summary.facts, rel=0.1)
    # What the journal answers has no tokens in either.
    assert estimate.tokens_in.mid == pytest.approx(summary.tokens_in, rel=0.25)


@pytest.mark.slow
def test_when_every_window_is_calibrated_nothing_is_left_to_chance(
    server: Endpoint, tmp_path: Path
) -> None:
    log = talk(1, 2)
    memories = pipeline(server.base_url, tmp_path)
    estimate = memories.estimate(log, calibrate=100, count_tokens=quarters)
    assert estimate.calls_extract == 0
    assert estimate.calls_decide.low == estimate.calls_decide.high
    before = server.call_count()
    memories.plan(log)
    assert server.call_count() - before == estimate.calls_decide.mid > 0


@pytest.mark.slow
def test_equal_requests_of_two_windows_are_paid_once(server: Endpoint, tmp_path: Path) -> None:
    one = talk(1, 1)
    twice = [*one, {**one[0], "conversation_id": "again"}]
    estimate = pipeline(NOBODY, tmp_path / "e", window_tokens=2000).estimate(twice)
    assert (estimate.windows, estimate.calls_extract, estimate.journal_hits) == (2, 1, 1)
    pipeline(server.base_url, tmp_path / "p", window_tokens=2000).plan(twice)
    asked = [call["body"]["messages"][1]["content"] for call in server.calls()]
    assert sum("<transcript-" in content for content in asked) == 1


@pytest.mark.slow
def test_windows_without_a_user_ask_nothing(tmp_path: Path) -> None:
    log = [
        {
            "user_id": "u",
            "conversation_id": "c",
            "messages": [{"role": "assistant", "content": "Welcome."}],
        }
    ]
    estimate = pipeline(NOBODY, tmp_path).estimate(log)
    assert (estimate.windows, estimate.calls.high, estimate.journal_hits) == (1, 0, 0)


def test_prices_give_a_cost_and_an_order(server: Endpoint, tmp_path: Path) -> None:
    prices = Prices(per_million_in=1.0, per_million_out=4.0)
    model: Any = {"model": "m", "base_url": server.base_url, "price_in": 1.0, "price_out": 4.0}
    priced = MemoryPipeline(
        table=str(tmp_path), extract=MemoryExtract(**model), decide=MemoryBuildAction(**model)
    )
    estimate = priced.estimate(talk(2, 2))
    assert estimate.cost is not None
    expected = prices.cost(estimate.tokens_in.mid, estimate.tokens_out.mid)
    assert estimate.cost.mid == pytest.approx(expected)
    assert 0 < estimate.cost.low < estimate.cost.mid < estimate.cost.high
    assert pipeline(NOBODY, tmp_path).estimate(talk(1, 1)).cost is None


def test_the_rule_based_model_costs_neither_tokens_nor_money(tmp_path: Path) -> None:
    estimate = MemoryPipeline.offline(str(tmp_path)).estimate(talk(2, 2))
    assert estimate.calls.mid > 0
    assert estimate.cost is not None
    assert (estimate.tokens_in.high, estimate.tokens_out.high, estimate.cost.high) == (0, 0, 0)


@pytest.mark.slow
def test_a_calibration_of_which_nothing_comes_is_an_error(server: Endpoint, tmp_path: Path) -> None:
    server.script(faults=[{"kind": "status", "status": 400}])
    with pytest.raises(ModelError, match="None of 4 calls"):
        pipeline(server.base_url, tmp_path).estimate(talk(1, 2), calibrate=5)


@pytest.mark.parametrize(
    "wrong",
    [{"calibrate": -1}, {"calibrate": 1.5}, {"calibrate": True}, {"latency_ms": -1.0},
     {"latency_ms": float("nan")}, {"latency_ms": "5"}, {"count_tokens": 4}],
)  # fmt: skip
def test_a_parameter_that_cannot_work_is_named(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
        pipeline(NOBODY, tmp_path).estimate([], **wrong)


@pytest.mark.slow
def test_a_table_is_only_read(server: Endpoint, tmp_path: Path) -> None:
    memories = pipeline(server.base_url, tmp_path)
    memories.run(talk(1, 1))
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()}
    version = MemoryTable.open(tmp_path, create=False).version
    memories.estimate(talk(2, 2))
    assert MemoryTable.open(tmp_path, create=False).version == version
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()} == before
