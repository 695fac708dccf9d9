"""Cosine over the memories of one scope: kept up as they change, or all at once.

Cosines are computed in float64 and rounded: whatever order a processor or a library sums in, the
rounded value is the same, and so are ranks and ties, on every machine and in every partitioning.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memorypipe.rank.fusion import best_names

__all__ = ["MISSING", "VectorIndex", "cosines", "unit_rows"]

Matrix = NDArray[np.float64]

# The score of what has no vector: below every cosine.
MISSING = -np.inf

# The error of a cosine in float64 is near 1e-16, so that rounding meets a boundary once in ten
# million; the vectors themselves are float32, good for seven digits.
_DECIMALS = 9

_FIRST_ROOM = 64


def unit_rows(vectors: Any) -> Matrix:
    """Bring vectors to length 1; a zero vector stays, and is like nothing.

    Args:
        vectors: One per row, of any float type.

    Example:
        >>> unit_rows([[3.0, 4.0], [0.0, 0.0]]).tolist()
        [[0.6, 0.8], [0.0, 0.0]]
    """
    rows = np.asarray(vectors, np.float64)
    unit: Matrix = rows / _norms(rows)[:, None]
    return unit


def cosines(queries: Matrix, rows: Any) -> Matrix:
    """Compare unit vectors with vectors of any length and float type.

    Returns:
        One row per query, one column per row; `MISSING` for a row of NaN.
    """
    rows = np.asarray(rows, np.float64)
    return _rounded(queries @ rows.T, _norms(rows))


def _norms(rows: Matrix) -> Matrix:
    """Give the lengths of rows; 1 for a zero vector."""
    norms: Matrix = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    norms[norms == 0] = 1.0
    return norms


def _rounded(products: Matrix, norms: Matrix) -> Matrix:
    scores: Matrix = np.round(products / norms, _DECIMALS)
    scores[:, np.isnan(norms)] = MISSING
    return scores


class VectorIndex:
    """Cosine over the memories of one scope, kept up as they change.

    Args:
        dim: Width of the vectors.

    Example:
        >>> index = VectorIndex(2)
        >>> index.add({"m1": [1.0, 0.0], "m2": [0.0, 1.0]})
        >>> index.best(unit_rows([[2.0, 1.0]]), 1)
        [['m1']]
    """

    def __init__(self, dim: int) -> None:
        self._rows = np.zeros((_FIRST_ROOM, dim))
        self._norms = np.zeros(_FIRST_ROOM)
        self._ids: list[str] = []  # those of memories that have gone stay
        self._places: dict[str, int] = {}

    def __contains__(self, memory_id: str) -> bool:
        """Tell whether the memory has a vector."""
        return memory_id in self._places

    def add(self, vectors: Mapping[str, Sequence[float] | NDArray[Any]]) -> None:
        """Take vectors of memories in, of any length; their ids must not be held yet."""
        if not vectors:
            return
        start, end = len(self._ids), len(self._ids) + len(vectors)
        if end > len(self._rows):
            size = max(end, 2 * len(self._rows))
            self._rows = np.resize(self._rows, (size, self._rows.shape[1]))
            self._norms = np.resize(self._norms, size)
        self._rows[start:end] = unit_rows(list(vectors.values()))
        self._norms[start:end] = _norms(self._rows[start:end])
        self._ids += vectors
        self._places |= {memory_id: start + n for n, memory_id in enumerate(vectors)}

    def remove(self, memory_id: str) -> None:
        """Forget a memory, if it is held."""
        self._places.pop(memory_id, None)

    def best(self, queries: Matrix, k: int) -> list[list[str]]:
        """Give the ids of the `k` memories most like each unit vector, the best first, ties by id.

        Args:
            queries: One per row.
            k: Ids wanted.
        """
        held = len(self._ids)
        # One by one: for all together the library starts threads, which take more than they give.
        products = np.stack([self._rows[:held] @ query for query in queries])
        scores = _rounded(products, self._norms[:held])
        places = np.fromiter(self._places.values(), np.int64, len(self._places))
        return [best_names(row, self._ids, k, among=places) for row in scores]
