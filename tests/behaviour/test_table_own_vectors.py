"""Vectors that the caller made are made by nobody else: they come back with what they are of."""

from pathlib import Path

import pytest

from memorypipe.table.table import MemoryTable
from tests.support.embedders import LetterEmbedder
from tests.support.table_actions import SteppingClock, actions, add, delete, minted, update

TEA, CAT = minted("Likes tea"), minted("Has a cat")
ONE, TWO = [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]


@pytest.fixture
def own(tmp_path: Path, backend: str) -> MemoryTable:
    """A table with the caller's own vectors, and two memories of which one has a vector."""
    table = MemoryTable.open(
        tmp_path / "table", backend=backend, vector_dim=4, clock=SteppingClock()
    )
    table.commit(actions(add("Likes tea", vector=ONE), add("Has a cat")), run_id="r1")
    return table


def vectors(table: MemoryTable) -> dict[str, list[float] | None]:
    rows = table.to_arrow(columns=["text", "vector"]).to_pylist()
    return {row["text"]: row["vector"] for row in rows}


def found(table: MemoryTable, vector: list[float]) -> list[str]:
    rows = table.search(scope={"user_id": "u1"}, vector=vector)
    texts: list[str] = rows["text"].to_pylist()
    return texts


def test_undo_brings_them_back_and_its_undo_the_later_ones(own: MemoryTable) -> None:
    before = vectors(own)
    both = actions(update(TEA, "Likes coffee", vector=TWO), update(CAT, "Has a dog"))
    own.commit(both, run_id="r2")
    after = vectors(own)
    own.undo("r2")
    assert vectors(own) == before == {"Likes tea": ONE, "Has a cat": None}
    own.undo("undo-r2")
    assert vectors(own) == after == {"Likes coffee": TWO, "Has a dog": None}


def test_they_come_back_with_what_was_deleted_or_forgotten(own: MemoryTable) -> None:
    own.commit(actions(delete(TEA)), run_id="r2")
    own.restore(TEA)
    assert found(own, ONE) == ["Likes tea"]
    own.forget(TEA)
    assert own.undo(own.runs()["run_id"].to_pylist()[-1]).added == 1
    assert found(own, ONE) == ["Likes tea"]


def test_no_search_finds_what_they_are_kept_for(own: MemoryTable) -> None:
    own.commit(actions(update(TEA, "Likes coffee")), run_id="r2")
    own.optimize()
    assert found(own, ONE) == []
    assert own.as_of(1).to_arrow(columns=["vector"])["vector"].null_count == 1
    own.forget(TEA)
    rows = own.history(TEA).to_pylist()
    assert [row["vector"] for row in rows] == [ONE, None, None]


def test_vectors_of_an_embedder_are_made_anew_and_kept_on_nothing_old(own: MemoryTable) -> None:
    own.commit(actions(update(TEA, "Likes coffee", vector=TWO)), run_id="r2")
    own.reembed(LetterEmbedder(4))
    assert [row["vector"] is None for row in own.history(TEA).to_pylist()] == [True, False]
    made = vectors(own)
    own.commit(actions(update(TEA, "abc")), run_id="r3")
    assert [row["vector"] is None for row in own.history(TEA).to_pylist()] == [True, True, False]
    own.undo("r3")
    assert vectors(own) == made
