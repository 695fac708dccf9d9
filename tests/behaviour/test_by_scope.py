"""A small run extracts and decides at the same time, in this process."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memorypipe import MemoryBuildAction, MemoryExtract, MemoryPipeline, Plan
from memorypipe.pipeline.planning_config import Progress
from tests.support.endpoint import Endpoint, endpoint

USERS, DAYS = 2, 12
DAY = datetime(2025, 1, 1, tzinfo=UTC)


def log(users: int = USERS, days: int = DAYS) -> list[dict[str, Any]]:
    return [
        {
            "user_id": f"u{user}",
            "conversation_id": f"c{day}",
            "messages": [
                {
                    "role": "user",
                    "content": f"Lamp {user}-{day} is mine.",
                    "timestamp": (DAY + timedelta(days=day)).isoformat(),
                }
            ],
        }
        for day in range(days)
        for user in range(users)
    ]


@pytest.fixture(name="server")
def _server() -> Iterator[Endpoint]:
    with endpoint(latency_s=0.03) as server:
        yield server


def pipeline(server: Endpoint, table: Path, in_flight: int, **settings: Any) -> MemoryPipeline:
    model: Any = {"base_url": server.base_url, "model": "m", "max_concurrency": in_flight}
    return MemoryPipeline(
        table=str(table),
        extract=MemoryExtract(**model),
        decide=MemoryBuildAction(**model),
        embedder="none",
        facts_per_call=1,
        **settings,
    )


def actions(plan: Plan) -> list[tuple[str, str, str]]:
    rows = plan.to_arrow("actions").to_pylist()
    return [(row["scope_key"], row["event"], row["text"]) for row in rows]


def asked(server: Endpoint) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Give the extractions and the decisions, in the order in which they came."""
    parts: tuple[list[Any], list[Any]] = ([], [])
    for call in sorted(server.calls(), key=lambda call: call["at_s"]):
        parts['{"fact":' in call["body"]["messages"][-1]["content"]].append(call)
    return parts


def test_a_scope_is_decided_in_order_of_time_while_its_later_windows_are_extracted(
    server: Endpoint, tmp_path: Path
) -> None:
    few = actions(pipeline(server, tmp_path / "few", 2).plan(log()))
    extractions, decisions = asked(server)
    assert (len(extractions), len(decisions)) == (USERS * DAYS, USERS * DAYS)
    # With two in flight it is the order of work that counts: a decision goes before extractions.
    assert sum(call["at_s"] < extractions[-1]["at_s"] for call in decisions) > USERS * DAYS / 2
    assert [text for _, _, text in few] == [
        f"Lamp {user}-{day} is mine." for user in range(USERS) for day in range(DAYS)
    ]
    assert {event for _, event, _ in few} == {"ADD"}
    many = actions(pipeline(server, tmp_path / "many", 64).plan(log()))
    assert many == few


def test_the_first_windows_of_all_heavy_scopes_are_extracted_first(
    server: Endpoint, tmp_path: Path
) -> None:
    pipeline(server, tmp_path, 4).plan(log(users=3))
    first = [call["body"]["messages"][-1]["content"] for call in asked(server)[0][: 3 * 4]]
    for user in range(3):
        assert any(f"Lamp {user}-0 is mine" in text for text in first)


def test_what_later_windows_may_tell_of_earlier_days_is_waited_for(
    server: Endpoint, tmp_path: Path
) -> None:
    """The conversation that ends last begins first, and is extracted in the second piece."""
    days = {"a": (1, 20), "b": (2, 9), **{f"c{n}": (n, n) for n in range(10, 16)}}
    told = [
        {
            "user_id": "u",
            "conversation_id": name,
            "messages": [
                {
                    "role": "user",
                    "content": f"On day {day} {name} came.",
                    "timestamp": (DAY + timedelta(days=day)).isoformat(),
                }
                for day in dict.fromkeys(said)
            ],
        }
        for name, said in days.items()
    ]
    decided = [text for _, _, text in actions(pipeline(server, tmp_path, 1).plan(told))]
    assert [int(text.split()[2]) for text in decided] == [1, 2, 9, *range(10, 16), 20]


def stop(progress: Progress) -> None:
    if progress.stage == "extract" and progress.done:
        raise RuntimeError("Enough.")


def test_an_error_ends_a_run_while_decisions_wait_for_windows(
    server: Endpoint, tmp_path: Path
) -> None:
    with pytest.raises(RuntimeError, match="Enough"):
        pipeline(server, tmp_path, 2, on_progress=stop).plan(log())
    assert len(asked(server)[0]) < USERS * DAYS


def test_so_it_does_where_there_is_no_endpoint(tmp_path: Path) -> None:
    run = MemoryPipeline.offline(str(tmp_path), embedder="none", on_progress=stop)
    with pytest.raises(RuntimeError, match="Enough"):
        run.plan(log(days=40))
