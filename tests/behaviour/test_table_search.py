"""Searching a table: the same rules on every back end, in one scope and over all."""

import random
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from memorypipe import ALL, MemoryTable
from memorypipe.errors import InvalidArgumentError, TableError
from memorypipe.rank.keyword import KeywordIndex
from memorypipe.rank.memory import Memory
from tests.support.table_actions import (
    START,
    USER,
    SteppingClock,
    actions,
    add,
    delete,
    minted,
    update,
)

BEN = {"user_id": "ben"}
DIM = 8


class HashEmbedder:
    """Gives each word a direction of its own, and a text the sum of its words'."""

    name = "test/words"
    dim = DIM
    max_chars = None

    def embed(self, texts: Sequence[str]) -> Any:
        return np.array([self._one(text) for text in texts], np.float32)

    def _one(self, text: str) -> Any:
        words = [np.random.default_rng([*word.encode()]) for word in text.lower().split()]
        return sum(rng.standard_normal(DIM) for rng in words)


@pytest.fixture
def table(tmp_path: Path, backend: str) -> MemoryTable:
    return MemoryTable.open(
        tmp_path / "table", backend=backend, embedder=HashEmbedder(), clock=SteppingClock()
    )


def texts(found: pa.Table) -> list[str]:
    return [str(text) for text in found["text"].to_pylist()]


def with_history(table: MemoryTable) -> None:
    """Write memories of two scopes, nine in ten revisions of which are history."""
    names = [f"memory {number}" for number in range(12)]
    table.commit(actions(*(add(name, scope=s) for name in names for s in (USER, BEN))), run_id="r")
    for turn in range(9):
        changed = [
            update(minted(name, s), f"tea tea word{turn} {name}", scope=s)
            for name in names
            for s in (USER, BEN)
        ]
        table.commit(actions(*changed), run_id=f"r{turn}")


def test_a_scope_is_searched_and_no_other(table: MemoryTable) -> None:
    table.commit(
        actions(add("Likes green tea"), add("Owns a cat"), add("Likes tea", scope=BEN)), run_id="r1"
    )
    found = table.search(scope=USER, query="tea", strategy="keyword")
    assert texts(found) == ["Likes green tea"]
    assert found.column_names == [*table.to_arrow().column_names, "score"]
    assert texts(table.search(scope={"user_id": "cem"}, query="tea")) == []


@pytest.mark.parametrize("strategy", ["keyword", "vector", "hybrid"])
def test_what_was_superseded_deleted_or_has_expired_is_never_found(
    table: MemoryTable, strategy: Any
) -> None:
    table.commit(
        actions(add("Likes tea"), add("Drinks tea"), add("Sells tea"), add("Tea")), run_id="r1"
    )
    changes = [update(minted("Likes tea"), "Likes coffee"), delete(minted("Drinks tea"))]
    changes.append(update(minted("Sells tea"), "Sold tea", expires_at=START + timedelta(seconds=1)))
    table.commit(
        pa.Table.from_pylist(
            [row | {"seq": n} for n, row in enumerate(changes)], schema=_with_expiry()
        ),
        run_id="r2",
    )
    found = texts(table.search(scope=USER, query="tea", strategy=strategy))
    assert found[0] == "Tea"
    assert not {"Likes tea", "Drinks tea", "Sells tea", "Sold tea"} & set(found)


def _with_expiry() -> pa.Schema:
    return actions(add("x")).schema.append(pa.field("expires_at", pa.timestamp("us", tz="UTC")))


def test_keyword_search_ranks_as_bm25_over_the_scope(table: MemoryTable) -> None:
    with_history(table)
    live = table.to_arrow(USER).to_pylist()
    index = KeywordIndex(Memory(id=row["memory_id"], text=row["text"]) for row in live)
    found = table.search(scope=USER, query="memory 7 word8", strategy="keyword", top_k=5)
    assert found["memory_id"].to_pylist() == index.best("memory 7 word8", 5)
    assert found["score"].to_pylist() == sorted(found["score"].to_pylist(), reverse=True)


def test_vector_search_ranks_as_brute_force_over_the_scope(table: MemoryTable) -> None:
    with_history(table)
    rows = table.to_arrow(USER)
    matrix = np.array(rows["vector"].to_pylist())
    asked = np.arange(DIM) - 2.5
    cosine = matrix @ asked / np.linalg.norm(matrix, axis=1) / np.linalg.norm(asked)
    found = table.search(scope=USER, vector=asked.tolist(), top_k=5)
    assert texts(found) == [rows["text"][int(n)].as_py() for n in np.argsort(-cosine)[:5]]
    assert np.allclose(found["score"], np.sort(cosine)[::-1][:5])


def test_auto_is_hybrid_with_an_embedder_and_keyword_without(
    table: MemoryTable, tmp_path: Path, backend: str
) -> None:
    table.commit(actions(add("Likes tea"), add("Owns a cat")), run_id="r1")
    assert len(table.search(scope=USER, query="tea")) == 2
    bare = MemoryTable.open(tmp_path / "bare", backend=backend, embedder="none")
    bare.commit(actions(add("Likes tea"), add("Owns a cat")), run_id="r1")
    assert texts(bare.search(scope=USER, query="tea")) == ["Likes tea"]
    with pytest.raises(InvalidArgumentError, match="has no embedder"):
        bare.search(scope=USER, query="tea", strategy="hybrid")


def test_auto_is_keyword_where_the_embedder_was_not_given(table: MemoryTable, backend: str) -> None:
    table.commit(actions(add("Likes tea"), add("Owns a cat")), run_id="r1")
    bare = MemoryTable.open(table.uri, backend=backend)
    assert texts(bare.search(scope=USER, query="tea")) == ["Likes tea"]
    for strategy in ("vector", "hybrid"):
        with pytest.raises(TableError, match="which was not given"):
            bare.search(scope=USER, query="tea", strategy=strategy)


@pytest.mark.parametrize("strategy", ["keyword", "vector", "hybrid"])
def test_a_filter_comes_before_the_ranking(table: MemoryTable, strategy: Any) -> None:
    table.commit(actions(*(add(f"tea {n}") for n in range(30))), run_id="r1")
    wanted = pc.field("text").isin(["tea 7", "tea 23"])
    found = table.search(scope=USER, query="tea 1", strategy=strategy, top_k=2, filter=wanted)
    expected = {"tea 7", "tea 23"} if strategy != "keyword" else set()
    assert set(texts(found)) >= expected
    by_number = table.search(scope=USER, query="7 23", strategy=strategy, top_k=2, filter=wanted)
    assert set(texts(by_number)) == {"tea 7", "tea 23"}


def test_a_filter_changes_no_score(table: MemoryTable) -> None:
    table.commit(actions(*(add(f"tea {n}") for n in range(30))), run_id="r1")
    plain = table.search(scope=USER, query="7", strategy="keyword")
    narrow = table.search(
        scope=USER, query="7", strategy="keyword", filter=pc.field("text") == "tea 7"
    )
    assert plain["score"].to_pylist() == narrow["score"].to_pylist()


def test_ties_come_in_the_order_of_their_ids(table: MemoryTable) -> None:
    table.commit(actions(*(add(f"tea {n}") for n in range(30))), run_id="r1")
    found = table.search(scope=USER, query="tea 7 8 9", strategy="keyword")["memory_id"].to_pylist()
    assert found == sorted(found)


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ({"query": "tea", "scope": None}, "scope must be a mapping, or ALL"),
        ({}, "needs a query or a vector"),
        ({"query": " "}, "query must not be blank"),
        ({"query": "tea", "top_k": 0}, "top_k must be an integer of at least 1"),
        ({"query": "tea", "strategy": "best"}, "strategy must be one of"),
        ({"vector": [1.0] * DIM, "strategy": "hybrid"}, "'hybrid' needs a query"),
        ({"vector": [1.0]}, "vector must be 8 finite numbers"),
        ({"vector": [0.0] * DIM}, "not all of them 0"),
        ({"query": "tea", "filter": "user_id = 'u1'"}, "must be a pyarrow.compute.Expression"),
        ({"query": "tea", "filter": pc.field("nothing") == 1}, "filter cannot be computed"),
    ],
)
def test_what_cannot_work_is_said(table: MemoryTable, search: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        table.search(**({"scope": USER} | search))


def test_a_past_version_is_searched_by_keyword(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    table.commit(actions(update(minted("Likes tea"), "Likes coffee")), run_id="r2")
    past = table.at(1)
    assert texts(past.search(scope=USER, query="tea coffee")) == ["Likes tea"]
    with pytest.raises(InvalidArgumentError, match="newest version only"):
        past.search(scope=USER, query="tea", strategy="hybrid")
    with pytest.raises(InvalidArgumentError, match="not in ALL"):
        past.search(scope=ALL, query="tea")


@pytest.mark.parametrize("strategy", ["keyword", "vector", "hybrid"])
def test_a_search_is_changed_by_no_other_scope_and_no_maintenance(
    table: MemoryTable, strategy: Any
) -> None:
    with_history(table)
    before = table.search(scope=USER, query="memory 3 tea", strategy=strategy)
    table.commit(actions(*(add(f"memory {n} 3", scope=BEN) for n in range(50, 80))), run_id="other")
    table.optimize()
    assert table.search(scope=USER, query="memory 3 tea", strategy=strategy).equals(before)


def test_all_scopes_need_the_lance_back_end(table: MemoryTable, backend: str) -> None:
    table.commit(actions(add("Likes tea"), add("Likes tea", scope=BEN)), run_id="r1")
    if backend == "lance":
        assert texts(table.search(scope=ALL, query="tea")) == ["Likes tea"] * 2
    else:
        with pytest.raises(InvalidArgumentError, match="use lance"):
            table.search(scope=ALL, query="tea")


def test_a_random_search_of_all_scopes_agrees_with_one_over_a_single_scope(tmp_path: Path) -> None:
    """Without indexes, all scopes together rank as one scope with the same rows would."""
    rng = random.Random(3)  # noqa: S311  # a test's dice
    words = [f"w{n}" for n in range(25)]
    said = list(dict.fromkeys(" ".join(rng.choices(words, k=5)) for _ in range(60)))
    together, apart = (
        MemoryTable.open(tmp_path / name, embedder=HashEmbedder()) for name in ("together", "apart")
    )
    together.commit(
        actions(*(add(text, memory_id=f"m{n:02d}") for n, text in enumerate(said))), run_id="r"
    )
    spread = [
        add(text, memory_id=f"m{n:02d}", scope={"user_id": f"u{n % 7}"})
        for n, text in enumerate(said)
    ]
    apart.commit(actions(*spread), run_id="r")
    wanted = pc.field("text") != said[0]
    for strategy in ("keyword", "vector", "hybrid"):
        for query in (said[0], "w1 w2", "w3 w24 w7"):
            chosen: Any = {"query": query, "strategy": strategy, "filter": wanted}
            found = apart.search(scope=ALL, **chosen)
            exact = together.search(scope=USER, **chosen)
            assert found["memory_id"].to_pylist() == exact["memory_id"].to_pylist()
            assert found["score"].to_pylist() == exact["score"].to_pylist()
