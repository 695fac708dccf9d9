"""Columns of many scopes' memories: the order of ids, and vectors where Arrow holds them."""

import random

import numpy as np
import pyarrow as pa
import pytest

from memorypipe.rank.id_order import places_by_scope
from memorypipe.rank.vector import MISSING, cosines, unit_rows
from memorypipe.rank.vector_rows import VectorRows, vector_matrix

DIM = 3


def chunked(values: list[str], size: int) -> pa.ChunkedArray:
    parts = [values[start : start + size] for start in range(0, len(values), size)]
    return pa.chunked_array(parts, pa.string())


@pytest.mark.parametrize(
    "names",
    [
        [f"mem_{number * 2654435761 % 2**32:08x}" for number in range(200)],
        [f"the same for long, longer than a number {number}" for number in range(200)],
        ["", "\0", "\0\0", "a", "a\0", "ab", "ab\0c", "é", "日本", "z" * 40, "Z", "z" * 39],
        [f"{number:020d}tail{number % 7}" for number in range(100)] + ["0", "1"],
    ],
)
def test_rows_of_a_scope_come_in_the_order_of_their_ids_as_python_sorts_them(
    names: list[str],
) -> None:
    rng = random.Random(3)  # noqa: S311  # a seed, no secret
    rng.shuffle(names)
    scopes = [rng.choice(["s1", "s2", "other"]) for _ in names]
    found = places_by_scope(chunked(scopes, 7), chunked(names, 5))
    assert set(found) == set(scopes)
    for scope, places in found.items():
        rows = [row for row, each in enumerate(scopes) if each == scope]
        assert places.tolist() == sorted(rows, key=names.__getitem__)


def test_nothing_has_no_scopes() -> None:
    assert places_by_scope(chunked([], 1), chunked([], 1)) == {}


def vectors(rows: int, missing: set[int], chunk: int) -> tuple[pa.ChunkedArray, np.ndarray]:
    values = np.random.default_rng(1).random((rows, DIM)).astype(np.float32)
    kind = pa.list_(pa.float32(), DIM)
    cells = [None if row in missing else values[row].tolist() for row in range(rows)]
    parts = [pa.array(cells[start : start + chunk], kind) for start in range(0, rows, chunk)]
    # A slice: what Arrow holds before it is none of the column's.
    return pa.chunked_array([part[1:] for part in parts], kind), np.concatenate(
        [values[start + 1 : start + chunk] for start in range(0, rows, chunk)]
    )


@pytest.mark.parametrize("places", [[0, 1, 2], [2, 0, 1], [3, 4, 5, 6], [9, 0, 5], [7], [11, 10]])
@pytest.mark.parametrize("chunk", [4, 6, 50])
def test_cosines_are_those_of_the_rows_wherever_chunks_begin(places: list[int], chunk: int) -> None:
    column, values = vectors(20, set(), chunk)
    asked = unit_rows(np.random.default_rng(2).random((2, DIM)))
    wanted = cosines(asked, values[places])
    assert VectorRows(column).cosines(asked, np.array(places)).tolist() == wanted.tolist()
    assert vector_matrix(column).tolist() == values.tolist()


def test_a_row_without_a_vector_scores_as_missing_until_it_is_given_one() -> None:
    column, values = vectors(8, {2, 5}, 50)
    rows, places = VectorRows(column), np.array([0, 1, 2, 3])
    asked = unit_rows([[1.0, 2.0, 3.0]])
    assert rows.lacks(np.array([0, 1, 2, 4])).tolist() == [False, True, False, True]
    assert (rows.cosines(asked, places) == MISSING).tolist() == [[False, True, False, False]]
    rows.fill({1: [1.0, 2.0, 3.0]})
    assert rows.cosines(asked, places)[0, 1] == 1.0
    assert rows.lacks(np.array([1, 4])).tolist() == [False, True]
    kept = [0, 2, 3]
    assert rows.cosines(asked, np.array(kept)).tolist() == cosines(asked, values[kept]).tolist()


def test_vectors_of_another_width_replace_a_column_that_has_none() -> None:
    column = pa.chunked_array([pa.nulls(3, pa.list_(pa.float32(), DIM))])
    rows = VectorRows(column)
    rows.fill({1: [3.0, 4.0]})
    asked = unit_rows([[1.0, 0.0]])
    assert rows.cosines(asked, np.arange(3)).tolist() == [[MISSING, 0.6, MISSING]]
