import asyncio
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorypipe.llm.limits.pace import Pace, TokenBudget
from tests.support.virtual_time import VirtualTimeLoop, run


def _starts(max_qps: float, count: int, *, lateness_s: float = 0.0) -> list[float]:
    async def main() -> list[float]:
        pace = Pace(max_qps)
        starts: list[float] = []

        async def one() -> None:
            await pace.wait()
            starts.append(asyncio.get_running_loop().time())

        await asyncio.gather(*(one() for _ in range(count)))
        return starts

    return run(main(), lateness_s=lateness_s)


def _fullest_window(starts: list[float], window_s: float = 1.0) -> int:
    fullest, first = 0, 0
    for last, start in enumerate(starts):
        while starts[first] < start - window_s:
            first += 1
        fullest = max(fullest, last - first + 1)
    return fullest


@pytest.mark.parametrize("lateness_s", [0.0, 0.001, 0.02, 0.3])
@pytest.mark.parametrize("max_qps", [0.5, 1, 2.7, 7, 200])
def test_no_window_of_one_second_holds_more_than_max_qps_and_one(
    max_qps: float, lateness_s: float
) -> None:
    starts = _starts(max_qps, int(max_qps * 5) + 3, lateness_s=lateness_s)
    assert _fullest_window(starts) <= max_qps + 1


@given(
    max_qps=st.sampled_from([0.7, 3, 40]),
    busy_s=st.lists(st.sampled_from([0.0, 0.0, 0.0, 0.01, 0.05, 0.09, 0.6]), max_size=30),
)
def test_the_window_rule_holds_on_a_loop_that_is_busy_now_and_then(
    max_qps: float, busy_s: list[float]
) -> None:
    """What was missed is caught up, but never by more starts than a window may hold."""

    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        pace = Pace(max_qps)
        starts = []
        for duration_s in busy_s + [0.0] * 50:
            await pace.wait()
            starts.append(loop.time())
            loop.be_busy(duration_s)
        return starts

    assert _fullest_window(run(main())) <= math.ceil(max_qps)


def test_the_first_starts_come_one_by_one() -> None:
    starts = _starts(10, 4)
    gaps = [after - before for before, after in itertools.pairwise(starts)]
    assert gaps == pytest.approx([0.1, 0.1, 0.1], abs=1e-3)


@pytest.mark.parametrize("lateness_s", [0.0, 0.001, 0.003])
@pytest.mark.parametrize("max_qps", [5, 200, 1_000])
def test_the_sustained_rate_is_within_one_percent_even_with_late_timers(
    max_qps: int, lateness_s: float
) -> None:
    starts = _starts(max_qps, max_qps * 6 + 1, lateness_s=lateness_s)
    rate = (len(starts) - 1) / (starts[-1] - starts[0])
    assert max_qps * 0.99 <= rate <= max_qps * 1.001


def test_a_pause_saves_up_no_more_than_two_starts() -> None:
    async def main() -> list[float]:
        pace = Pace(10)
        loop = asyncio.get_running_loop()
        await pace.wait()
        await asyncio.sleep(60)
        starts = []
        for _ in range(5):
            await pace.wait()
            starts.append(loop.time())
        return starts

    starts = run(main())
    assert starts[-1] - starts[0] == pytest.approx(0.3, abs=0.01)


def test_a_lower_level_holds_for_those_already_in_line() -> None:
    async def main() -> list[float]:
        pace = Pace(10)
        starts: list[float] = []

        async def one() -> None:
            await pace.wait()
            starts.append(asyncio.get_running_loop().time())
            if len(starts) == 5:
                pace.level = 0.1

        await asyncio.gather(*(one() for _ in range(9)))
        return starts

    gaps = [after - before for before, after in itertools.pairwise(run(main()))]
    # The start that was under way when the level fell is the last at the old pace.
    assert gaps[:4] == pytest.approx([0.1] * 4, abs=0.01)
    assert gaps[5:] == pytest.approx([1.0] * 3, abs=0.01)


def test_calls_without_a_reply_cost_no_tokens() -> None:
    async def main() -> float:
        budget = TokenBudget(60)
        for _ in range(5):
            await budget.wait(1_000)
            budget.settle(1_000, 0)
        return asyncio.get_running_loop().time()

    assert run(main()) < 2


def test_tokens_do_not_burst_at_the_start() -> None:
    """A first call may start at once, the next when the first has been earned."""

    async def main() -> list[float]:
        budget = TokenBudget(6_000)
        starts = []
        for _ in range(3):
            await budget.wait(500)
            starts.append(asyncio.get_running_loop().time())
        return starts

    assert run(main()) == pytest.approx([0, 5, 10], abs=0.01)
