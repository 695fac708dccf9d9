"""Flushes by command, with a real pipeline, that are killed at any moment."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from memorypipe.table.table import MemoryTable

STREAMS, WITHIN_S = 4, 300.0
THINGS = ("piano", "kettle", "canoe", "lantern", "saddle", "loom", "sextant", "accordion")

pytestmark = pytest.mark.usefixtures("commands_share_ray")


def _command(name: str, table: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "memorypipe", name, "--table", str(table), "--json"]
    return subprocess.Popen(  # noqa: S603  # our own command
        [*command, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _finish(process: "subprocess.Popen[str]", told: str = "") -> None:
    _, errors = process.communicate(told, timeout=WITHIN_S)
    assert process.returncode == 0, errors[-2_000:]


def _ingest(table: Path, rounds: list[int]) -> None:
    """Two events in each of some streams, which makes them due."""
    requests = [
        {
            "scope": {"user_id": f"u{stream % 2}"},
            "stream_id": f"s{stream}",
            "direct_contents_source": {
                "events": [
                    {"content": {"role": "user", "parts": [{"text": f"I own a {thing}."}]}}
                    for thing in (f"{THINGS[number]} {side} {stream}" for side in ("red", "blue"))
                ]
            },
            "generation_trigger_config": {"generation_rule": {"event_count": 2}},
        }
        for number in rounds
        for stream in range(STREAMS)
    ]
    _finish(_command("ingest", table, "-"), "".join(f"{json.dumps(each)}\n" for each in requests))


def _flush(table: Path) -> "subprocess.Popen[str]":
    return _command("flush", table, "--offline", "--embedder", "none")


def _memories(table: Path) -> Counter[tuple[str, str]]:
    rows = MemoryTable.open(table, create=False).to_arrow(columns=["scope_key", "text"])
    return Counter((row["scope_key"], row["text"]) for row in rows.to_pylist())


@pytest.mark.slow
def test_memories_are_those_of_a_flush_that_nothing_disturbs(tmp_path: Path) -> None:
    dice = random.Random(11)  # noqa: S311  # a test's dice
    rounds = list(range(len(THINGS)))
    _ingest(tmp_path / "undisturbed", rounds)
    began_s = time.monotonic()
    _finish(_flush(tmp_path / "undisturbed"))
    took_s = time.monotonic() - began_s

    killed = 0
    for number in rounds:
        _ingest(tmp_path / "killed", [number])
        process = _flush(tmp_path / "killed")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(dice.uniform(0.2, 1.0) * took_s)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            killed += 1
        process.communicate()
    _finish(_flush(tmp_path / "killed"))

    assert killed
    wanted = _memories(tmp_path / "undisturbed")
    assert set(wanted.values()) == {1}
    assert len(wanted) == STREAMS * 2 * len(THINGS)
    assert _memories(tmp_path / "killed") == wanted
