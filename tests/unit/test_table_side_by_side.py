"""Doing independent work at once."""

import threading

import pytest

from memorypipe.table.side_by_side import WORKERS, begun, in_two, side_by_side


def test_results_come_in_the_order_of_the_works() -> None:
    assert side_by_side([lambda n=n: n * n for n in range(20)]) == [n * n for n in range(20)]  # type: ignore[misc]  # a default
    assert side_by_side([]) == []


@pytest.mark.skipif(WORKERS == 1, reason="one processor does one thing at a time")
def test_two_works_run_at_once() -> None:
    meeting = threading.Barrier(2, timeout=60)
    assert sorted(in_two(meeting.wait, meeting.wait)) == [0, 1]
    meeting.reset()
    assert sorted(side_by_side([meeting.wait, meeting.wait])) == [0, 1]


def _fail() -> None:
    raise ValueError("broken")


def test_what_one_work_raises_is_raised() -> None:
    with pytest.raises(ValueError, match="broken"):
        side_by_side([lambda: None, _fail])
    with pytest.raises(ValueError, match="broken"):
        in_two(_fail, lambda: None)
    with pytest.raises(ValueError, match="broken"):
        in_two(lambda: None, _fail)


@pytest.mark.parametrize("rows", [1, 1 << 20])
def test_work_that_was_begun_is_done_once_and_tells_what_became_of_it(rows: int) -> None:
    done: list[int] = []
    result = begun(lambda: done.append(1), rows=rows)
    assert (result(), result(), done) == (None, None, [1])
    with pytest.raises(ValueError, match="broken"):
        begun(_fail, rows=rows)()


@pytest.mark.skipif(WORKERS == 1, reason="one processor does one thing at a time")
def test_work_that_was_begun_goes_on_meanwhile() -> None:
    meeting = threading.Barrier(2, timeout=60)
    result = begun(meeting.wait, rows=1 << 20)
    assert sorted([meeting.wait(), result()]) == [0, 1]
