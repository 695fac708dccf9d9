"""Vectors in commits, and moving to another embedder, on every back end."""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from memorypipe.errors import InvalidArgumentError, ModelError, TableError
from memorypipe.llm.embed.types import Matrix
from memorypipe.llm.embed.unit_vectors import embed_texts
from memorypipe.llm.embed.wordllama import WORDLLAMA_NAME, WordLlamaEmbedder
from memorypipe.schema import ACTION_OPTIONS
from memorypipe.table.table import MemoryTable
from tests.support.embeddings import HashEmbedder
from tests.support.table_actions import SteppingClock, actions, add, delete, minted, update

TEA, CAT = minted("Likes tea"), minted("Has a cat")
ALL = ("live", "deleted", "invalid", "expired", "history")


def _open(place: Path, backend: str, **how: Any) -> MemoryTable:
    return MemoryTable.open(place, backend=backend, clock=SteppingClock(), **how)


@pytest.fixture
def table(tmp_path: Path, backend: str) -> MemoryTable:
    return _open(tmp_path / "table", backend)


def _vectors(table: MemoryTable) -> dict[str, list[float] | None]:
    rows = table.to_arrow(columns=["text", "vector"])
    return dict(zip(rows["text"].to_pylist(), rows["vector"].to_pylist(), strict=True))


def _embedded(embedder: Any, *texts: str) -> dict[str, list[float]]:
    return dict(zip(texts, embed_texts(embedder, texts).tolist(), strict=True))


def _history(table: MemoryTable) -> pa.Table:
    return table.to_arrow(include=ALL).drop_columns(["vector"])


def test_what_a_commit_leaves_live_has_the_vector_of_its_text(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea"), add("Has a cat"), add("Runs")), run_id="r1")
    table.commit(
        actions(update(TEA, "Likes coffee"), update(TEA, "Likes cocoa"), delete(CAT)),
        run_id="r2",
    )
    assert table.embedder == WORDLLAMA_NAME
    expected = _embedded(WordLlamaEmbedder(), "Likes cocoa", "Runs")
    assert _vectors(table) == expected
    rows = table.to_arrow(include=ALL)
    assert pc.all(pc.equal(pc.is_valid(rows["vector"]), rows["is_live"])).as_py()


def test_what_comes_back_has_its_vector_again(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea"), add("Has a cat")), run_id="r1")
    before = _vectors(table)
    table.commit(actions(update(TEA, "Likes coffee")), run_id="r2")
    table.undo("r2")
    table.forget(CAT)
    table.restore(CAT)
    assert _vectors(table) == before == _embedded(WordLlamaEmbedder(), *before)


def test_vectors_that_actions_carry_are_kept(tmp_path: Path, backend: str) -> None:
    embedder = HashEmbedder()
    table = _open(tmp_path / "t", backend, embedder=embedder)
    given = actions(add("Likes tea"), add("Runs"))
    own = [0.5, 0.0, 0.0, 2.0]
    column = pa.array([own, None], ACTION_OPTIONS.field("vector").type)
    table.commit(given.append_column("vector", column), run_id="r1")
    assert _vectors(table) == {"Likes tea": own, **_embedded(HashEmbedder(), "Runs")}
    assert embedder.asked == [["Runs"]]


def test_a_wrong_vector_is_told_and_nothing_is_committed(table: MemoryTable) -> None:
    for vector, message in (
        ([1.0, 0.0], "Action 0 .* 2 dimensions; the table's have 256"),
        ([1.0] * 255 + [float("nan")], "Action 0 .* item 255 is nan"),
    ):
        column = pa.array([vector], ACTION_OPTIONS.field("vector").type)
        with pytest.raises(InvalidArgumentError, match=message):
            table.commit(actions(add("Runs")).append_column("vector", column), run_id="r1")
    assert table.version == 0


def test_what_adds_nothing_is_not_embedded(tmp_path: Path, backend: str) -> None:
    embedder = HashEmbedder()
    table = _open(tmp_path / "t", backend, embedder=embedder)
    first = actions(add("Likes tea"))
    table.commit(first, run_id="r1")
    table.commit(first, run_id="r1")  # again
    table.commit(actions(add("likes tea"), add("Runs"), delete(minted("Runs"))), run_id="r2")
    table.commit(actions(delete(TEA)), run_id="r3")
    assert embedder.asked == [["Likes tea"]]


@dataclass
class Interfering(HashEmbedder):
    """Somebody else commits while it embeds, a few times."""

    interfere: Callable[[int], object] = print
    times: int = 2

    def embed(self, texts: Sequence[str]) -> Matrix:
        vectors = super().embed(texts)
        if self.times:
            self.times -= 1
            self.interfere(self.times)
        return vectors


def test_a_lost_race_embeds_nothing_again(tmp_path: Path, backend: str) -> None:
    embedder = Interfering()
    table = _open(tmp_path / "t", backend, embedder=embedder)
    other = _open(tmp_path / "t", backend, embedder=HashEmbedder())
    embedder.interfere = lambda left: other.commit(actions(add(f"Other {left}")), run_id=f"o{left}")
    table.commit(actions(add("Likes tea"), add("Runs")), run_id="r1")
    assert embedder.asked == [["Likes tea", "Runs"]]
    texts = ["Likes tea", "Other 1", "Runs"]
    assert _vectors(table) == _embedded(HashEmbedder(), *texts)


def test_a_table_without_vectors_takes_none(tmp_path: Path, backend: str) -> None:
    table = _open(tmp_path / "t", backend, embedder="none")
    table.commit(actions(add("Likes tea")), run_id="r1")
    assert (table.embedder, table.find_embedder()) == (None, None)
    assert _vectors(table) == {"Likes tea": None}


def test_another_embedder_is_refused_before_any_work(tmp_path: Path, backend: str) -> None:
    own = HashEmbedder()
    _open(tmp_path / "t", backend, embedder=own)
    other = HashEmbedder(seed="b")
    with pytest.raises(InvalidArgumentError, match=r"'hash-a/4', not of 'hash-b/4'.*reembed"):
        _open(tmp_path / "t", backend, embedder=other)
    assert (own.asked, other.asked) == ([], [])
    assert _open(tmp_path / "t", backend, embedder=HashEmbedder()).find_embedder() == own


def test_a_table_can_be_read_without_its_embedder_but_takes_no_new_text(
    tmp_path: Path, backend: str
) -> None:
    table = _open(tmp_path / "t", backend, embedder=HashEmbedder())
    table.commit(actions(add("Likes tea"), add("Has a cat")), run_id="r1")
    bare = _open(tmp_path / "t", backend)
    assert bare.count() == 2
    for attempt in (bare.find_embedder, lambda: bare.commit(actions(add("Runs")), run_id="r2")):
        with pytest.raises(TableError, match=r"'hash-a/4', which was not given.*Nothing was ch"):
            attempt()
    assert bare.version == 1
    bare.commit(actions(delete(TEA)), run_id="r2")
    assert list(_vectors(bare)) == ["Has a cat"]


def test_the_tables_own_embedder_needs_no_naming(table: MemoryTable) -> None:
    copy = pickle.loads(pickle.dumps(table))  # noqa: S301  # our own bytes
    copy.commit(actions(add("Runs")), run_id="r1")
    assert copy.find_embedder() == WordLlamaEmbedder()
    assert _vectors(table) == _embedded(WordLlamaEmbedder(), "Runs")


@pytest.mark.parametrize("dim", [4, 7])
def test_a_table_moves_to_another_embedder_in_one_commit(
    tmp_path: Path, backend: str, dim: int
) -> None:
    table = _open(tmp_path / "t", backend, embedder=HashEmbedder())
    table.commit(actions(add("Likes tea"), add("Has a cat"), add("Runs")), run_id="r1")
    table.commit(actions(update(TEA, "Likes coffee"), delete(CAT)), run_id="r2")
    before, runs = _history(table), table.runs()
    new = HashEmbedder(dim=dim, seed="b")
    result = table.reembed(new, batch_rows=2)
    assert (result.outcome, result.version, table.version) == ("landed", 3, 3)
    assert (table.embedder, table.vector_dim) == (f"hash-b/{dim}", dim)
    assert _vectors(table) == _embedded(HashEmbedder(dim=dim, seed="b"), "Likes coffee", "Runs")
    assert _history(table).equals(before)
    assert table.runs().slice(0, 2).equals(runs)
    assert table.runs()["kind"].to_pylist() == ["commit", "commit", "reembed"]
    assert sorted(text for asked in new.asked for text in asked) == ["Likes coffee", "Runs"]


def test_a_table_that_moved_goes_on_as_before(tmp_path: Path, backend: str) -> None:
    table = _open(tmp_path / "t", backend, embedder=HashEmbedder())
    stale = _open(tmp_path / "t", backend, embedder=HashEmbedder())
    table.commit(actions(add("Likes tea"), add("Has a cat")), run_id="r1")
    table.reembed("wordllama")
    assert table.reembed("wordllama").outcome == "nothing"
    table.commit(actions(update(TEA, "Likes coffee"), add("Runs")), run_id="r2")
    table.undo("r2")
    stale.commit(actions(add("Runs")), run_id="r3")
    assert _vectors(stale) == _embedded(WordLlamaEmbedder(), "Has a cat", "Likes tea", "Runs")
    assert stale.at(1).count() == 2
    table.reembed("none")
    assert set(_vectors(table).values()) == {None}
    assert table.embedder is None


def test_a_table_from_before_embedders_gets_vectors_when_it_is_asked_to(
    tmp_path: Path, backend: str
) -> None:
    table = _open(tmp_path / "t", backend, embedder="none")
    table.commit(actions(add("Likes tea"), add("Has a cat")), run_id="r1")
    with pytest.raises(InvalidArgumentError, match="'none', not of 'wordllama"):
        _open(tmp_path / "t", backend, embedder="wordllama")
    table.reembed("wordllama")
    assert _vectors(table) == _embedded(WordLlamaEmbedder(), "Has a cat", "Likes tea")


def test_commits_that_come_while_it_moves_are_not_lost(tmp_path: Path, backend: str) -> None:
    table = _open(tmp_path / "t", backend, embedder=HashEmbedder())
    other = _open(tmp_path / "t", backend, embedder=HashEmbedder())
    table.commit(actions(add("Likes tea"), add("Has a cat")), run_id="r1")
    new = Interfering(dim=7, seed="b")
    steps = [actions(update(TEA, "Likes coffee")), actions(delete(CAT), add("Runs"))]
    new.interfere = lambda left: other.commit(steps[1 - left], run_id=f"o{left}")
    assert table.reembed(new).outcome == "landed"
    expected = _embedded(HashEmbedder(dim=7, seed="b"), "Likes coffee", "Runs")
    assert _vectors(table) == expected
    asked = sorted(text for texts in new.asked for text in texts)
    assert asked == ["Has a cat", "Likes coffee", "Likes tea", "Runs"]


def test_a_commit_that_began_before_the_move_ends_after_it(tmp_path: Path, backend: str) -> None:
    """It loses the race, whatever the width; then it needs the new embedder."""
    embedder = Interfering(times=1)
    table = _open(tmp_path / "t", backend, embedder=embedder)
    other = _open(tmp_path / "t", backend, embedder=HashEmbedder())
    embedder.interfere = lambda _: other.reembed("wordllama")
    table.commit(actions(add("Likes tea")), run_id="r1")
    assert _vectors(table) == _embedded(WordLlamaEmbedder(), "Likes tea")
    assert table.runs()["kind"].to_pylist() == ["reembed", "commit"]


class Failing(HashEmbedder):
    """Gives no vectors for one text."""

    def embed(self, texts: Sequence[str]) -> Matrix:
        if "Runs" in texts:
            raise ModelError("no vector for that")
        return super().embed(texts)


def test_an_embedder_that_fails_changes_nothing(tmp_path: Path, backend: str) -> None:
    table = _open(tmp_path / "t", backend, embedder=HashEmbedder())
    texts = ["Has a cat", "Likes tea", "Runs"]
    table.commit(actions(*map(add, texts)), run_id="r1")
    before = table.to_arrow()
    with pytest.raises(ModelError, match="no vector for that"):
        table.reembed(Failing(dim=7, seed="b"), batch_rows=1)
    assert (table.version, table.embedder) == (1, "hash-a/4")
    assert table.to_arrow().equals(before)
    failing = _open(tmp_path / "u", backend, embedder=Failing())
    with pytest.raises(ModelError, match="no vector for that"):
        failing.commit(actions(*map(add, texts)), run_id="r1")
    assert (failing.version, failing.count()) == (0, 0)


def test_many_rows_move_in_batches(tmp_path: Path, backend: str) -> None:
    table = _open(tmp_path / "t", backend, embedder=HashEmbedder())
    texts = [f"Fact {number}" for number in range(500)]
    table.commit(actions(*map(add, texts)), run_id="r1")
    new = HashEmbedder(dim=5, seed="b")
    table.reembed(new, batch_rows=64)
    assert max(map(len, new.asked)) <= 64
    assert _vectors(table) == _embedded(HashEmbedder(dim=5, seed="b"), *texts)
    with pytest.raises(InvalidArgumentError, match="batch_rows must be from 1, got 0"):
        table.reembed("wordllama", batch_rows=0)


@pytest.mark.parametrize("new", ["none", HashEmbedder(seed="b"), HashEmbedder(dim=7)])
def test_vectors_that_actions_carry_from_before_a_move_are_made_anew(
    tmp_path: Path, backend: str, new: Any
) -> None:
    table = _open(tmp_path / "t", backend, embedder=HashEmbedder())
    table.commit(actions(add("Likes tea")), run_id="r1")
    table.reembed(new)
    old = pa.array([[0.5, 0.0, 0.0, 2.0]], ACTION_OPTIONS.field("vector").type)
    decided = actions(add("Runs")).append_column("vector", old)
    table.commit(decided, run_id="r2", base_version=1)
    if new == "none":
        assert _vectors(table) == {"Likes tea": None, "Runs": None}
    else:
        assert _vectors(table) == _embedded(new, "Likes tea", "Runs")


def test_vectors_that_actions_carry_stay_where_only_others_committed_since(
    tmp_path: Path, backend: str
) -> None:
    table = _open(tmp_path / "t", backend, embedder=HashEmbedder())
    table.reembed(HashEmbedder(seed="b"))
    table.commit(actions(add("Likes tea")), run_id="r1")
    own = [0.5, 0.0, 0.0, 2.0]
    column = pa.array([own], ACTION_OPTIONS.field("vector").type)
    decided = actions(add("Runs")).append_column("vector", column)
    table.commit(decided, run_id="r2", base_version=1)
    assert _vectors(table)["Runs"] == own
