"""The endpoint goes down on the way: nothing is made up, nothing lost, nothing paid twice."""

import json
from pathlib import Path
from typing import Any

import pytest

from memorypipe import MemoryTable
from memorypipe.cli.main import main
from tests.support.endpoint import Endpoint, endpoint

THINGS = ("piano", "canoe", "loom")


def write_log(path: Path, users: int, days: int) -> None:
    """One conversation a user and day, with one thing said in each."""
    lines = [
        {
            "user_id": f"u{user}",
            "conversation_id": f"c{user}-{day}",
            "messages": [
                {
                    "role": "user",
                    "content": f"User {user} found the {THINGS[day % len(THINGS)]} of day {day}.",
                    "timestamp": f"2025-01-{day:02}T10:00:00Z",
                }
            ],
        }
        for user in range(users)
        for day in range(1, days + 1)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def backfill(
    log: Path, table: Path, server: Endpoint, capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, Any]]:
    """Run the command; gives the exit code and what it prints."""
    words = ["backfill", str(log), "--table", str(table), "--json", "--facts-per-call", "1"]
    words += ["--base-url", server.base_url, "--model", "m", "--max-retries", "0"]
    words += ["--embedder", "none", "--backend", "parquet", "--max-concurrency", "4"]
    capsys.readouterr()
    code = main(words)
    return code, json.loads(capsys.readouterr().out)


def memories(table: Path) -> dict[str, dict[str, Any]]:
    """The live memories by their ids."""
    columns = ["memory_id", "scope_key", "text", "event_time", "conversation_id", "source_ids"]
    rows = MemoryTable.open(table, create=False).to_arrow(columns=columns).to_pylist()
    return {row["memory_id"]: row for row in rows}


@pytest.mark.usefixtures("commands_share_ray")
@pytest.mark.parametrize(
    ("users", "days"), [(4, 3), pytest.param(30, 6, marks=pytest.mark.slow)], ids=["small", "large"]
)
def test_an_endpoint_that_is_down_for_the_last_third_of_the_decisions_costs_one_more_run(
    users: int, days: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, whole, broken = tmp_path / "log.jsonl", tmp_path / "whole", tmp_path / "broken"
    write_log(log, users, days)
    windows = users * days
    with endpoint() as server:
        code, summary = backfill(log, whole, server, capsys)
        assert (code, summary["status"], summary["added"]) == (0, "done", windows)
        assert server.call_count() == 2 * windows

        # Down for the decisions about the last third of the days, which come last.
        answered = users * (days * 2 // 3)
        server.script(
            count=0,
            faults=[
                {"kind": "status", "status": 503, "contains": ['{"fact":', f" of day {day}."]}
                for day in range(days * 2 // 3 + 1, days + 1)
            ],
        )
        code, first = backfill(log, broken, server, capsys)
        assert (code, first["status"]) == (3, "partial")
        decided = memories(broken)
        assert len(decided) == first["added"] == answered
        assert first["windows_failed"] == windows - len(decided)
        assert first["fallback"] == 0
        wanted = memories(whole)
        assert decided.items() <= wanted.items(), "what was not decided is not in the table"

        server.script(count=0, faults=[])
        code, second = backfill(log, broken, server, capsys)
        assert (code, second["status"], second["added"]) == (0, "done", windows - len(decided))
        assert second["windows"] == first["windows_failed"], "what was decided is not taken again"
        assert server.call_count() == second["windows"], "all of it was extracted already"
    assert memories(broken) == wanted
