import asyncio
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorypipe.llm.limits import Limits, Pace, TokenBudget
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


def test_starts_are_first_come_first_served() -> None:
    async def main() -> list[int]:
        limits = Limits(50, 3)
        order: list[int] = []

        async def one(number: int) -> None:
            async with limits:
                order.append(number)
                await asyncio.sleep(0.11)

        await asyncio.gather(*(one(number) for number in range(40)))
        return order

    assert run(main()) == list(range(40))


def test_a_start_is_not_delayed_after_its_turn_in_the_pace() -> None:
    """Slots come before the pace: however long the calls take, the starts keep to the window."""

    async def main() -> list[float]:
        limits = Limits(20, 4)
        starts: list[float] = []

        async def one(number: int) -> None:
            async with limits:
                starts.append(asyncio.get_running_loop().time())
                # The slots become free in bunches: pacing first would let the bunches through.
                await asyncio.sleep(1.0 if number % 4 else 1.15)

        await asyncio.gather(*(one(number) for number in range(60)))
        return starts

    starts = run(main())
    assert _fullest_window(starts) <= 20


def test_slots_bound_what_is_in_flight_and_stay_full() -> None:
    async def main() -> tuple[int, int, float, float]:
        limits = Limits(None, 8)

        async def one() -> None:
            async with limits:
                await asyncio.sleep(1)

        await asyncio.gather(*(one() for _ in range(80)))
        elapsed_s = asyncio.get_running_loop().time()
        return limits.max_in_flight, limits.in_flight, elapsed_s, limits.waited_concurrency_s

    max_in_flight, in_flight, elapsed_s, waited_s = run(main())
    assert (max_in_flight, in_flight) == (8, 0)
    assert elapsed_s == pytest.approx(10, abs=0.01)
    assert waited_s == pytest.approx(8 * sum(range(10)), rel=0.01)


def test_waiting_for_the_pace_is_counted_apart() -> None:
    async def main() -> Limits:
        limits = Limits(2, 64)

        async def one() -> None:
            async with limits:
                pass

        await asyncio.gather(*(one() for _ in range(5)))
        return limits

    limits = run(main())
    assert limits.waited_qps_s == pytest.approx(0.5 + 1 + 1.5 + 2, abs=0.01)
    assert limits.waited_concurrency_s == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("max_tokens_per_minute", [None, 6_000])
def test_who_is_cancelled_while_waiting_gives_the_slot_back(
    max_tokens_per_minute: int | None,
) -> None:
    async def main() -> bool:
        limits = Limits(0.01, 1, max_tokens_per_minute)
        async with limits:
            pass
        waiting = asyncio.create_task(limits.__aenter__())
        await asyncio.sleep(30)
        waiting.cancel()
        await asyncio.wait([waiting])
        async with asyncio.timeout(200), limits:
            return limits.in_flight == 1

    assert run(main())


def test_who_is_cancelled_in_the_pace_gives_the_tokens_back() -> None:
    async def main() -> float:
        limits = Limits(0.1, 8, 600)
        async with limits:
            limits.spend(100)
        # Ten tokens a second: the tokens are there after nine seconds, the start after ten.
        waiting = asyncio.create_task(limits.__aenter__())
        await asyncio.sleep(9.5)
        waiting.cancel()
        await asyncio.wait([waiting])
        waited_s = limits.waited_tokens_s
        async with limits:
            return limits.waited_tokens_s - waited_s

    assert run(main()) == pytest.approx(0, abs=0.1)


def test_an_error_inside_gives_the_slot_back() -> None:
    async def main() -> None:
        limits = Limits(None, 1)
        for _ in range(3):
            with pytest.raises(KeyError):
                async with asyncio.timeout(1), limits:
                    raise KeyError
        assert limits.in_flight == 0

    run(main())


@pytest.mark.parametrize("cost", [100, 1_000, 5_000])
def test_tokens_are_spent_at_the_rate_allowed_whatever_a_call_costs(cost: int) -> None:
    """Ten minutes of calls that take ten seconds each, against 60,000 tokens a minute."""

    async def main() -> float:
        limits = Limits(None, 64, 60_000)
        count = 600_000 // cost

        async def one() -> None:
            async with limits:
                await asyncio.sleep(10)
                limits.spend(cost)

        await asyncio.gather(*(one() for _ in range(count)))
        return asyncio.get_running_loop().time()

    # With a hundred tokens a call the slots are what bounds: 64 calls in ten seconds.
    ideal_s = max(600.0, 600_000 / cost / 64 * 10)
    assert run(main()) == pytest.approx(ideal_s, rel=0.12)


def test_calls_without_a_reply_cost_no_tokens() -> None:
    async def main() -> float:
        budget = TokenBudget(60)
        await budget.wait()
        budget.spend(1)
        budget.done()
        for _ in range(5):
            await budget.wait()
            budget.done()
        return asyncio.get_running_loop().time()

    assert run(main()) < 2
