"""A run that goes on says so every few seconds; one that fell silent is not taken for running."""

import json
import logging
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memorypipe.pipeline.run_folder import RunFolder
from memorypipe.pipeline.run_record import Heartbeat, RunRecord, shown_status

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


def test_a_disk_that_fails_once_is_told_and_the_next_beat_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    beaten, beats = threading.Event(), []

    def beat() -> None:
        beats.append(1)
        if len(beats) == 1:
            raise OSError("no space left")
        beaten.set()

    with caplog.at_level(logging.WARNING), Heartbeat(beat, every_s=0.001):
        assert beaten.wait(timeout=60)
    assert "no space left" in caplog.text


@pytest.mark.parametrize(
    ("status", "silent_s", "wanted"),
    [
        ("running", 0, "running"),
        ("running", 59, "running"),
        ("running", 61, "crashed"),
        ("done", 10_000, "done"),
        ("stopped", 10_000, "stopped"),
    ],
)
def test_a_run_that_fell_silent_is_not_running(status: str, silent_s: int, wanted: str) -> None:
    record = {"status": status, "heartbeat_at": _START.isoformat()}
    assert shown_status(record, _START + timedelta(seconds=silent_s)) == wanted


def test_the_record_of_an_older_version_has_no_heartbeat() -> None:
    assert shown_status({"status": "done"}, _START) == "done"
