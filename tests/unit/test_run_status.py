"""One that fell silent, or whose process has ended, is not taken for running."""

import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memorypipe.table.run_status import is_under_way, shown_status

_START = datetime(2025, 1, 1, tzinfo=UTC)


def _running(**values: Any) -> dict[str, Any]:
    return {"status": "running", "heartbeat_at": _START.isoformat(), **values}


def _ended_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


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


def test_a_run_whose_process_is_there_is_under_way_until_it_falls_silent() -> None:
    here = _running(host=socket.gethostname(), pid=os.getpid())
    assert is_under_way(here, _START + timedelta(seconds=59))
    assert not is_under_way(here, _START + timedelta(seconds=61))
    assert not is_under_way({**here, "status": "failed"}, _START)


def test_a_run_whose_process_was_killed_on_this_machine_is_not_under_way() -> None:
    assert not is_under_way(_running(host=socket.gethostname(), pid=_ended_pid()), _START)


def test_of_a_run_on_another_machine_only_its_record_tells() -> None:
    assert is_under_way(_running(host="elsewhere", pid=_ended_pid()), _START)
    assert is_under_way(_running(), _START)
