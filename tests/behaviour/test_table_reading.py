"""What a reader sees, on every back end."""

import pickle
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from memorypipe import ids
from memorypipe.errors import InvalidArgumentError, TableNotFoundError
from memorypipe.schema import table_schema
from memorypipe.table.table import MemoryTable
from memorypipe.table.times import now_utc
from tests.support.table_actions import (
    START,
    USER,
    actions,
    add,
    delete,
    ledger,
    ledger_key,
    minted,
    update,
)

TEA, CAT = minted("Likes tea"), minted("Has a cat")

AWKWARD = ["a'b", "a''b", 'x" OR 1=1', "x' OR '1'='1", "line\nbreak", "a&b=c", "back\\slash", "ü✓"]


def test_a_new_table_is_empty_at_version_0(table: MemoryTable) -> None:
    assert (table.version, table.count(), table.runs().num_rows) == (0, 0, 0)
    assert table.to_arrow(include=["live", "history"]).schema.equals(table_schema())
    assert table.commit_time == START + timedelta(seconds=1)
    assert table.ledger_keys().to_pylist() == []


def test_a_missing_table_is_made_only_on_request(tmp_path: Path, backend: str) -> None:
    place = tmp_path / "none"
    assert not MemoryTable.exists(place)
    with pytest.raises(TableNotFoundError, match="create=True"):
        MemoryTable.open(place, backend=backend, create=False)
    assert not place.exists()
    MemoryTable.open(place, backend=backend)
    assert MemoryTable.exists(place)


def test_an_unknown_backend_is_refused_with_the_choices(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"'sqlite'.*'lance'"):
        MemoryTable.open(tmp_path, backend="sqlite")


def test_the_vector_width_is_the_tables(tmp_path: Path, backend: str) -> None:
    MemoryTable.open(tmp_path / "t", backend=backend, vector_dim=8)
    table = MemoryTable.open(tmp_path / "t")
    table.commit(actions(add("Likes tea")), run_id="r1")
    assert table.vector_dim == 8
    assert table.to_arrow().schema.equals(table_schema(8))
    with pytest.raises(InvalidArgumentError, match="8 dimensions"):
        MemoryTable.open(tmp_path / "t", vector_dim=9)


def test_an_open_table_sees_what_others_commit(
    table: MemoryTable, reopen: Callable[[], MemoryTable]
) -> None:
    other = reopen()
    table.commit(actions(add("Likes tea")), run_id="r1")
    assert (other.version, other.count()) == (1, 1)


def test_a_table_can_be_sent_to_another_process(tmp_path: Path, backend: str) -> None:
    table = MemoryTable.open(tmp_path / "t", backend=backend, clock=now_utc)
    table.commit(actions(add("Likes tea")), run_id="r1")
    copy = pickle.loads(pickle.dumps(table))  # noqa: S301  # our own bytes
    assert copy.count() == 1


def test_a_scope_is_matched_exactly(table: MemoryTable) -> None:
    wider = USER | {"agent_id": "a1"}
    table.commit(actions(add("one"), add("two", scope=wider), add("three", scope={})), run_id="r1")
    found = {
        name: table.to_arrow(scope=scope, columns=["text"])["text"].to_pylist()
        for name, scope in {"user": USER, "wider": wider, "unscoped": {}}.items()
    }
    assert found == {"user": ["one"], "wider": ["two"], "unscoped": ["three"]}
    assert table.count() == 3
    assert table.count(scope={"user_id": "nobody"}) == 0


@pytest.mark.parametrize("value", AWKWARD)
def test_no_scope_or_id_can_widen_a_read(table: MemoryTable, value: str) -> None:
    scope = {"user_id": value}
    table.commit(
        actions(add("mine", scope=scope, memory_id=value), add("other"), add("more", scope={})),
        run_id=value,
    )
    assert table.to_arrow(scope=scope, columns=["text"])["text"].to_pylist() == ["mine"]
    assert table.read_scopes([ids.scope_key(scope)])["text"].to_pylist() == ["mine"]
    row = table.get(value)
    assert row is not None
    assert (row["text"], row["scope"], row["user_id"]) == ("mine", scope, value)
    table.commit(actions(update(value, "mine still", scope=scope)), run_id=value, part=1)
    assert table.history(value)["text"].to_pylist() == ["mine", "mine still"]
    assert table.runs()["run_id"].to_pylist() == [value, value]
    assert table.count() == 3


def test_include_chooses_states(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea"), add("Has a cat"), add("Runs")), run_id="r1")
    table.commit(actions(update(TEA, "Likes coffee"), delete(CAT)), run_id="r2")

    def events(*include: str) -> list[tuple[str, str]]:
        rows = table.to_arrow(columns=["event", "text"], include=include).to_pylist()
        return sorted((row["event"], row["text"]) for row in rows)

    assert events("live") == [("ADD", "Runs"), ("UPDATE", "Likes coffee")]
    assert events("deleted") == [("DELETE", "")]
    assert events("history") == [("ADD", "Has a cat"), ("ADD", "Likes tea")]
    assert len(events("live", "deleted", "history", "expired", "invalid")) == 5
    assert events() == []
    with pytest.raises(InvalidArgumentError, match="'gone'"):
        events("gone")


def test_columns_are_chosen_and_checked(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    assert table.to_arrow(columns=["text", "memory_id"]).column_names == ["text", "memory_id"]
    assert list(table.to_pandas(columns=["text"])["text"]) == ["Likes tea"]
    with pytest.raises(InvalidArgumentError, match=r"'txt'.*'text'"):
        table.to_arrow(columns=["txt"])


def test_rows_come_in_one_order(table: MemoryTable) -> None:
    scopes = [{"user_id": name} for name in ("b", "a")]
    for number, scope in enumerate(scopes * 2):
        table.commit(actions(add(f"text {number}", scope=scope)), run_id=f"r{number}")
    read = table.to_arrow(columns=["text"])["text"].to_pylist()
    assert read == ["text 1", "text 3", "text 0", "text 2"]


def test_many_scopes_are_read_in_one_pass(table: MemoryTable) -> None:
    scopes = [{"user_id": f"u{number}"} for number in range(5)]
    table.commit(actions(*(add("same", scope=scope) for scope in scopes)), run_id="r1")
    keys = [ids.scope_key(scope) for scope in (scopes[3], scopes[1])]
    rows = table.read_scopes(keys, columns=["scope_key", "text"])
    assert sorted(rows["scope_key"].to_pylist()) == sorted(keys)
    assert table.read_scopes([]).num_rows == 0


def test_history_is_oldest_first_and_empty_for_a_stranger(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    table.commit(actions(update(TEA, "Likes coffee")), run_id="r2")
    table.commit(actions(delete(TEA)), run_id="r3")
    assert table.history(TEA)["event"].to_pylist() == ["ADD", "UPDATE", "DELETE"]
    assert table.history("mem_nowhere").num_rows == 0
    assert table.get("mem_nowhere") is None


def test_a_version_reads_as_it_stood(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea"), add("Has a cat")), run_id="r1")
    pinned = table.at(1)
    before = pinned.to_arrow()
    history = pinned.history(TEA)
    table.commit(actions(update(TEA, "Likes coffee"), add("Runs")), run_id="r2")
    table.commit(actions(delete(CAT)), run_id="r3")
    assert pinned.to_arrow().equals(before)
    assert pinned.history(TEA).equals(history)
    assert (pinned.version, pinned.commit_time) == (1, before["valid_from"][0].as_py())
    assert pinned.get(TEA) == table.at(1).get(TEA)
    assert [table.at(version).count() for version in range(4)] == [0, 2, 3, 2]
    assert table.at(3).to_arrow().equals(table.to_arrow())
    for wrong in (-1, 4):
        with pytest.raises(InvalidArgumentError, match="0 to 3"):
            table.at(wrong)


def test_runs_tell_who_did_what(table: MemoryTable) -> None:
    table.commit(
        actions(add("Likes tea", model="m", prompt_hash="p1"), add("Runs", prompt_hash="p2")),
        run_id="r1",
        info={"tokens": 12, "nested": {"a": [1.5, None]}},
        labels={"who": "me"},
        ledger=ledger("m1", "m2"),
    )
    table.commit(actions(delete(TEA)), run_id="r2", base_version=1)
    first, second = table.runs().to_pylist()
    assert (first["run_id"], first["commit_number"], first["added"]) == ("r1", 1, 2)
    assert (first["model"], first["prompt_hash"]) == ("m", None)
    assert (dict(first["labels"]), first["ledger_rows"]) == ({"who": "me"}, 2)
    assert first["info"] == '{"tokens":12,"nested":{"a":[1.5,null]}}'
    assert (second["run_id"], second["deleted"], second["base_version"]) == ("r2", 1, 1)
    assert second["committed_at"] == table.commit_time > first["committed_at"]


def test_ledger_keys_are_sorted_and_each_there_once(table: MemoryTable) -> None:
    table.commit(actions(), run_id="r1", ledger=ledger("m1", "m2"))
    table.commit(actions(), run_id="r2", ledger=ledger("m2", "m3", "m3"))
    expected = sorted(ledger_key(name) for name in ("m1", "m2", "m3"))
    assert table.ledger_keys().to_pylist() == expected
