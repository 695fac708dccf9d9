"""No two runs at once over the same messages: the second start says who is at it."""

import json
import os
import socket
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from memorypipe.errors import PlanError
from memorypipe.pipeline.runs.folder import RunFolder
from memorypipe.pipeline.runs.job_lock import check_alone, check_alone_in, one_at_a_time
from memorypipe.schema import WINDOWS

NOW = datetime(2025, 1, 1, 12, tzinfo=UTC)


def window(
    new: list[str], background: list[str], *, conversation: str, scope: str
) -> dict[str, Any]:
    messages = [
        {"role": "user", "content": "x", "id": each, "background": each in background}
        for each in [*background, *new]
    ]
    return {
        "scope": [],
        "scope_key": scope,
        "conversation_id": conversation,
        "window_id": "-".join(new),
        "window_index": 0,
        "messages": messages,
    }


def windows(
    folder: Path,
    *new: str,
    background: tuple[str, ...] = (),
    conversation: str = "c1",
    scope: str = "[]",
) -> list[str]:
    (folder / "windows").mkdir(parents=True)
    row = window(list(new), list(background), conversation=conversation, scope=scope)
    path = folder / "windows" / "part-000000.parquet"
    pq.write_table(pa.Table.from_pylist([row], schema=WINDOWS), path)
    return [str(path)]


def under_way(folder: Path, **changes: Any) -> None:
    record = {
        "status": "running",
        "started_at": "2025-01-01T11:00:00+00:00",
        "heartbeat_at": (NOW - timedelta(seconds=20)).isoformat(),
        "host": "elsewhere",
        "pid": 4711,
        "stage": "extract",
        "windows_done": 3,
        **changes,
    }
    (folder / "run.json").write_text(json.dumps(record))


def start(runs: Path, *new: str, run_id: str = "mine", **where: Any) -> None:
    ours = windows(runs / ".planning-x", *new, **where)
    check_alone(ours, runs, run_id=run_id, now=NOW)


def test_who_is_at_work_on_the_same_messages_is_named_and_how_to_go_on(tmp_path: Path) -> None:
    windows(tmp_path / "theirs", "m1", "m2")
    under_way(tmp_path / "theirs")
    with pytest.raises(PlanError) as caught:
        start(tmp_path, "m2", "m3")
    for part in ("'theirs'", "4711", "'elsewhere'", "since 2025-01-01T11:00", "'c1'", "3 windows"):
        assert part in str(caught.value)
    assert "start again" in str(caught.value)


@pytest.mark.parametrize(
    "where", [{"conversation": "c2"}, {"scope": '[["user_id","u"]]'}, {"background": ("m1", "m2")}]
)
def test_runs_over_other_messages_go_on_side_by_side(tmp_path: Path, where: Any) -> None:
    windows(tmp_path / "theirs", "m1", "m2")
    under_way(tmp_path / "theirs")
    new = ["m3"] if "background" in where else ["m1"]
    start(tmp_path, *new, **where)


@pytest.mark.parametrize(
    "ended",
    [
        {"status": "planned"},
        {"status": "failed"},
        {"heartbeat_at": (NOW - timedelta(seconds=61)).isoformat()},
    ],
)
def test_a_run_that_has_ended_or_is_silent_stands_in_nobodys_way(
    tmp_path: Path, ended: dict[str, Any]
) -> None:
    windows(tmp_path / "theirs", "m1")
    under_way(tmp_path / "theirs", **ended)
    start(tmp_path, "m1")


def test_a_run_whose_process_is_gone_from_this_machine_is_taken_over_at_once(
    tmp_path: Path,
) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])  # our own interpreter
    dead.wait()
    windows(tmp_path / "theirs", "m1")
    under_way(tmp_path / "theirs", host=socket.gethostname(), pid=dead.pid)
    start(tmp_path, "m1")
    under_way(tmp_path / "theirs", host=socket.gethostname(), pid=os.getpid())
    with pytest.raises(PlanError):
        check_alone(
            [str(tmp_path / ".planning-x" / "windows" / "part-000000.parquet")],
            tmp_path,
            run_id="mine",
            now=NOW,
        )


def test_a_run_whose_plan_is_being_applied_is_at_work_still(tmp_path: Path) -> None:
    windows(tmp_path / "theirs", "m1")
    under_way(tmp_path / "theirs", status="planned")
    with (
        RunFolder(tmp_path / "theirs").applying(),
        pytest.raises(PlanError, match=r"'theirs' is at work .* its plan is being applied"),
    ):
        check_alone(windows(tmp_path / ".one", "m1"), tmp_path, run_id="mine", now=NOW)
    check_alone(windows(tmp_path / ".two", "m1"), tmp_path, run_id="mine", now=NOW)


@pytest.mark.parametrize(("theirs", "ours"), [(None, None), (None, "a"), ("a", None), ("a", "a")])
def test_two_runs_do_not_decide_again_over_the_same_memories(
    tmp_path: Path, theirs: str | None, ours: str | None
) -> None:
    (tmp_path / "theirs").mkdir()
    under_way(tmp_path / "theirs", kind="consolidation", scope_key=theirs)
    with pytest.raises(PlanError, match=r"Run 'theirs' is at work on .* memories .*4711"):
        check_alone_in(ours, tmp_path, run_id="mine", now=NOW)
    under_way(tmp_path / "theirs", kind="consolidation", scope_key=theirs, status="planned")
    check_alone_in(ours, tmp_path, run_id="mine", now=NOW)
    under_way(tmp_path / "theirs")
    check_alone_in(ours, tmp_path, run_id="mine", now=NOW)


def test_memories_of_other_scopes_may_be_decided_again_side_by_side(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    under_way(tmp_path / "theirs", kind="consolidation", scope_key="a")
    check_alone_in("b", tmp_path, run_id="mine", now=NOW)


def test_a_run_of_the_same_name_and_one_without_windows_are_not_looked_at(tmp_path: Path) -> None:
    windows(tmp_path / "mine", "m1")
    under_way(tmp_path / "mine")
    (tmp_path / "empty").mkdir()
    under_way(tmp_path / "empty")
    start(tmp_path, "m1")


def test_starts_look_for_each_other_one_at_a_time(tmp_path: Path) -> None:
    inside: list[str] = []
    entered, leave = threading.Event(), threading.Event()

    def first() -> None:
        with one_at_a_time(tmp_path):
            entered.set()
            leave.wait(10)
            inside.append("first")

    def second() -> None:
        with one_at_a_time(tmp_path):
            inside.append("second")

    threads = [threading.Thread(target=first)]
    threads[0].start()
    assert entered.wait(10)
    threads.append(threading.Thread(target=second))
    threads[1].start()
    threads[1].join(0.1)
    leave.set()
    for thread in threads:
        thread.join(10)
    assert inside == ["first", "second"]
