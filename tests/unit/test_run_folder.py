"""A run's folder belongs to one process at a time."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memorypipe.errors import PlanError
from memorypipe.pipeline.runs.folder import RunFolder

_NOW = datetime(2025, 1, 1, tzinfo=UTC)


def _take(table: Path, now: datetime = _NOW) -> RunFolder:
    with RunFolder.scratch(str(table)) as scratch:
        (scratch.path / "mine").touch()
        return scratch.become("r", now=now)


def test_the_same_run_started_twice_leaves_the_folder_to_the_first(tmp_path: Path) -> None:
    folder = _take(tmp_path)
    (folder.path / "facts").mkdir()
    with pytest.raises(PlanError, match=r"Run 'r' is under way already: process \d+ on"):
        _take(tmp_path, _NOW + timedelta(seconds=50))
    assert (folder.path / "facts").exists()
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["r"]


def test_a_run_that_crashed_is_taken_over(tmp_path: Path) -> None:
    (_take(tmp_path).path / "facts").mkdir()
    folder = _take(tmp_path, _NOW + timedelta(minutes=2))
    assert sorted(path.name for path in folder.path.iterdir()) == ["mine", "run.json"]


@pytest.mark.parametrize("status", ["planned", "failed", "stopped"])
def test_a_run_that_came_to_its_end_is_taken_over(tmp_path: Path, status: str) -> None:
    folder = _take(tmp_path)
    folder.write_json("run", {**folder.read_json("run"), "status": status})
    assert _take(tmp_path).read_json("run")["status"] == "running"


def test_a_run_whose_plan_is_being_applied_is_not_taken_over(tmp_path: Path) -> None:
    folder = _take(tmp_path)
    folder.write_json("run", {**folder.read_json("run"), "status": "planned"})
    with folder.applying():
        assert folder.is_applied_now()
        with pytest.raises(PlanError, match=r"The plan of run 'r' is being applied"):
            _take(tmp_path)
    assert not folder.is_applied_now()
    _take(tmp_path)


def test_nothing_is_made_where_the_plan_of_a_run_that_is_not_there_is_applied(
    tmp_path: Path,
) -> None:
    with (
        pytest.raises(PlanError, match="There is no run 'r'"),
        RunFolder(tmp_path / "r").applying(),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_what_an_earlier_try_left_without_a_record_is_gone(tmp_path: Path) -> None:
    (tmp_path / "runs" / "r" / "facts").mkdir(parents=True)
    assert not (_take(tmp_path).path / "facts").exists()
