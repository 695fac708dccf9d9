"""`report` writes the page of a run, whatever became of it."""

import json
from pathlib import Path

import pytest

from memorypipe.cli.main import main
from memorypipe.pipeline.pipeline import MemoryPipeline
from memorypipe.pipeline.runs.folder import RunFolder
from memorypipe.table.table import MemoryTable
from tests.support.table_actions import actions, add


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A table with a planned consolidation: the one kind of run that needs no Ray."""
    uri = str(tmp_path / "table")
    table = MemoryTable.open(uri, backend="parquet", embedder="none")
    table.commit(actions(add("Owns a cat"), add("The user owns the cat.")), run_id="seed")
    MemoryPipeline.offline(uri).consolidate(run_id="tidy")
    return uri


def test_the_page_of_a_plan_tells_what_it_would_change(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.html"
    assert main(["report", "tidy", "--html", str(file), "--table", place]) == 0
    assert "written" in capsys.readouterr().out
    written = file.read_text(encoding="utf-8")
    assert "planned" in written
    assert "<del>The user owns the cat.</del>" in written
    assert "decide.prompt_hash" in written


@pytest.mark.usefixtures("capsys")
def test_texts_can_be_left_out(place: str, tmp_path: Path) -> None:
    file = tmp_path / "run.html"
    words = ["report", "tidy", "--html", str(file), "--table", place]
    assert main([*words, "--changes", "0"]) == 0
    assert "owns the cat" not in file.read_text(encoding="utf-8").lower()
    assert "2 changes in 1 scope; 0 of them are shown" in file.read_text(encoding="utf-8")


def test_a_run_that_has_not_come_to_its_end_has_a_page(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder.of(place, "half")
    folder.path.mkdir()
    at = "2024-05-01T00:00:00+00:00"
    record = {"run_id": "half", "status": "running", "heartbeat_at": at, "started_at": at}
    folder.write_json("run", {**record, "windows": 7})
    file = tmp_path / "run.html"
    assert main(["report", "half", "--html", str(file), "--table", place, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["html"] == str(file)
    assert "crashed" in file.read_text(encoding="utf-8")


def test_what_cannot_be_is_told(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "none", "--html", "x.html", "--table", place]) == 1
    gone = str(tmp_path / "no" / "run.html")
    assert main(["report", "tidy", "--html", gone, "--table", place]) == 2
    assert "--html" in capsys.readouterr().err
