"""Moving columns of vectors in bulk."""

import numpy as np
import pyarrow as pa
import pytest

from memorypipe.table.vectors import fixed_width, no_vectors, take_vectors

LISTS = pa.list_(pa.float32())
EQUAL = [[1.0, 2.0], None, [3.0, 4.0]]
MIXED = [[1.0], [2.0, 3.0], None, []]


@pytest.mark.parametrize("rows", [EQUAL, MIXED, [None, None], []])
def test_rows_are_taken_as_arrow_takes_them(rows: list[list[float] | None]) -> None:
    column = pa.chunked_array([rows[:1], rows[1:]], LISTS)
    places = np.array([*range(len(rows)), *reversed(range(len(rows)))], np.int64)
    taken = take_vectors(column, places)
    assert taken.to_pylist() == column.take(pa.array(places)).to_pylist()
    assert taken.type == LISTS


@pytest.mark.parametrize("keep", [[True, True, True], [True, False, False], [False] * 3])
def test_vectors_that_are_not_kept_become_null(keep: list[bool]) -> None:
    column = pa.chunked_array([EQUAL], LISTS)
    fixed = fixed_width(column, pa.array(keep), 2)
    assert fixed.type == pa.list_(pa.float32(), 2)
    expected = [row if kept else None for row, kept in zip(EQUAL, keep, strict=True)]
    assert fixed.to_pylist() == expected


@pytest.mark.parametrize("num_rows", [0, 1, 8192, 20_000])
def test_nulls_are_as_many_as_asked_for(num_rows: int) -> None:
    nulls = no_vectors(num_rows, 3)
    assert (len(nulls), nulls.null_count) == (num_rows, num_rows)
