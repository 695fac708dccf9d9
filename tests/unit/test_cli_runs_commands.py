"""What ran is what the table says, and what the run folders add to it."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memorypipe.cli.options import RunsOptions, RunsShowOptions
from memorypipe.cli.runs_commands import list_runs, merge_runs, show_run
from memorypipe.llm.batch.records import BatchRecord
from memorypipe.pipeline.batch_folder import batch_folder
from memorypipe.pipeline.runs.folder import RunFolder
from memorypipe.pipeline.runs.summary import RunSummary

_MAY, _JUNE = datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 6, 1, tzinfo=UTC)


def test_a_committed_run_is_done_whatever_its_folder_says() -> None:
    recorded = [{"run_id": "r", "status": "planned", "at": _MAY, "added": 9, "facts": 3}]
    committed = [{"run_id": "r", "at": _JUNE, "added": 2}]
    assert merge_runs(committed, recorded) == [
        {"run_id": "r", "status": "done", "at": _JUNE, "added": 2, "facts": 3}
    ]


def test_a_run_that_left_windows_open_stays_partial() -> None:
    recorded = [{"run_id": "r", "status": "partial", "at": _MAY}]
    assert merge_runs([{"run_id": "r", "at": _MAY}], recorded)[0]["status"] == "partial"


def test_plans_and_old_runs_without_a_folder_are_there_too_oldest_first() -> None:
    recorded = [{"run_id": "a-plan", "status": "planned", "at": _JUNE}]
    runs = merge_runs([{"run_id": "z-old", "at": _MAY}], recorded)
    assert [(run["run_id"], run["status"]) for run in runs] == [
        ("z-old", "done"),
        ("a-plan", "planned"),
    ]


def _left_behind(table: Path, **changes: Any) -> None:
    folder = RunFolder.of(str(table), "run_1")
    folder.path.mkdir(parents=True)
    summary = RunSummary(run_id="run_1", status="running", windows=9, attempts=4)
    times = dict.fromkeys(("started_at", "heartbeat_at"), _MAY.isoformat())
    so_far = {"stage": "extract", "windows_done": 3, **times}
    folder.write_json("run", {**summary.to_dict(), **so_far, **changes})


def test_a_run_that_fell_silent_is_listed_as_crashed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _left_behind(tmp_path)
    assert list_runs(RunsOptions(table=str(tmp_path))) == 0
    assert "crashed" in capsys.readouterr().out


def test_a_run_that_has_not_come_to_its_end_shows_how_far_it_came_and_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _left_behind(tmp_path)
    assert show_run(RunsShowOptions(run="run_1", table=str(tmp_path))) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("crashed  run_1")
    assert "it ended in the middle (extract, 3 of 9 windows)" in shown
    assert "The same command goes on from there" in shown
    assert "memorypipe apply" not in shown


def test_a_run_that_goes_on_is_said_to_do_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _left_behind(tmp_path, heartbeat_at=datetime(9999, 1, 1, tzinfo=UTC).isoformat())
    show_run(RunsShowOptions(run="run_1", table=str(tmp_path)))
    assert "still running: extract, 3 of 9 windows" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("status", "error"), [("failed", "the key is wrong"), ("stopped", "interrupted")]
)
def test_what_ended_a_run_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], status: str, error: str
) -> None:
    _left_behind(tmp_path, status=status, error=error)
    show_run(RunsShowOptions(run="run_1", table=str(tmp_path)))
    shown = capsys.readouterr().out
    assert shown.startswith(f"{status}  run_1")
    assert f"(extract, 3 of 9 windows): {error}" in shown


def test_open_batches_of_a_run_are_shown_and_those_of_others_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _left_behind(tmp_path, stage="batch")
    sent = BatchRecord(
        name="a-0", run_id="run_1", endpoint="e", model="m", requests=50_000, size_bytes=1
    )
    folder = batch_folder(str(tmp_path))
    folder.save(replace(sent, state="created", batch_id="batch_7"))
    folder.save(replace(sent, name="b-0", requests=9))
    folder.save(replace(sent, name="c-0", run_id="run_2", requests=1234))
    assert show_run(RunsShowOptions(run="run_1", table=str(tmp_path))) == 0
    shown = capsys.readouterr().out
    assert "batch of 50,000 requests: batch_7" in shown
    assert "batch of 9 requests: not sent yet (written)" in shown
    assert "1,234" not in shown
