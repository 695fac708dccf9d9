"""Limits of what a run may delete are checked before anything is done."""

from typing import Any

import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.table.guards import Guards


@pytest.mark.parametrize("wrong", [-1, "all", True, 0.5])
def test_a_limit_that_cannot_be_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=f"max_retired.*{wrong!r}"):
        Guards(max_retired=wrong)


def test_half_of_a_scope_may_go_and_ten_of_a_small_one() -> None:
    assert [Guards().limit(live) for live in (0, 20, 21, 22, 100)] == [10, 10, 10, 11, 50]
    assert [Guards(max_retired=limit).limit(100) for limit in (0, 7)] == [0, 7]
    assert Guards(max_retired=None).limit(100) is None
