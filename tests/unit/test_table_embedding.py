from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from memorypipe.errors import InvalidArgumentError, TableError
from memorypipe.llm.embed.unit_vectors import embed_texts
from memorypipe.schema import ACTION_OPTIONS, table_schema
from memorypipe.table.actions import check_actions
from memorypipe.table.embedding import Revector, Vectors, check_given, check_same, new_head
from memorypipe.table.records import Head, Settings
from memorypipe.table.vector_store import VectorStore
from tests.support.embeddings import HashEmbedder
from tests.support.table_actions import actions, add

NOW = datetime(2025, 5, 1, tzinfo=UTC)
NONE = "none"


def _head(embedder: str | None, vector_dim: int = 4) -> Head:
    settings = Settings(embedder=embedder)
    return Head(
        number=3, committed_at=NOW, created_at=NOW, vector_dim=vector_dim, settings=settings
    )


def _rows(*rows: tuple[str, bool, list[float] | None]) -> pa.Table:
    """Rows of text, whether they are live, and vector."""
    whole = table_schema(4)
    columns = [whole.field(name) for name in ("text", "is_live", "vector")]
    names = [field.name for field in columns]
    return pa.Table.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows], schema=pa.schema(columns)
    )


def _embedded(text: str) -> list[float]:
    vector: list[float] = embed_texts(HashEmbedder(), [text])[0].tolist()
    return vector


def test_live_rows_without_a_vector_get_that_of_their_text_and_no_others() -> None:
    own = [1.0, 2.0, 3.0, 4.0]
    rows = _rows(("tea", True, None), ("old", False, None), ("own", True, own), ("", True, None))
    embedder = HashEmbedder()
    filled = Vectors(embedder).fill_rows(rows, _head(embedder.name))
    assert filled["vector"].to_pylist() == [_embedded("tea"), None, own, None]
    assert filled.schema == rows.schema
    assert embedder.asked == [["tea"]]


def test_no_text_is_embedded_twice_however_often_a_commit_is_tried() -> None:
    embedder = HashEmbedder()
    vectors, head = Vectors(embedder), _head(embedder.name)
    rows = _rows(("tea", True, None), ("cat", True, None), ("tea", True, None))
    first = vectors.fill_rows(rows, head)
    more = pa.concat_tables([_rows(("dog", True, None)), rows])
    again = vectors.fill_rows(more, head)
    assert embedder.asked == [["tea", "cat"], ["dog"]]
    assert again["vector"].to_pylist()[1:] == first["vector"].to_pylist()
    assert again["vector"].to_pylist()[0] == _embedded("dog")


def test_a_table_that_moved_to_another_embedder_between_two_tries_gets_its_vectors() -> None:
    local = "wordllama/l2_supercat/256"
    embedder = HashEmbedder()
    vectors, rows = Vectors(embedder), _rows(("tea", True, None))
    vectors.fill_rows(rows, _head(embedder.name))
    with pytest.raises(TableError, match="'other/4', which was not given"):
        vectors.fill_rows(rows, _head("other/4"))
    wide = pa.Table.from_pylist(rows.to_pylist(), schema=_wide_schema())
    assert vectors.fill_rows(wide, _head(local, 256))["vector"].null_count == 0


def _wide_schema() -> pa.Schema:
    whole = table_schema(256)
    return pa.schema([whole.field(name) for name in ("text", "is_live", "vector")])


def test_a_table_without_an_embedder_is_left_alone() -> None:
    rows = _rows(("tea", True, None))
    assert Vectors(HashEmbedder()).fill_rows(rows, _head(None)) is rows


def test_an_embedder_is_only_needed_where_there_is_something_to_embed() -> None:
    head = _head("e5/4")
    closed = _rows(("old", False, None))
    assert Vectors(None).fill_rows(closed, head) is closed
    with pytest.raises(TableError, match=r"'e5/4', which was not given: .* embedder=…"):
        Vectors(None).fill_rows(_rows(("tea", True, None)), head)


def test_an_embedder_of_another_width_than_its_name_had_is_told() -> None:
    embedder = HashEmbedder(dim=8)
    with pytest.raises(TableError, match="8 dimensions; the table's have 4"):
        Vectors(embedder).fill_rows(_rows(("tea", True, None)), _head(embedder.name))


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        ([1.0, 0.0], "a vector of 2 dimensions; the table's have 4"),
        ([0.0] * 4, "it is zero"),
        ([1.0, 0.0, float("nan"), 0.0], "item 2 is nan"),
        ([1.0, float("-inf"), 0.0, 0.0], "item 1 is -inf"),
        ([None, 1.0, 0.0, 0.0], "item 0 is nan"),
    ],
)
def test_a_vector_that_cannot_be_is_told_with_its_action(vector: Any, message: str) -> None:
    given = actions(add("Runs"), add("Likes tea"))
    column = pa.array([[1.0, 0.0, 0.0, 0.0], vector], ACTION_OPTIONS.field("vector").type)
    batch = check_actions(given.append_column("vector", column))
    with pytest.raises(InvalidArgumentError, match=rf"Action 1 of scope '.*u1.*' has .*{message}"):
        check_given(batch, 4)


def test_good_vectors_and_none_are_taken() -> None:
    given = actions(add("Runs"), add("Likes tea"))
    check_given(check_actions(given), 4)
    column = pa.array([None, [1.0, 0.0, 0.0, 0.0]], ACTION_OPTIONS.field("vector").type)
    check_given(check_actions(given.append_column("vector", column)), 4)


@pytest.mark.parametrize("item", [1e-30, 1e30])
def test_a_vector_whose_square_no_float_holds_is_taken(item: float) -> None:
    given = actions(add("Runs"), add("Likes tea"))
    column = pa.array([[0.0, item, 0.0, 0.0]] * 2, ACTION_OPTIONS.field("vector").type)
    check_given(check_actions(given.append_column("vector", column)), 4)


def test_a_new_table_has_the_embedder_given_else_the_static_vectors() -> None:
    head = new_head(NOW, None, None)
    assert (head.settings.embedder, head.vector_dim) == ("wordllama/l2_supercat/256", 256)
    head = new_head(NOW, HashEmbedder(), None)
    assert (head.settings.embedder, head.vector_dim) == ("hash-a/4", 4)
    head = new_head(NOW, NONE, None)
    assert (head.settings.embedder, head.vector_dim) == (None, 256)
    head = new_head(NOW, None, 7)
    assert (head.settings.embedder, head.vector_dim) == (None, 7)
    with pytest.raises(InvalidArgumentError, match=r"'hash-a/4' makes vectors of 4 .*, not 7"):
        new_head(NOW, HashEmbedder(), 7)


@pytest.mark.parametrize(
    ("embedder", "stored", "names"),
    [
        ("wordllama", "e5/4", "'e5/4', not of 'wordllama/l2_supercat/256'"),
        (NONE, "e5/4", "'e5/4', not of 'none'"),
        (HashEmbedder(), None, "'none', not of 'hash-a/4'"),
    ],
)
def test_another_embedder_than_the_tables_is_refused_with_both_names(
    embedder: Any, stored: str | None, names: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"{names}.*table\.reembed"):
        check_same(embedder, _head(stored), "t")


def test_the_tables_embedder_is_taken_and_none_asks_for_nothing() -> None:
    own = HashEmbedder()
    assert check_same(own, _head(own.name), "t") is own
    assert check_same(None, _head("e5/4"), "t") is None
    assert check_same(NONE, _head(None), "t") is None


def test_all_rows_get_vectors_of_a_new_width() -> None:
    embedder = HashEmbedder(dim=3)
    revector = Revector(dim=3, embed=partial(embed_texts, embedder), batch_rows=2)
    rows = pa.Table.from_pylist(
        [_whole_row("tea", is_live=True), _whole_row("old", is_live=False)], table_schema(4)
    )
    (batch,) = rows.to_batches()
    new = revector.apply(batch)
    assert new.schema == table_schema(3)
    assert new["vector"].to_pylist() == [embed_texts(embedder, ["tea"])[0].tolist(), None]
    assert new.drop_columns(["vector"]).equals(batch.drop_columns(["vector"]))
    none = replace(revector, embed=None).apply(batch)
    assert none["vector"].null_count == 2


def _whole_row(text: str, **values: Any) -> dict[str, Any]:
    names = ("record_type", "memory_id", "event", "scope_key", "run_id", "status")
    blank: dict[str, Any] = dict.fromkeys(names, "")
    times = dict.fromkeys(("created_at", "updated_at", "valid_from"), NOW)
    flags = dict.fromkeys(("is_current", "deleted"), False)
    return {**blank, **times, **flags, "revision": 1, "scope": [], "text": text, **values}


def test_the_store_embeds_each_text_once_and_gives_all_in_order() -> None:
    embedder = HashEmbedder()
    with closing(VectorStore(embedder)) as store:
        store.embed(["a", "b"])
        vectors = store.embed(["c", "b", "a", "\ud83d"])
    assert embedder.asked == [["a", "b"], ["c", "\ud83d"]]
    assert np.array_equal(vectors, embed_texts(HashEmbedder(), ["c", "b", "a", "\ud83d"]))
