"""A table whose ids and hashes have a key, on every back end."""

import pickle
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memorypipe import ids
from memorypipe.errors import InvalidArgumentError
from memorypipe.id_key import read_id_key
from memorypipe.pipeline.imports.importing import apply_import, plan_import
from memorypipe.pipeline.imports.mapping import make_mapping
from memorypipe.pipeline.imports.verify import verify_import
from memorypipe.table.table import MemoryTable
from tests.support.table_actions import USER, SteppingClock, actions, add, minted

SECRET = "correct horse battery staple"


@pytest.fixture
def keyed(tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch) -> MemoryTable:
    monkeypatch.setenv("TEAM_KEY", SECRET)
    return MemoryTable.open(
        tmp_path / "keyed",
        backend=backend,
        embedder="none",
        id_key="env:TEAM_KEY",
        clock=SteppingClock(),
    )


def _add(text: str, **more: object) -> object:
    return add(text, **{"memory_id": None, **more})


def test_nothing_in_its_rows_is_a_hash_that_anybody_can_make(keyed: MemoryTable) -> None:
    keyed.commit(actions(_add("Likes tea")), run_id="r1")
    (row,) = keyed.to_arrow().to_pylist()
    key = ids.scope_key(USER)
    own = read_id_key("env:TEAM_KEY", {"TEAM_KEY": SECRET})
    assert row["memory_id"] == ids.memory_id("memory", key, "Likes tea", key=own)
    assert row["text_hash"] == ids.text_hash("Likes tea", key=own)
    shown = str(row)
    assert minted("Likes tea") not in shown
    assert ids.text_hash("Likes tea") not in shown


def test_what_it_says_already_is_a_duplicate_and_what_was_forgotten_stays_away(
    keyed: MemoryTable,
) -> None:
    keyed.commit(actions(_add("Likes tea")), run_id="r1")
    assert keyed.commit(actions(_add(" likes  TEA")), run_id="r2").duplicates == 1
    (row,) = keyed.to_arrow().to_pylist()
    keyed.forget(row["memory_id"])
    assert keyed.commit(actions(_add("Likes tea")), run_id="r3").blocked == 1
    later = datetime(2030, 1, 1, tzinfo=UTC)
    keyed.commit(actions(_add("Likes tea", event_time=later)), run_id="r4")
    own = read_id_key("env:TEAM_KEY", {"TEAM_KEY": SECRET})
    second = ids.memory_id("memory", ids.scope_key(USER), "Likes tea", 1, key=own)
    assert keyed.to_arrow()["memory_id"].to_pylist() == [second]


def test_it_is_read_without_the_key_and_written_with_it_alone(
    keyed: MemoryTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyed.commit(actions(_add("Likes tea")), run_id="r1")
    monkeypatch.delenv("MEMORYPIPE_ID_KEY", raising=False)
    plain = MemoryTable.open(keyed.uri, create=False)
    assert plain.to_arrow().num_rows == 1
    with pytest.raises(InvalidArgumentError, match="'env:MEMORYPIPE_ID_KEY' gives no key"):
        plain.commit(actions(_add("Has a cat")), run_id="r2")
    monkeypatch.setenv("MEMORYPIPE_ID_KEY", SECRET)
    plain.commit(actions(_add("Has a cat")), run_id="r2")
    assert plain.to_arrow().num_rows == 2


def test_another_key_is_refused_at_once_and_none_of_it_is_shown(
    keyed: MemoryTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_KEY", "quite another secret key")
    with pytest.raises(InvalidArgumentError, match="another key") as caught:
        MemoryTable.open(keyed.uri, create=False, id_key="env:OTHER_KEY")
    assert "secret" not in str(caught.value)


def test_a_table_that_was_made_without_one_gets_none(table: MemoryTable) -> None:
    with pytest.raises(InvalidArgumentError, match="made without id_key"):
        MemoryTable.open(table.uri, id_key="env:TEAM_KEY")


def test_it_is_pickled_without_its_key_and_no_file_of_it_holds_it(keyed: MemoryTable) -> None:
    keyed.commit(actions(_add("Likes tea")), run_id="r1")
    own = read_id_key("env:TEAM_KEY", {"TEAM_KEY": SECRET})
    held = [pickle.dumps(keyed)]
    held += [path.read_bytes() for path in Path(keyed.uri).rglob("*") if path.is_file()]
    for data in held:
        assert SECRET.encode() not in data
        assert own not in data
        assert own.hex().encode() not in data


def test_an_import_and_its_proof_know_what_a_keyed_table_has(
    keyed: MemoryTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = tmp_path / "export.jsonl"
    export.write_text('{"id": "a1", "memory": "Likes tea", "user_id": "u1"}\n')
    mapping = make_mapping("mem0")
    planned = plan_import(keyed.uri, str(export), mapping, id_key="env:TEAM_KEY")
    assert apply_import(planned, id_key="env:TEAM_KEY").added == 1
    assert minted("Likes tea") not in keyed.to_arrow()["memory_id"].to_pylist()
    again = plan_import(keyed.uri, str(export), mapping, run_id="again", id_key="env:TEAM_KEY")
    assert again.summary().none == 1
    assert verify_import(keyed, str(export), mapping).is_complete
    monkeypatch.setenv("MEMORYPIPE_ID_KEY", "quite another secret key")
    with pytest.raises(InvalidArgumentError, match="with another key"):
        apply_import(again)
