"""Moving memories in and out, and changing them by hand, on the command line of one process."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from memorypipe import ids
from memorypipe.cli.main import main
from memorypipe.table.parquet.mirror import MIRROR_FILE
from memorypipe.table.table import MemoryTable
from tests.support.table_actions import actions, add, minted, update

Run = Callable[..., tuple[int, dict[str, Any]]]

_TEA, _DOG = minted("Likes tea"), minted("Has a dog")
_FORGOT = f"forget-{ids.digest(_DOG, size=8).hex()}"


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


@pytest.mark.parametrize(
    ("text", "source", "code"), [("", "jsonl", 0), ('{"note": ""}\n', "mem0", 3)]
)
def test_an_export_without_a_record_is_no_internal_error(
    run: Run, tmp_path: Path, text: str, source: str, code: int
) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text(text)
    found, value = run("import", str(path), "--from", source)
    assert (found, value["added"], value["rejected_lines"]) == (code, 0, len(text.splitlines()))
    assert run("verify", "--against", str(path), "--from", source)[0] == code


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
    assert "add --format parquet or jsonl, or end" in value["error"]
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
    assert main(["search", "coffee", "--scope", "user=u1", "--table", place]) == 0
    assert "scopes are matched whole: user_id=u1." in capsys.readouterr().err
    told = said("forget", _DOG)
    assert told.startswith(f"forgotten  1 gone  {_FORGOT}")
    assert f"memorypipe undo {_FORGOT} --table {place}" in told
    assert f"memorypipe undo {_FORGOT}" in said("undo").splitlines()[-1]
    told = said("verify", "--against", out, "--from", "jsonl")
    assert told.startswith("complete")
    assert "1  deleted here since" in told


def _mirrored(place: Path) -> list[str]:
    return sorted(pq.read_table(place / MIRROR_FILE)["text"].to_pylist())


def test_every_command_that_changes_memories_keeps_the_mirror_up(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "mirror"
    mirror = ("--mirror", str(place))
    run("forget", _DOG, *mirror)
    assert _mirrored(place) == ["Likes coffee"]
    run("restore", _DOG, *mirror)
    assert _mirrored(place) == ["Has a dog", "Likes coffee"]
    run("undo", "second", *mirror)
    assert _mirrored(place) == ["Has a dog", "Likes tea"]
    notes = tmp_path / "notes.jsonl"
    notes.write_text('{"text": "Plays chess", "scope": {"user_id": "u1"}}\n')
    run("import", str(notes), "--from", "jsonl", "--run-id", "more", *mirror)
    assert _mirrored(place) == ["Has a dog", "Likes tea"]
    run("apply", "more", *mirror)
    assert _mirrored(place) == ["Has a dog", "Likes tea", "Plays chess"]
    run("undo", "more", *mirror)
    run("import", str(notes), "--from", "jsonl", "--yes", *mirror)
    requests = tmp_path / "requests.jsonl"
    requests.write_text(json.dumps({"memory_id": _DOG}) + "\n")
    receipt = ("--receipt", str(tmp_path / "receipt.json"))
    run("erase", "--requests", str(requests), *receipt, "--yes", *mirror)
    assert _mirrored(place) == ["Likes tea"]
    monkeypatch.setenv("MEMORYPIPE_MIRROR", str(place))
    assert run("reembed", "--embedder", "none")[0] == 0
    assert pq.read_table(place / MIRROR_FILE)["vector"].null_count == 1
    assert run("forget", _TEA)[0] == 0
    assert _mirrored(place) == []


def test_configure_shows_and_changes_the_settings_of_a_table(run: Run, place: str) -> None:
    code, value = run("configure")
    assert (code, value["status"], value["version"]) == (0, "unchanged", 2)
    assert (value["revision_ttl_days"], value["artifact_ttl_days"]) == (365, 30)
    code, value = run("configure", "--revision-ttl-days", "7", "--artifact-ttl-days", "never")
    assert (code, value["status"], value["version"]) == (0, "done", 3)
    assert (value["revision_ttl_days"], value["artifact_ttl_days"]) == (7, None)
    settings = MemoryTable.open(place).settings
    assert (settings.revision_ttl_days, settings.artifact_ttl_days) == (7, None)
    assert run("configure", "--revision-ttl-days", "7")[1]["status"] == "unchanged"
    for wrong in ("-1", "soon", "1.5"):
        code, value = run("configure", f"--artifact-ttl-days={wrong}")
        assert code == 2
        assert f"--artifact-ttl-days {wrong!r}" in value["error"]
    assert run("configure", table=place + "-no")[0] == 1


def test_an_import_says_where_it_comes_from_and_what_it_leaves_out(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = str(tmp_path / "new")
    words = ("--from", "jsonl", "--map", "external_id=id", "--scope", "user_id==u1")

    def notes(name: str, text: str) -> str:
        path = tmp_path / name
        path.write_text(json.dumps({"id": "1", "text": text, "vector": [1.0]}) + "\n")
        return str(path)

    first = notes("a.jsonl", "Likes tea")
    code, value = run("import", first, *words, "--yes", "--backend", "parquet", table=new)
    assert (code, value["added"], value["vectors_left_out"]) == (0, 1, 1)
    assert MemoryTable.open(new, backend="parquet", create=False).count() == 1
    assert run("import", first, *words, "--backend", "lance", table=new)[0] == 2
    other = notes("b.jsonl", "Runs")
    code, value = run("import", other, *words, "--yes", table=new)
    assert (code, value["rejected_lines"]) == (3, 1)
    assert run("import", other, *words, "--update", table=new)[1]["updated"] == 1
    crm = (*words, "--store", "crm")
    assert run("import", other, *crm, "--yes", table=new)[1]["added"] == 1
    assert run("verify", "--against", other, *crm, table=new)[1]["found"] == 1
    capsys.readouterr()
    main(["import", notes("c.jsonl", "Sings"), *crm, "--yes", "--table", new])
    told = capsys.readouterr().out
    assert "(jsonl) · 1 record\n" in told
    assert "vectors   1 are not taken over" in told
    assert "--scope user_id==u1 --store crm" in told


def test_the_type_of_a_memory_tells_which_one_is_meant_by_an_id(run: Run, place: str) -> None:
    both = [add(text, memory_id="1", record_type=text) for text in ("fact", "guideline")]
    MemoryTable.open(place).commit(actions(*both), run_id="third")
    assert main(["forget", "1", "--table", place]) == 2
    assert run("forget", "1", "--record-type", "fact")[1]["deleted"] == 1
    assert "guideline" in _texts(run)
    code, value = run("history", "1", "--record-type", "fact")
    assert (code, [row["event"] for row in value["revisions"]]) == (0, ["ADD", "FORGET"])
    assert run("restore", "1", "--record-type", "fact")[1]["added"] == 1
