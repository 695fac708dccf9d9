"""What ran is what the table says, and what the run folders add to it."""

from datetime import UTC, datetime

from memorypipe.cli.runs_commands import merge_runs

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
