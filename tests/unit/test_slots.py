import asyncio

import pytest

from memorypipe.llm.limits.slots import Slots
from tests.support.virtual_time import run


def test_more_slots_let_those_in_and_who_waits_longest_first() -> None:
    async def main() -> list[int]:
        slots, order = Slots(0), []

        async def one(number: int) -> None:
            await slots.acquire()
            order.append(number)

        tasks = [asyncio.ensure_future(one(number)) for number in range(5)]
        await asyncio.sleep(1)
        assert (order, slots.waiting) == ([], 5)
        slots.resize(3)
        await asyncio.sleep(1)
        assert order == [0, 1, 2]
        slots.resize(9)
        await asyncio.gather(*tasks)
        return order

    assert run(main()) == list(range(5))


def test_who_comes_again_goes_before_who_comes_first() -> None:
    async def main() -> list[str]:
        slots, order = Slots(0), []

        async def one(name: str, *, again: bool) -> None:
            await slots.acquire(first=again)
            order.append(name)
            slots.release()

        tasks = [
            asyncio.ensure_future(one(name, again=name.startswith("again")))
            for name in ("first 1", "again 1", "first 2", "again 2")
        ]
        await asyncio.sleep(1)
        assert slots.waiting == 4
        slots.resize(1)
        await asyncio.gather(*tasks)
        return order

    assert run(main()) == ["again 1", "again 2", "first 1", "first 2"]


def test_fewer_slots_take_nothing_away_and_give_nothing_out() -> None:
    async def main() -> None:
        slots = Slots(3)
        for _ in range(3):
            await slots.acquire()
        slots.resize(1)
        turn = asyncio.ensure_future(slots.acquire())
        for in_use in (2, 1):
            slots.release()
            await asyncio.sleep(1)
            assert (slots.in_use, turn.done()) == (in_use, False)
        slots.release()
        await asyncio.sleep(1)
        assert (slots.in_use, turn.done()) == (1, True)

    run(main())


@pytest.mark.parametrize("given", [False, True])
def test_who_is_cancelled_while_waiting_keeps_no_slot(*, given: bool) -> None:
    async def main() -> None:
        slots = Slots(1)
        await slots.acquire()
        first = asyncio.ensure_future(slots.acquire())
        second = asyncio.ensure_future(slots.acquire())
        await asyncio.sleep(1)
        if given:
            slots.release()
        first.cancel()
        await asyncio.wait([first])
        if not given:
            slots.release()
        await asyncio.wait_for(second, 1)
        assert (slots.in_use, slots.waiting) == (1, 0)

    run(main())


def test_everyone_who_waits_can_be_failed() -> None:
    async def main() -> None:
        slots = Slots(0)
        turns = [asyncio.ensure_future(slots.acquire()) for _ in range(3)]
        await asyncio.sleep(1)
        slots.fail_waiting(KeyError)
        done, _ = await asyncio.wait(turns)
        assert {type(turn.exception()) for turn in done} == {KeyError}
        assert (slots.in_use, slots.waiting) == (0, 0)

    run(main())
