import asyncio

import pytest

from memorypipe.llm.limits.limits import Limits
from memorypipe.llm.limits.spread import Spread
from memorypipe.llm.types import Reply
from tests.support.virtual_time import VirtualTimeLoop, run


def _learnt(latency_s: float) -> Spread:
    spread = Spread()
    spread.learn(latency_s)
    return spread


@pytest.mark.parametrize(
    ("latency_s", "in_flight", "gap_s"),
    [
        (0.2, 64, 0.2 / 64 / 3),
        (0.2, 1, 0.005),  # bounded: a slow endpoint is full again soon
        (60.0, 64, 0.005),
        (0.2, 256, 0.0),  # finer than timers are
        (0.0, 64, 0.0),
    ],
)
def test_the_gap_is_a_third_of_an_even_rhythm(
    latency_s: float, in_flight: int, gap_s: float
) -> None:
    assert _learnt(latency_s).gap_s(in_flight) == pytest.approx(gap_s)


def test_the_first_starts_are_apart_until_a_reply_shows_that_it_comes_at_once() -> None:
    async def main() -> list[float]:
        spread, times = Spread(), []
        for number in range(64):
            if number == 20:
                spread.learn(0.0)
            await spread.wait(64)
            times.append(asyncio.get_running_loop().time())
        return times

    times = run(main())
    assert times[19] == pytest.approx(19 * 0.003)
    assert times[63] == pytest.approx(times[19])


def test_starts_that_are_apart_already_do_not_wait() -> None:
    async def main() -> list[float]:
        spread, loop = _learnt(0.2), asyncio.get_running_loop()
        waits: list[float] = []
        for _ in range(50):
            asked_s = loop.time()
            await spread.wait(64)
            waits.append(loop.time() - asked_s)
            await asyncio.sleep(0.2 / 64)
        return waits

    assert max(run(main())) == pytest.approx(0, abs=1e-6)


def test_one_who_gives_up_holds_up_nobody_else_for_longer() -> None:
    async def main() -> float:
        spread, loop = _learnt(0.2), asyncio.get_running_loop()
        waiting = [asyncio.create_task(spread.wait(64)) for _ in range(10)]
        await asyncio.sleep(0)
        waiting[4].cancel()
        await asyncio.wait(waiting)
        return loop.time()

    assert run(main()) == pytest.approx(9 * 0.2 / 64 / 3, rel=0.01)


def test_requests_that_begin_together_come_apart_and_cost_no_rounds() -> None:
    """Every reply keeps the client busy; one that comes alone holds up no other."""
    rounds, in_flight, latency_s, busy_s = 30, 64, 0.2, 0.0005

    async def main() -> float:
        limits, loop = Limits(None, in_flight), asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)

        async def lane() -> None:
            for _ in range(rounds):
                async with limits.attempt(0) as attempt:
                    await asyncio.sleep(latency_s)
                    attempt.replied(Reply(content="", prompt_tokens=0, completion_tokens=0))
                    loop.be_busy(busy_s)
                    await asyncio.sleep(0)  # as a client that goes on when the loop comes round

        await asyncio.gather(*(lane() for _ in range(in_flight)))
        return loop.time()

    ideal_s = rounds * (latency_s + busy_s)
    first_starts_s = in_flight * 0.003
    assert run(main()) <= 1.01 * ideal_s + first_starts_s
