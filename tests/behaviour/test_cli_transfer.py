"""Moving memories in and out, and changing them by hand, on the command line of one process."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from memorypipe.cli.main import main
from memorypipe.table.table import MemoryTable
from tests.support.table_actions import actions, add, minted, update

Run = Callable[..., tuple[int, dict[str, Any]]]

_TEA, _DOG = minted("Likes tea"), minted("Has a dog")


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A table with two memories of one user, one of them changed by a second run."""
    table = MemoryTable.open(tmp_path / "table")
    table.commit(actions(add("Likes tea"), add("Has a dog")), run_id="first")
    table.commit(actions(update(_TEA, "Likes coffee")), run_id="second")
    return table.uri


@pytest.fixture
def run(place: str, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command on the table; its exit code, and its result as JSON."""

    def command(*words: str, table: str = place) -> tuple[int, dict[str, Any]]:
        code = main([*words, "--table", table, "--json"])
        return code, json.loads(capsys.readouterr().out)

    return command


def _texts(run: Run, *words: str, **options: str) -> Sequence[str]:
    return sorted(row["text"] for row in run("show", *words, **options)[1]["memories"])


def test_what_is_exported_is_imported_proved_and_taken_back(run: Run, tmp_path: Path) -> None:
    out, new = str(tmp_path / "out.parquet"), str(tmp_path / "new")
    code, value = run("export", "--out", out, "--history")
    assert (code, value["rows"], value["format"], value["version"]) == (0, 3, "parquet", 2)
    code, planned = run("import", out, "--from", "parquet", table=new)
    assert (code, planned["status"], planned["added"]) == (0, "planned", 2)
    assert planned["skipped"] == {"superseded": 1}
    assert not MemoryTable.exists(new)
    code, applied = run("apply", planned["run_id"], table=new)
    assert (code, applied["status"], applied["added"], applied["kind"]) == (0, "done", 2, "import")
    assert _texts(run, table=new) == ["Has a dog", "Likes coffee"]
    code, proof = run("verify", "--against", out, "--from", "parquet", table=new)
    assert (code, proof["status"], proof["found"], proof["skipped"]) == (0, "complete", 2, 1)
    assert run("undo", planned["run_id"], table=new)[1]["deleted"] == 2
    code, proof = run("verify", "--against", out, "--from", "parquet", table=new)
    assert (code, proof["status"], proof["deleted_here"]) == (0, "complete", 2)


def test_verify_ends_with_5_where_a_record_is_missing_and_with_3_where_one_is_unreadable(
    run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "notes.jsonl"
    words = ("--from", "jsonl", "--map", "text=note", "--scope", "user_id==u1")
    path.write_text('{"note": "Likes coffee"}\n{"note": ""}\n')
    code, proof = run("verify", "--against", str(path), *words)
    assert (code, proof["found"], proof["said_elsewhere"], proof["rejected"]) == (3, 0, 1, 1)
    with path.open("a") as stream:
        stream.write('{"note": "Plays chess"}\n')
    code, proof = run("verify", "--against", str(path), *words)
    assert (code, proof["status"], proof["missing"]) == (5, "incomplete", 1)
    assert [each["line"] for each in proof["absent"]] == [1, 2, 3]
    assert run("import", str(path), *words, "--yes")[0] == 3
    assert run("import", str(path), *words, "--yes", "--max-rejected", "1")[0] == 0
    assert run("verify", "--against", str(path), *words)[0] == 3


def test_undo_takes_a_run_back_and_can_be_undone(run: Run) -> None:
    code, value = run("undo", "first")
    assert code == 5
    assert "'second'" in value["error"]
    assert "--cascade" in value["error"]
    code, value = run("undo", "second")
    assert (code, value["updated"], value["run_id"]) == (0, 1, "undo-second")
    assert _texts(run) == ["Has a dog", "Likes tea"]
    assert run("undo", "second")[1]["status"] == "unchanged"
    assert run("undo", value["run_id"])[0] == 0
    assert _texts(run) == ["Has a dog", "Likes coffee"]
    assert [each["run_id"] for each in run("undo")[1]["runs"]][:2] == ["first", "second"]
    assert run("undo", "--cascade")[0] == 2
    assert run("undo", "unknown")[0] == 1


def test_forget_takes_one_memory_or_a_scope_and_restore_brings_one_back(run: Run) -> None:
    assert run("forget")[0] == 2
    assert run("forget", "mem_unknown")[0] == 1
    code, value = run("forget", _DOG)
    assert (code, value["status"], value["deleted"]) == (0, "done", 1)
    assert run("forget", _DOG)[1] == {**value, "status": "unchanged", "run_id": None, "deleted": 0}
    assert _texts(run) == ["Likes coffee"]
    assert run("restore", _DOG)[1]["added"] == 1
    assert run("restore", _DOG)[0] == 1
    assert run("forget", "--scope", "user_id=u1")[1]["deleted"] == 2
    assert _texts(run) == []


def test_search_finds_in_one_scope_or_says_that_it_looks_in_all(run: Run) -> None:
    code, value = run("search", "hot coffee", "--scope", "user_id=u1", "--strategy", "keyword")
    assert code == 0
    assert [each["text"] for each in value["memories"]] == ["Likes coffee"]
    assert value["memories"][0]["score"] > 0
    assert value["memories"][0]["scope"] == {"user_id": "u1"}
    code, value = run("search", "dog", "--all-scopes", "--strategy", "keyword", "--top-k", "1")
    assert [each["memory_id"] for each in value["memories"]] == [_DOG]
    code, value = run("search", "dog", "--scope", "user_id=u2")
    assert (code, value["memories"]) == (0, [])
    assert run("search", "dog")[0] == 2
    assert run("search", "dog", "--all-scopes", "--scope", "user_id=u1")[0] == 2


def test_show_goes_back_to_a_version_or_a_time(run: Run, place: str) -> None:
    assert _texts(run, "--as-of", "1") == ["Has a dog", "Likes tea"]
    moment = MemoryTable.open(place).as_of(1).commit_time.isoformat()
    code, value = run("show", "--as-of", moment)
    assert (code, value["version"], value["total"]) == (0, 1, 2)
    assert run("show", "--as-of", "then")[0] == 2
    assert run("show", "--as-of", "9")[0] == 2


def test_an_export_needs_a_format_and_a_scope_narrows_it(run: Run, tmp_path: Path) -> None:
    out = str(tmp_path / "out.txt")
    code, value = run("export", "--out", out)
    assert code == 2
    assert "add --format" in value["error"]
    code, value = run("export", "--out", out, "--format", "jsonl", "--scope", "user_id=u2")
    assert (code, value["rows"], value["history"]) == (0, 0, False)


def test_people_are_told_what_was_done_and_what_to_do_next(
    place: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def said(*words: str) -> str:
        main([*words, "--table", place])
        return capsys.readouterr().out

    out = str(tmp_path / "out.jsonl")
    assert said("export", "--out", out).startswith(f"exported  2 memories of version 2 to {out}")
    told = said("import", out, "--from", "jsonl", "--run-id", "again")
    assert "+ 0 added   ~ 0 updated   2 already here" in told
    assert f"memorypipe apply again --table {place}" in told
    told = said("search", "coffee", "--scope", "user_id=u1", "--strategy", "keyword")
    assert "Likes coffee  user_id=u1" in told
    assert f"memorypipe history {_TEA} --table {place}" in told
    told = said("forget", _DOG)
    assert told.startswith(f"forgotten  1 gone  forget-{_DOG}")
    assert f"memorypipe undo forget-{_DOG} --table {place}" in told
    assert f"memorypipe undo forget-{_DOG}" in said("undo").splitlines()[-1]
    told = said("verify", "--against", out, "--from", "jsonl")
    assert told.startswith("complete")
    assert "1  deleted here since" in told
