"""Pieces are shared out whole, in order, and evenly."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pytest

from memorypipe.table.pinned import share_out
from memorypipe.table.storage import Where


@dataclass(frozen=True)
class _Piece:
    num_rows: int
    size_bytes: int | None = None

    def scan(self, columns: Sequence[str], where: Where) -> Iterator[pa.Table]:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("rows", "shares", "expected"),
    [
        ([10, 10, 10, 10], 2, [[10, 10], [10, 10]]),
        ([1, 1, 1, 97], 2, [[1, 1, 1, 97]]),
        ([97, 1, 1, 1], 2, [[97], [1, 1, 1]]),
        ([5, 5], 8, [[5], [5]]),
        ([0, 0], 2, [[0], [0]]),
        ([], 2, [[]]),
    ],
)
def test_shares_have_about_as_many_rows_and_none_is_empty(
    rows: list[int], shares: int, expected: list[list[int]]
) -> None:
    found = share_out([_Piece(each) for each in rows], shares)
    assert [[piece.num_rows for piece in share] for share in found] == expected
    assert len(found) <= max(shares, 1)
