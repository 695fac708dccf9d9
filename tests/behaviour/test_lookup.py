"""`LookupExisting` over a real table, computed at once."""

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from memorypipe import LookupExisting, MemoryTable
from memorypipe.errors import InvalidArgumentError, TableNotFoundError
from tests.support.embedders import LetterEmbedder
from tests.support.table_actions import SteppingClock, actions, add, minted, update

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


@pytest.fixture
def embedded(tmp_path: Path, backend: str) -> MemoryTable:
    """Two scopes with more memories than a fact is shown, and vectors."""
    table = MemoryTable.open(
        tmp_path / "embedded", backend=backend, embedder=LetterEmbedder(), clock=SteppingClock()
    )
    said = ["aaaa b", "aaa bb", "bbbb a", "cccc", "cc dd", "dddd c", "eeee", "e f", "ffff", "ab cd"]
    table.commit(actions(*(add(t, scope=s) for t in said for s in (ANA, BEN))), run_id="r1")
    return table


RANKED = ("keyword", "vector", "hybrid")


def test_vectors_find_what_shares_no_word(embedded: MemoryTable) -> None:
    lookup = LookupExisting(embedded, strategy="vector", top_k=2)
    assert texts(lookup([ANA], ['["aa"]'])[0]) == ["aaaa b", "aaa bb"]
    assert texts(LookupExisting(embedded, strategy="keyword", top_k=2)([ANA], ['["aa"]'])[0]) == []


def test_hybrid_unites_what_words_and_vectors_find(embedded: MemoryTable) -> None:
    lookup = LookupExisting(embedded, top_k=2)
    assert texts(lookup([ANA], ['["aa ffff"]'])[0])[0] == "ffff"
    assert lookup([ANA], ['["aa ffff"]']) == LookupExisting(embedded, strategy="hybrid", top_k=2)(
        [ANA], ['["aa ffff"]']
    )


@pytest.mark.parametrize("strategy", RANKED)
def test_a_result_is_changed_by_no_other_scope_no_other_row_and_no_maintenance(
    embedded: MemoryTable, strategy: Any
) -> None:
    scopes, facts = [ANA, BEN, ANA], ['["aa", "cc dd"]', '["ffff"]', '["ab e"]']
    before = LookupExisting(embedded, strategy=strategy, top_k=3)(scopes, facts)
    alone = [
        LookupExisting(embedded, strategy=strategy, top_k=3)([scope], [fact])[0]
        for scope, fact in zip(scopes, facts, strict=True)
    ]
    assert list(before) == alone
    other = [add(f"aa cc dd {n}", scope={"user_id": "cem"}) for n in range(40)]
    embedded.commit(actions(*other), run_id="other")
    embedded.optimize()
    assert LookupExisting(embedded, strategy=strategy, top_k=3)(scopes, facts) == before


@pytest.mark.parametrize("strategy", RANKED)
def test_a_pinned_lookup_ranks_what_was_superseded_since(
    embedded: MemoryTable, strategy: Any
) -> None:
    """A revision that was superseded has lost its vector: it is made anew."""
    lookup = LookupExisting(embedded, strategy=strategy, top_k=3)
    before = lookup([ANA], ['["aa", "ab cd"]'])
    embedded.commit(actions(update(minted("aaaa b", ANA), "zzzz", scope=ANA)), run_id="r2")
    assert lookup([ANA], ['["aa", "ab cd"]']) == before


def test_a_pinned_lookup_keeps_its_embedder(embedded: MemoryTable) -> None:
    lookup = LookupExisting(embedded, strategy="vector", top_k=3)
    before = lookup([ANA], ['["aa"]'])
    embedded.reembed(LetterEmbedder(dim=5))
    assert lookup([ANA], ['["aa"]']) == before


def test_facts_of_a_block_are_embedded_once_and_together(embedded: MemoryTable) -> None:
    lookup = LookupExisting(embedded, strategy="hybrid", top_k=3)
    counting = LetterEmbedder()
    lookup._embedder = counting
    lookup([ANA, BEN, {"user_id": "nobody"}], ['["aa", "bb"]', '["bb"]', '["cc"]'])
    assert counting.asked == [["aa", "bb"]]


def test_without_an_embedder_vectors_are_refused_and_auto_is_keyword(tmp_path: Path) -> None:
    bare = MemoryTable.open(tmp_path / "bare", embedder="none")
    with pytest.raises(InvalidArgumentError, match="needs an embedder"):
        LookupExisting(bare, strategy="vector")
    bare.commit(actions(*(add(f"tea {n}") for n in range(3)), add("cat")), run_id="r1")
    found = LookupExisting(bare, top_k=1)([{"user_id": "u1"}], ['["a cat"]'])
    assert isinstance(found, pa.Array)
    assert texts(found[0]) == ["cat"]
