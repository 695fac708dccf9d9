import asyncio

import pytest

from memorypipe.errors import RetryableModelError
from memorypipe.llm.limits.limits import Limits
from memorypipe.llm.types import RateState, Reply
from tests.support.virtual_time import run


def _fullest_window(starts: list[float], window_s: float = 1.0) -> int:
    return max(sum(1 for s in starts if first <= s <= first + window_s) for first in starts)


def _reply(prompt_tokens: int, completion_tokens: int = 0, rate: RateState | None = None) -> Reply:
    return Reply(
        content="",
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        rate=rate,
    )


def test_starts_are_first_come_first_served() -> None:
    async def main() -> list[int]:
        limits = Limits(50, 3)
        order: list[int] = []

        async def one(number: int) -> None:
            async with limits.attempt(0):
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
            async with limits.attempt(0):
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
            async with limits.attempt(0):
                await asyncio.sleep(1)

        await asyncio.gather(*(one() for _ in range(80)))
        elapsed_s = asyncio.get_running_loop().time()
        return (
            limits.counts.max_in_flight,
            limits.counts.in_flight,
            elapsed_s,
            limits.counts.waited_concurrency_s,
        )

    max_in_flight, in_flight, elapsed_s, waited_s = run(main())
    assert (max_in_flight, in_flight) == (8, 0)
    assert elapsed_s == pytest.approx(10, abs=0.03)  # the first starts are apart
    assert waited_s == pytest.approx(8 * sum(range(10)), rel=0.01)


def test_waiting_for_the_pace_is_counted_apart() -> None:
    async def main() -> Limits:
        limits = Limits(2, 64)

        async def one() -> None:
            async with limits.attempt(0):
                pass

        await asyncio.gather(*(one() for _ in range(5)))
        return limits

    limits = run(main())
    assert limits.counts.waited_qps_s == pytest.approx(0.5 + 1 + 1.5 + 2, abs=0.05)
    assert limits.counts.waited_concurrency_s == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("max_tokens_per_minute", [None, 6_000])
def test_who_is_cancelled_while_waiting_gives_the_slot_back(
    max_tokens_per_minute: int | None,
) -> None:
    async def main() -> bool:
        limits = Limits(0.01, 1, max_tokens_per_minute)
        async with limits.attempt(0):
            pass
        waiting = asyncio.create_task(limits.attempt(0).__aenter__())
        await asyncio.sleep(30)
        waiting.cancel()
        await asyncio.wait([waiting])
        async with asyncio.timeout(200), limits.attempt(0):
            return limits.counts.in_flight == 1

    assert run(main())


def test_who_is_cancelled_in_the_pace_gives_the_tokens_back() -> None:
    async def main() -> float:
        limits = Limits(0.1, 8, 600)
        async with limits.attempt(0) as attempt:
            attempt.replied(_reply(0, 100))
        # Ten tokens a second: the tokens are there after ten seconds, the start after eleven.
        waiting = asyncio.create_task(limits.attempt(0).__aenter__())
        await asyncio.sleep(9.9)
        waiting.cancel()
        await asyncio.wait([waiting])
        waited_s = limits.counts.waited_tokens_s
        async with limits.attempt(0):
            return limits.counts.waited_tokens_s - waited_s

    assert run(main()) == pytest.approx(0, abs=0.1)


def test_an_error_inside_gives_the_slot_back() -> None:
    async def main() -> None:
        limits = Limits(None, 1)
        for _ in range(3):
            with pytest.raises(KeyError):
                async with asyncio.timeout(1), limits.attempt(0):
                    raise KeyError
        assert limits.counts.in_flight == 0

    run(main())


@pytest.mark.parametrize("cost", [100, 1_000, 5_000])
def test_tokens_are_spent_at_the_rate_allowed_whatever_a_call_costs(cost: int) -> None:
    """Ten minutes of calls that take ten seconds each, against 60,000 tokens a minute."""

    async def main() -> float:
        limits = Limits(None, 64, 60_000)
        count = 600_000 // cost

        async def one() -> None:
            async with limits.attempt(cost / 4) as attempt:
                await asyncio.sleep(10)
                attempt.replied(_reply(cost - 50, 50))

        await asyncio.gather(*(one() for _ in range(count)))
        return asyncio.get_running_loop().time()

    # With a hundred tokens a call the slots are what bounds: 64 calls in ten seconds.
    ideal_s = max(600.0, 600_000 / cost / 64 * 10)
    assert run(main()) == pytest.approx(ideal_s, rel=0.12)


def test_the_estimate_of_prompts_is_corrected_by_those_that_were_counted() -> None:
    """Prompts that are twice as long as estimated do not get twice the tokens of a minute."""

    async def main() -> float:
        limits = Limits(None, 64, 60_000)
        for _ in range(20):
            async with limits.attempt(50) as attempt:
                attempt.replied(_reply(100, 100))
        began_s = asyncio.get_running_loop().time()
        # None of these has replied when the last of them starts.
        entered = [limits.attempt(500) for _ in range(50)]
        for attempt in entered:
            await attempt.__aenter__()
        return asyncio.get_running_loop().time() - began_s

    assert run(main()) == pytest.approx(49 * 1.1, rel=0.03)


@pytest.mark.parametrize(
    "rate",
    [
        RateState(remaining_requests=0, reset_requests_s=7.0),
        RateState(remaining_requests=5, remaining_tokens=99, reset_tokens_s=7.0),
    ],
)
def test_nothing_starts_while_the_endpoint_says_that_it_takes_nothing(rate: RateState) -> None:
    async def main() -> float:
        limits = Limits(None, 8)
        async with limits.attempt(100) as attempt:
            attempt.replied(_reply(100, 0, rate))
        async with limits.attempt(100):
            return asyncio.get_running_loop().time()

    assert run(main()) == pytest.approx(7, abs=0.01)


def test_no_reset_is_waited_for_longer_than_a_minute() -> None:
    async def main() -> float:
        limits = Limits(None, 8)
        async with limits.attempt(1) as attempt:
            attempt.replied(_reply(1, 0, RateState(remaining_requests=0, reset_requests_s=9e9)))
        async with limits.attempt(1):
            return asyncio.get_running_loop().time()

    assert run(main()) == pytest.approx(60, abs=0.01)


def test_a_pause_holds_for_those_already_in_line() -> None:
    async def main() -> list[float]:
        limits = Limits(10, 8)
        starts = []

        async def one(number: int) -> None:
            async with limits.attempt(1) as attempt:
                starts.append(asyncio.get_running_loop().time())
                if number == 1:
                    rate = RateState(remaining_requests=0, reset_requests_s=5.0)
                    attempt.replied(_reply(1, 0, rate))

        await asyncio.gather(*(one(number) for number in range(5)))
        return starts

    starts = run(main())
    assert starts[1] < 0.5
    assert all(start > starts[1] + 5 for start in starts[2:])


def test_one_refusal_that_asks_to_wait_stops_nobody_else() -> None:
    async def main() -> float:
        limits = Limits(None, 8)
        async with limits.attempt(1) as attempt:
            attempt.failed(RetryableModelError("busy", "http_429", 30.0))
        async with limits.attempt(1):
            return asyncio.get_running_loop().time()

    assert run(main()) < 0.01


def test_refusals_of_everything_that_ask_to_wait_stop_everyone() -> None:
    async def main() -> float:
        limits = Limits(None, 8)
        for _ in range(12):
            async with limits.attempt(1) as attempt:
                attempt.failed(RetryableModelError("busy", "http_503", 30.0))
        async with limits.attempt(1):
            return asyncio.get_running_loop().time()

    # From the tenth on nothing starts; twelve come in a row here.
    assert 30 <= run(main()) <= 91
