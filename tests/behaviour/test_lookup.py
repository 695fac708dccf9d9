"""`LookupExisting` over a real table, computed at once."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from memorypipe import LookupExisting, MemoryTable
from memorypipe.errors import TableNotFoundError
from tests.support.table_actions import SteppingClock, actions, add

ANA, BEN = {"user_id": "ana"}, {"user_id": "ben"}


@pytest.fixture
def filled(tmp_path: Path) -> MemoryTable:
    table = MemoryTable.open(tmp_path / "table", clock=SteppingClock())
    texts = [("ana", "Likes green tea"), ("ana", "Owns a cat"), ("ben", "Plays the piano")]
    added = [add(text, scope={"user_id": user}) for user, text in texts]
    table.commit(actions(*added), run_id="r1")
    return table


def texts(cell: Any) -> list[str]:
    return [memory["text"] for memory in json.loads(cell.as_py())]


def test_a_row_sees_its_own_scope_and_no_other(filled: MemoryTable) -> None:
    lookup = LookupExisting(filled, strategy="all")
    scopes = [ANA, '{"user_id": "ben"}', [("user_id", "cem")], {"user_id": "ana", "agent_id": "x"}]
    cells = lookup(scopes, ['["tea"]'] * 4)
    assert sorted(texts(cells[0])) == ["Likes green tea", "Owns a cat"]
    assert texts(cells[1]) == ["Plays the piano"]
    assert texts(cells[2]) == texts(cells[3]) == []


def test_the_version_is_pinned_when_the_expression_is_made(filled: MemoryTable) -> None:
    lookup = LookupExisting(filled.uri, strategy="recent")
    filled.commit(actions(add("Plays the drums", scope=BEN)), run_id="r2")
    copy = pickle.loads(pickle.dumps(lookup))  # noqa: S301  # our own bytes
    assert texts(copy([BEN], [None])[0]) == ["Plays the piano"]
    now = LookupExisting(filled.uri, strategy="all")
    assert sorted(texts(now([BEN], [None])[0])) == ["Plays the drums", "Plays the piano"]


def test_without_a_table_it_says_so_at_once(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        LookupExisting(tmp_path / "nothing")


def test_undated_memories_come_in_the_order_of_their_commits(tmp_path: Path) -> None:
    table = MemoryTable.open(tmp_path / "table", clock=SteppingClock())
    for n in range(6):
        table.commit(actions(add(f"Fact {n}", scope=ANA)), run_id=f"r{n}")
    lookup = LookupExisting(table, strategy="recent", top_k=3)
    assert texts(lookup([ANA], [None])[0]) == ["Fact 5", "Fact 4", "Fact 3"]
