"""A run that goes on says so every few seconds."""

import json
import logging
import os
import socket
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memorypipe.pipeline.runs.folder import RunFolder
from memorypipe.pipeline.runs.record import Heartbeat, RunRecord

_START = datetime(2025, 1, 1, tzinfo=UTC)


def _read(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return record


def test_a_record_says_when_it_began_and_when_it_was_written(tmp_path: Path) -> None:
    now, calls = [_START], [3]
    record = RunRecord(
        RunFolder(tmp_path),
        lambda: {"run_id": "r", "status": "running", "calls": calls[0]},
        clock=lambda: now[0],
    )
    record.write()
    now[0], calls[0] = _START + timedelta(seconds=10), 7
    record.write()
    assert _read(tmp_path) == {
        "run_id": "r",
        "status": "running",
        "calls": 7,
        "started_at": _START.isoformat(),
        "heartbeat_at": (_START + timedelta(seconds=10)).isoformat(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
    }
    assert (tmp_path / "metrics.prom").read_text().endswith("# EOF\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.prom", "run.json"]
    record.write(status="done")
    assert _read(tmp_path)["status"] == "done"


def test_the_heart_beats_until_the_context_ends() -> None:
    beaten, beats = threading.Event(), []

    def beat() -> None:
        beats.append(threading.current_thread())
        if len(beats) == 3:
            beaten.set()

    with Heartbeat(beat, every_s=0.001):
        assert beaten.wait(timeout=60)
    assert not beats[0].is_alive()
    assert beats[0] is not threading.current_thread()


@pytest.mark.parametrize("error", [OSError("no space left"), RuntimeError("no space left")])
def test_a_beat_that_fails_is_told_and_the_next_one_comes(
    caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    beaten, beats = threading.Event(), []

    def beat() -> None:
        beats.append(1)
        if len(beats) == 1:
            raise error
        beaten.set()

    with caplog.at_level(logging.WARNING), Heartbeat(beat, every_s=0.001):
        assert beaten.wait(timeout=60)
    assert "no space left" in caplog.text
