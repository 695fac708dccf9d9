"""Searching all scopes by Lance's indexes: nothing is missed, nothing superseded is met."""

import shutil
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow.compute as pc
import pytest

from memorypipe import ALL, MemoryTable
from memorypipe.errors import InvalidArgumentError
from memorypipe.table.lance.search import refresh_indexes
from tests.support.table_actions import START, SteppingClock, actions, add, delete, minted, update

DIM = 8
SCOPES = [{"user_id": f"u{number}"} for number in range(5)]


def made(table: MemoryTable, texts: list[str], *, run_id: str, seed: int) -> None:
    """Add texts to the scopes in turn, with vectors of their own."""
    rng = np.random.default_rng(seed)
    rows = [
        add(text, scope=SCOPES[n % 5], vector=rng.standard_normal(DIM).tolist())
        for n, text in enumerate(texts)
    ]
    table.commit(actions(*rows), run_id=run_id)


def dataset(table: MemoryTable) -> Any:
    return lance.dataset(f"{table.uri}/memories.lance")


@pytest.fixture
def table(tmp_path: Path, indexed: MemoryTable) -> MemoryTable:
    copy = shutil.copytree(indexed.uri, tmp_path / "table")
    return MemoryTable.open(copy, clock=SteppingClock(START + timedelta(days=1)))


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> MemoryTable:
    """300 live memories, nine in ten rows history, indexed."""
    place = tmp_path_factory.mktemp("indexed") / "table"
    made_table = MemoryTable.open(place, vector_dim=DIM, clock=SteppingClock())
    texts = [f"memory {n} of kind{n % 7}" for n in range(300)]
    made(made_table, texts, run_id="r", seed=1)
    rng = np.random.default_rng(2)
    for turn in range(9):
        changed = [
            update(
                minted(text, SCOPES[n % 5]),
                f"{text} turn{turn}",
                scope=SCOPES[n % 5],
                vector=rng.standard_normal(DIM).tolist(),
            )
            for n, text in enumerate(texts)
        ]
        made_table.commit(actions(*changed), run_id=f"r{turn}")
    refresh_indexes(dataset(made_table), at_least=100)
    return made_table


def nearest(table: MemoryTable, asked: Any, k: int = 10) -> list[str]:
    rows = table.to_arrow()
    matrix = np.array(rows["vector"].to_pylist())
    scores = matrix @ asked / np.linalg.norm(matrix, axis=1)
    return [rows["memory_id"][int(n)].as_py() for n in np.argsort(-scores)[:k]]


def indexes(table: MemoryTable) -> set[str]:
    return {index.name for index in dataset(table).describe_indices()}


def test_vectors_are_found_by_the_index_as_by_brute_force(table: MemoryTable) -> None:
    assert {"vector_idx", "search_text_idx"} <= indexes(table)
    rng = np.random.default_rng(5)
    for _ in range(10):
        asked = rng.standard_normal(DIM)
        found = table.search(scope=ALL, vector=asked)["memory_id"].to_pylist()
        assert found == nearest(table, asked)


def test_words_are_found_by_the_index_and_history_is_not(table: MemoryTable) -> None:
    found = table.search(scope=ALL, query="memory 42 kind0 turn8", strategy="keyword", top_k=300)
    assert found["text"][0].as_py() == "memory 42 of kind0 turn8"
    assert all(text.endswith("turn8") for text in found["text"].to_pylist())
    assert table.search(scope=ALL, query="turn3", strategy="keyword").num_rows == 0


def test_rows_that_no_index_holds_yet_are_found(table: MemoryTable) -> None:
    far = [50.0, -50.0, *[0.0] * (DIM - 2)]
    new = add("Quite another zebra", scope=SCOPES[0], vector=far)
    table.commit(actions(new), run_id="new")
    assert table.search(scope=ALL, vector=far, top_k=1)["text"].to_pylist() == [new["text"]]
    by_word = table.search(scope=ALL, query="zebra", strategy="keyword")
    assert by_word["text"].to_pylist() == [new["text"]]
    both = table.search(scope=ALL, query="zebra", vector=far, strategy="hybrid", top_k=1)
    assert both["text"].to_pylist() == [new["text"]]


def test_what_was_deleted_since_is_not_found(table: MemoryTable) -> None:
    asked = np.random.default_rng(5).standard_normal(DIM)
    first = table.search(scope=ALL, vector=asked, top_k=1).to_pylist()[0]
    gone = delete(first["memory_id"], scope=dict(first["scope"]))
    table.commit(actions(gone), run_id="gone")
    assert first["memory_id"] not in table.search(scope=ALL, vector=asked)["memory_id"].to_pylist()
    by_word = table.search(scope=ALL, query=first["text"], strategy="keyword", top_k=300)
    assert first["memory_id"] not in by_word["memory_id"].to_pylist()


def test_a_filter_is_applied_before_the_index_ranks(table: MemoryTable) -> None:
    wanted = pc.field("user_id") == "u3"
    asked = np.random.default_rng(5).standard_normal(DIM)
    everything: dict[str, Any] = {"scope": ALL, "filter": wanted, "top_k": 60}
    assert table.search(vector=asked, **everything).num_rows == 60
    assert table.search(query="memory", strategy="keyword", **everything).num_rows == 60
    with pytest.raises(InvalidArgumentError, match="cannot be computed over all scopes"):
        table.search(scope=ALL, vector=asked, filter=pc.utf8_length(pc.field("text")) > 3)


def test_refreshing_takes_new_rows_in_and_does_nothing_twice(table: MemoryTable) -> None:
    made(table, [f"late {n}" for n in range(200)], run_id="late", seed=9)
    refresh_indexes(dataset(table), at_least=100)
    for name in ("vector_idx", "search_text_idx"):
        assert dataset(table).stats.index_stats(name)["num_unindexed_rows"] <= 1
    version = dataset(table).version
    refresh_indexes(dataset(table), at_least=100)
    assert dataset(table).version == version
    asked = np.random.default_rng(6).standard_normal(DIM)
    assert table.search(scope=ALL, vector=asked)["memory_id"].to_pylist() == nearest(table, asked)


def test_a_small_table_gets_no_indexes(tmp_path: Path) -> None:
    small = MemoryTable.open(tmp_path / "small", vector_dim=DIM)
    made(small, ["one", "two"], run_id="r", seed=1)
    refresh_indexes(dataset(small))
    assert not {"vector_idx", "search_text_idx"} & indexes(small)


def test_commits_beside_a_refresh_land_and_the_refresh_raises_nothing(table: MemoryTable) -> None:
    errors: list[BaseException] = []

    def refresh() -> None:
        try:
            for _ in range(3):
                refresh_indexes(dataset(table), at_least=1, anew=True)
        except BaseException as error:  # noqa: BLE001  # shown below
            errors.append(error)

    thread = threading.Thread(target=refresh)
    thread.start()
    for number in range(6):
        table.commit(actions(add(f"beside {number}", scope=SCOPES[0])), run_id=f"b{number}")
    thread.join()
    assert errors == []
    found = table.search(scope=ALL, query="beside", strategy="keyword")
    assert found.num_rows == 6
