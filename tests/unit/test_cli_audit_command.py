"""`audit` shows what it found, and its exit code says whether that is too much."""

import json
from pathlib import Path

import pytest

from memorypipe.cli.main import main
from memorypipe.table.table import MemoryTable
from tests.support.table_actions import actions, add


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A table with a question and two values of one thing."""
    table = MemoryTable.open(tmp_path / "table", backend="parquet", embedder="none")
    texts = ("Lives in Oslo", "Lives in Bergen", "Where is Bo?", "Owns a cat")
    table.commit(actions(*map(add, texts)), run_id="run")
    return str(tmp_path / "table")


def test_people_see_what_was_found_with_examples_and_the_next_step(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "--table", place]) == 0
    told = capsys.readouterr().out
    assert "questions        1 (25.0 %)" in told
    assert "Lives in Bergen  ↔  Lives in Oslo" in told
    assert "no vector (the table has no embedder)" in told
    assert f"memorypipe consolidate --table {place}" in told


def test_json_has_every_check(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--table", place, "--json", "--scope", "user_id=u1"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["status"], value["memories"], value["junk"]) == ("done", 4, 1)
    assert value["findings"]["contradictions"]["count"] == 1
    assert value["findings"]["duplicates"]["examples"] == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--max-junk", "1"], 0),
        (["--max-junk", "0"], 3),
        (["--max-junk", "10%"], 3),
        (["--max-contradictions", "0", "--max-duplicates", "0"], 3),
        (["--max-orphans", "0"], 0),
        (["--max-junk", "many"], 2),
    ],
)
def test_limits_decide_the_exit_code(
    place: str, capsys: pytest.CaptureFixture[str], words: list[str], code: int
) -> None:
    assert main(["audit", "--table", place, *words]) == code
    assert ("error:" in capsys.readouterr().err) == (code > 0)


def test_a_table_that_is_not_there_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "--table", str(tmp_path)]) == 1
    assert "no memory table" in capsys.readouterr().err
