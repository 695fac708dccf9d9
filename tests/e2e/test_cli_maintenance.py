"""The commands that look after a table, from words to exit code, output and files."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from memorypipe.cli.main import main
from memorypipe.table.table import MemoryTable
from tests.support.erasable import fill_run, fill_table, key_of, marker_of, scope_of
from tests.support.table_actions import actions, add

_WORDS = ["--scope", "user_id=person-00001", "--scope", "agent_id=assistant"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a table of three scopes, and requests to erase one of them."""
    fill_table(MemoryTable.open(tmp_path / "table", backend="parquet"), range(3))
    requests = json.dumps({"scope": scope_of(1), "id": "ticket 7"})
    (tmp_path / "requests.jsonl").write_text(requests + "\n")
    return tmp_path


def table_of(place: Path) -> MemoryTable:
    return MemoryTable.open(place / "table", create=False)


def erase(place: Path, *words: str) -> int:
    table, requests = str(place / "table"), str(place / "requests.jsonl")
    return main(["erase", "--table", table, "--requests", requests, *words])


def value_of(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    value = json.loads(capsys.readouterr().out)
    assert isinstance(value, dict)
    return value


def test_an_erasure_writes_a_receipt_and_says_what_it_did(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    receipt = place / "receipt.json"
    assert erase(place, "--receipt", str(receipt), "--yes") == 0
    told = capsys.readouterr().out
    assert "memories with 3 revisions" in told
    assert "nothing was found again" in told
    assert "1 scopes stay blocked" in told
    written = json.loads(receipt.read_text())
    assert (written["complete"], written["requests"][0]["id"]) == (True, "ticket 7")
    assert table_of(place).count(scope_of(1)) == 0
    assert table_of(place).count(scope_of(0)) == 2


def test_json_is_the_receipt(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    receipt = place / "receipt.json"
    assert erase(place, "--receipt", str(receipt), "--yes", "--json") == 0
    assert value_of(capsys) == {"status": "done", **json.loads(receipt.read_text())}


def test_a_dry_run_shows_what_would_go_and_changes_nothing(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert erase(place, "--dry-run", "--json") == 0
    value = value_of(capsys)
    assert (value["status"], value["would_remove"]["memories"]) == ("preview", 2)
    assert table_of(place).version == 2


def test_nobody_is_erased_without_a_yes(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))  # a pipe is nobody who was asked
    assert erase(place, "--receipt", str(place / "receipt.json")) == 2
    assert "--yes" in capsys.readouterr().err
    assert table_of(place).version == 2
    assert not (place / "receipt.json").exists()


@pytest.mark.parametrize(
    ("receipt", "told"),
    [
        (None, "needs --receipt"),
        ("table/receipt.json", "must not lie in the table's folder"),
        ("requests.jsonl", "never replaces one"),
        ("nowhere/receipt.json", "folder is missing"),
    ],
)
def test_without_a_place_for_the_receipt_nothing_is_erased(
    place: Path, capsys: pytest.CaptureFixture[str], receipt: str | None, told: str
) -> None:
    words = [] if receipt is None else ["--receipt", str(place / receipt)]
    assert erase(place, "--yes", *words) == 2
    assert told in capsys.readouterr().err
    assert table_of(place).version == 2


def test_requests_that_cannot_be_read_are_told(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "requests.jsonl").write_text('{"user": "u1"}\n')
    assert erase(place, "--dry-run") == 2
    assert "Line 1 of the requests" in capsys.readouterr().err
    (place / "requests.jsonl").unlink()
    assert erase(place, "--dry-run") == 2
    assert "cannot be read" in capsys.readouterr().err


def test_what_is_found_again_is_told_and_ends_with_another_code(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "table" / "notes.txt").write_text(marker_of(1) + key_of(1))
    assert erase(place, "--receipt", str(place / "receipt.json"), "--yes") == 3
    told = capsys.readouterr().out
    assert "found again in 1 files" in told
    assert "notes.txt" in told
    assert json.loads((place / "receipt.json").read_text())["complete"] is False


def test_an_unblocked_scope_takes_memories_in_again(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert erase(place, "--receipt", str(place / "receipt.json"), "--yes") == 0
    table = str(place / "table")
    capsys.readouterr()
    assert main(["unblock", "--table", table, *_WORDS]) == 0
    assert "takes memories in again" in capsys.readouterr().out
    assert main(["unblock", "--table", table, *_WORDS, "--json"]) == 0
    assert value_of(capsys)["unblocked"] is False
    assert table_of(place).commit(actions(add("New", scope=scope_of(1))), run_id="n").added == 1


def test_vacuum_says_what_it_removed_and_kept(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = table_of(place)
    fill_run(table, "waiting", range(2), status="planned")
    table.configure(revision_ttl_days=0)
    table.commit(actions(add("New", scope=scope_of(1))), run_id="n", revisions=False)
    assert main(["vacuum", "--table", table.uri, "--older-than", "0", "--json"]) == 0
    value = value_of(capsys)
    assert (value["status"], value["kept_runs"]) == ("done", 1)
    assert value["size_after"] < value["size_before"]
    assert main(["vacuum", "--table", table.uri]) == 0
    told = capsys.readouterr().out
    assert "removed nothing" in told
    assert "kept: 1 run not committed" in told


def test_optimize_changes_no_row(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = table_of(place).to_arrow()
    assert main(["optimize", "--table", str(place / "table"), "--json"]) == 0
    assert value_of(capsys)["status"] == "done"
    assert table_of(place).to_arrow().equals(before)


@pytest.mark.parametrize(
    "words",
    [["optimize"], ["vacuum"], ["unblock", "--scope", "user_id=u1"]],
    ids=lambda words: words[0],
)
def test_a_table_that_is_not_there_is_not_made(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--table", str(tmp_path / "none")]) == 1
    assert "no memory table" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
