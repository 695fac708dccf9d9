"""A backfill that is killed at any point goes on where it was: nothing is lost, nothing doubled."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memorypipe import MemoryBuildAction, MemoryExtract, MemoryPipeline, MemoryTable
from tests.support.endpoint import Endpoint, endpoint

USERS, DAYS, IN_FLIGHT = 4, 4, 3
THINGS = ("a piano", "four bees", "some tin cans", "every map of Rome")
_WITHIN_S = 300.0

pytestmark = pytest.mark.usefixtures("commands_share_ray")


@pytest.fixture(name="server", scope="module")
def _server() -> Iterator[Endpoint]:
    with endpoint(latency_s=0.1, lifetime_s=3_600) as server:
        yield server


@pytest.fixture(name="log", scope="module")
def _log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in _lines()))
    return path


def _lines() -> Iterator[dict[str, Any]]:
    for user in range(USERS):
        for day in range(1, DAYS + 1):
            said = f"User number {user} found {THINGS[day % len(THINGS)]} on day {day}."
            message = {"role": "user", "content": said, "timestamp": f"2025-01-0{day}T10:00:00Z"}
            yield {
                "user_id": f"u{user}",
                "conversation_id": f"c{user}-{day}",
                "messages": [message],
            }


def _start(table: Path, log: Path, server: Endpoint, workers: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "memorypipe", "backfill", str(log), "--table", str(table)]
    command += ["--base-url", server.base_url, "--model", "m", "--embedder", "none", "--json"]
    command += ["--max-concurrency", str(IN_FLIGHT), "--max-retries", "0"]
    command += ["--workers", str(workers)]
    return subprocess.Popen(  # noqa: S603  # our own command
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def _finish(process: "subprocess.Popen[str]") -> dict[str, Any]:
    out, errors = process.communicate(timeout=_WITHIN_S)
    assert process.returncode == 0, errors[-2_000:]
    summary: dict[str, Any] = json.loads(out)
    return summary


def _kill_when(process: "subprocess.Popen[str]", is_time: Callable[[], bool]) -> None:
    """Kill a command at a moment; one that has ended by then was not quick enough to be hit."""
    deadline_s = time.monotonic() + _WITHIN_S
    while process.poll() is None and not is_time() and time.monotonic() < deadline_s:
        time.sleep(0.005)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _rows(table: Path) -> list[dict[str, Any]]:
    opened = MemoryTable.open(table, create=False)
    assert opened.runs().num_rows == 1
    columns = ["scope_key", "memory_id", "text", "event_time", "source_ids"]
    rows: list[dict[str, Any]] = opened.to_arrow(columns=columns).to_pylist()
    return sorted(rows, key=lambda row: (row["scope_key"], row["memory_id"]))


@pytest.fixture(name="kept", scope="module")
def _kept() -> list[tuple[list[dict[str, Any]], int]]:
    return []


@pytest.fixture(name="undisturbed")
def _undisturbed(
    server: Endpoint, log: Path, tmp_path: Path, kept: list[tuple[list[dict[str, Any]], int]]
) -> tuple[list[dict[str, Any]], int]:
    """Give the rows and the calls of a run that nothing disturbs; it is made once."""
    if not kept:
        before = server.call_count()
        model: dict[str, Any] = {"base_url": server.base_url, "model": "m"}
        pipeline = MemoryPipeline(
            table=str(tmp_path / "undisturbed"),
            extract=MemoryExtract(**model),
            decide=MemoryBuildAction(**model),
            embedder="none",
        )
        pipeline.run(str(log))
        kept.append((_rows(tmp_path / "undisturbed"), server.call_count() - before))
    return kept[0]


def _moments() -> Iterator[Any]:
    """Give shares of the calls after which to kill, and how many workers there are.

    Shares above 1 are milliseconds after the last call. One worker is the command itself.
    """
    dice = random.Random(5)  # noqa: S311  # a test's dice
    yield pytest.param((0.5, 1), id="half")
    yield pytest.param((0.5, 2), id="half-workers")
    for number in range(14):
        share, workers = dice.uniform(0.0, 1.0), 1 + number % 2
        yield pytest.param((share, workers), id=f"calls-{number}", marks=pytest.mark.slow)
    for number in range(6):
        late_ms, workers = dice.uniform(1.0, 700.0), 1 + number % 2
        yield pytest.param((late_ms, workers), id=f"end-{number}", marks=pytest.mark.slow)


@pytest.mark.parametrize("killed", list(_moments()))
def test_killed_at_any_moment_the_next_run_ends_as_if_nothing_had_been(
    server: Endpoint,
    log: Path,
    undisturbed: tuple[list[dict[str, Any]], int],
    tmp_path: Path,
    killed: tuple[float, int],
) -> None:
    wanted, calls = undisturbed
    moment, workers = killed
    table, before = tmp_path / "table", server.call_count()
    stop_s = float("inf")

    def is_time() -> bool:
        nonlocal stop_s
        made = server.call_count() - before
        if moment <= 1.0:
            return made >= moment * calls
        if made >= calls and stop_s == float("inf"):
            stop_s = time.monotonic() + moment / 1e3
        return time.monotonic() >= stop_s

    _kill_when(_start(table, log, server, workers), is_time)
    _finish(_start(table, log, server, workers))
    assert _rows(table) == wanted
    assert server.call_count() - before <= calls + IN_FLIGHT
