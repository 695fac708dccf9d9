"""Vectors of many rows, read where Arrow holds them: a block of lookups has a hundred megabytes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from memorypipe.rank.vector import MISSING, cosines

__all__ = ["VectorRows", "vector_matrix"]

_Floats = NDArray[np.float32]


class VectorRows:
    """A column of vectors, some of which may be missing.

    Args:
        column: `fixed_size_list<float32>`.

    Example:
        >>> column = pa.chunked_array([[[3.0, 4.0], None]], pa.list_(pa.float32(), 2))
        >>> rows = VectorRows(column)
        >>> rows.lacks(np.array([0, 1])).tolist()
        [False, True]
        >>> rows.cosines(np.array([[1.0, 0.0]]), np.array([1, 0])).tolist()
        [[-inf, 0.6]]
    """

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._blocks = list(map(_block, column.chunks)) or [_nothing(0, column.type.list_size)]
        self._missing = np.asarray(column.is_null()) if column.null_count else None
        self._starts = np.cumsum([0, *map(len, self._blocks)])

    def lacks(self, places: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which of some rows have no vector."""
        if self._missing is None:
            return np.zeros(len(places), np.bool_)
        return self._missing[places]

    def fill(self, vectors: Mapping[int, Any]) -> None:
        """Give rows that had none a vector, by their numbers; all of one width.

        Where that is another than the column's, all rows lack a vector so far, and those that are
        not given one still do.
        """
        width = len(next(iter(vectors.values())))
        matrix = _nothing(int(self._starts[-1]), width)
        missing = np.ones(len(matrix), np.bool_)
        if self._blocks[0].shape[1] == width:
            np.concatenate(self._blocks, out=matrix)
            missing = self.lacks(np.arange(len(matrix)))
        for place, vector in vectors.items():
            matrix[place], missing[place] = vector, False
        self._blocks, self._missing = [matrix], missing
        self._starts = np.array([0, len(matrix)])

    def cosines(self, asked: NDArray[np.float64], places: NDArray[np.int64]) -> NDArray[np.float64]:
        """Compare unit vectors with rows; `MISSING` for a row without a vector.

        Args:
            asked: One per row.
            places: Numbers of rows, each once, one at least.
        """
        low, high = int(places.min()), int(places.max()) + 1
        if high - low == len(places):
            # Rows that lie together are compared where they lie, and then put in order.
            scores = cosines(asked, self._between(low, high))[:, places - low]
        else:
            scores = cosines(asked, self._taken(places))
        scores[:, self.lacks(places)] = MISSING
        return scores

    def _between(self, low: int, high: int) -> _Floats:
        first, last = np.searchsorted(self._starts, [low, high - 1], "right") - 1
        parts = [
            self._blocks[number][max(low - start, 0) : high - start]
            for number, start in enumerate(self._starts[first : last + 1].tolist(), start=first)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _taken(self, places: NDArray[np.int64]) -> _Floats:
        taken = _nothing(len(places), self._blocks[0].shape[1])
        numbers = np.searchsorted(self._starts, places, "right") - 1
        for number in np.unique(numbers).tolist():
            held = numbers == number
            taken[held] = self._blocks[number][places[held] - self._starts[number]]
        return taken


def vector_matrix(column: pa.ChunkedArray) -> _Floats:
    """Give a column of vectors as a matrix of its own, NaN where there is none."""
    matrix = _nothing(0, column.type.list_size)
    if column.num_chunks:
        matrix = np.concatenate(list(map(_block, column.chunks)))
    if column.null_count:
        matrix[np.asarray(column.is_null())] = np.nan
    return matrix


def _block(chunk: pa.FixedSizeListArray) -> _Floats:
    """Look at the vectors of a chunk; where there is none is anything."""
    values: _Floats = chunk.values.to_numpy(zero_copy_only=False)
    return values.reshape(-1, chunk.type.list_size)[chunk.offset : chunk.offset + len(chunk)]


def _nothing(rows: int, width: int) -> _Floats:
    return np.empty((rows, width), np.float32)
