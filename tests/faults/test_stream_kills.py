"""Ingestion and flushes that are killed, or that come from many processes at once."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

WORKER = Path(__file__).parents[1] / "support" / "stream_worker.py"


def run(table: Path, *orders: dict[str, Any]) -> list[dict[str, Any]]:
    told = "".join(f"{json.dumps(order)}\n" for order in orders)
    done = subprocess.run(  # noqa: S603  # our own script
        [sys.executable, str(WORKER), str(table)],
        input=told,
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def acknowledged(table: Path) -> Counter[tuple[str, str]]:
    lines = (table / "acks.jsonl").read_text().splitlines()
    return Counter((stream, name) for stream, name in map(json.loads, lines))


def check(table: Path, windows: list[dict[str, Any]]) -> None:
    """Every acknowledged event is in exactly one window; overlaps are the last ones before."""
    processed: dict[str, list[str]] = {}
    for window in windows:
        before = processed.setdefault(window["stream"][1], [])
        assert window["overlap"] == before[-1:]
        before += window["messages"]
    times = Counter((stream, name) for stream, names in processed.items() for name in names)
    assert set(times.values()) <= {1}
    acks = acknowledged(table)
    assert acks
    assert set(acks) <= set(times)
    # What was stored and never acknowledged is the last request of a process that was killed.
    assert all(name.startswith("k") for _, name in set(times) - set(acks))


@pytest.mark.parametrize("rounds", [3, pytest.param(200, marks=pytest.mark.slow)])
def test_a_kill_at_any_step_loses_and_doubles_nothing(tmp_path: Path, rounds: int) -> None:
    told, last = run(tmp_path, {"do": "kills", "seeds": list(range(rounds))}, {"do": "finish"})
    assert "killed" in told["rounds"]
    assert set(told["rounds"]) <= {"killed", "ended 0"}
    assert last["exit"] == 0
    check(tmp_path, last["windows"])


@pytest.mark.parametrize(
    ("processes", "seconds"), [(2, 0.5), pytest.param(4, 60, marks=pytest.mark.slow)]
)
def test_many_processes_ingest_while_one_flushes(
    tmp_path: Path, processes: int, seconds: float
) -> None:
    crowd = {"do": "crowd", "processes": processes, "seconds": seconds, "least": 20}
    told, last = run(tmp_path, crowd, {"do": "finish"})
    assert told["exits"] == [0] * (processes + 1)
    assert last["exit"] == 0
    check(tmp_path, last["windows"])
