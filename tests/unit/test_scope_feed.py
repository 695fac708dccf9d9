"""Windows that come one by one make the same stretches as all at once, as early as can be."""

import asyncio
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorypipe.pipeline.scope_feed import ScopeFeed, earliest_times
from memorypipe.pipeline.scopes.consolidate import WindowFacts
from memorypipe.pipeline.scopes.decided import PipelineFact
from memorypipe.pipeline.stretches import EARLIEST, in_stretches, in_turn
from memorypipe.schema import WINDOWS

DAY = datetime(2025, 1, 1, tzinfo=UTC)


def at(day: int | None) -> datetime | None:
    return None if day is None else DAY + timedelta(days=day)


def row(number: int, days: Sequence[int | None]) -> dict[str, Any]:
    """What is known of a window whose messages were said on these days."""
    dated = [day for day in days if day is not None]
    return {
        "scope_key": "s",
        "conversation_id": f"c{number:02}",
        "window_id": f"w{number}",
        "window_index": 0,
        "event_time": at(max(dated, default=None)),
    }


def window(number: int, days: Sequence[int | None]) -> WindowFacts:
    facts = [
        PipelineFact(
            text=f"{number} {place}",
            window=0,
            window_id=f"w{number}",
            conversation_id=f"c{number:02}",
            event_time=at(day),
        )
        for place, day in enumerate(days)
    ]
    return WindowFacts(window_id=f"w{number}", facts=facts)


def earliest(days: Sequence[int | None]) -> datetime:
    return min(filter(None, map(at, days)), default=EARLIEST)


async def take(feed: ScopeFeed) -> list[WindowFacts]:
    taken: list[WindowFacts] = []
    while (each := await feed.next_window()) is not None:
        taken.append(each)
    return taken


Days = st.lists(st.integers(0, 12) | st.none(), min_size=1, max_size=4)


# What was said in a window, and which of it became facts; a fact that names no message has the
# time of its window.
@given(st.lists(st.tuples(Days, st.data()), max_size=8), st.randoms(use_true_random=False))
def test_whatever_the_order_in_which_they_come_the_stretches_are_those_of_all_windows(
    drawn: list[tuple[list[int | None], Any]], dice: random.Random
) -> None:
    said = [days for days, _ in drawn]
    told = [
        [
            day if day is not None else max((d for d in days if d is not None), default=None)
            for day in data.draw(st.lists(st.sampled_from(days), max_size=4))
        ]
        for days, data in drawn
    ]
    rows = [row(number, days) for number, days in enumerate(said)]
    if not rows:
        return
    bounds = {f"w{number}": earliest(days) for number, days in enumerate(said)}
    windows = {f"w{number}": window(number, days) for number, days in enumerate(told)}
    feed = ScopeFeed(dice.sample(rows, len(rows)), bounds)
    wanted = in_turn(in_stretches([windows[each["window_id"]] for each in feed.rows]))

    async def main() -> list[WindowFacts]:
        taking = asyncio.create_task(take(feed))
        for name in dice.sample(sorted(windows), len(windows)):
            feed.put(windows[name])
            await asyncio.sleep(0)
        return await taking

    assert asyncio.run(main()) == wanted


def test_a_stretch_is_given_before_later_windows_are_there() -> None:
    days = [[1, 2], [3, 5], [4, 6], [7]]
    rows = [row(number, each) for number, each in enumerate(days)]
    feed = ScopeFeed(rows, {f"w{number}": earliest(each) for number, each in enumerate(days)})

    async def main() -> list[list[str]]:
        feed.put(window(0, days[0]))
        first = await feed.next_window()
        feed.put(window(1, days[1]))
        second = asyncio.create_task(feed.next_window())
        await asyncio.sleep(0.01)
        assert not second.done(), "the next window begins before this one ends"
        feed.put(window(2, days[2]))
        found = [first, await second]
        return [[fact.window_id for fact in each.facts] for each in found if each is not None]

    assert asyncio.run(main()) == [["w0", "w0"], ["w1", "w2", "w1", "w2"]]


def test_without_a_bound_nothing_is_given_before_all_is_there() -> None:
    feed = ScopeFeed([row(0, [1]), row(1, [2])])

    async def main() -> None:
        feed.put(window(0, [1]))
        first = asyncio.create_task(feed.next_window())
        await asyncio.sleep(0.01)
        assert not first.done()
        feed.put(window(1, [2]))
        assert await first is not None

    asyncio.run(main())


def test_who_waits_for_what_will_not_come_is_cancelled() -> None:
    feed = ScopeFeed([row(0, [1])])

    async def main() -> None:
        waiting = asyncio.create_task(feed.next_window())
        await asyncio.sleep(0)
        feed.give_up()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(asyncio.CancelledError):
            await feed.next_window()

    asyncio.run(main())


def test_what_comes_when_who_waited_for_it_is_gone_is_no_error() -> None:
    """Else it would be raised in the place of what ended the others."""
    feed = ScopeFeed([row(0, [1]), row(1, [2])])

    async def main() -> None:
        waiting = asyncio.create_task(feed.next_window())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])

    asyncio.run(main())
    feed.put(window(0, [1]))
    feed.put(window(1, [2]))
    feed.give_up()


def test_the_earliest_time_is_that_of_what_is_new() -> None:
    def message(day: int | None, *, background: bool = False) -> dict[str, Any]:
        return {
            "role": "user",
            "content": "Hello",
            "id": "m",
            "timestamp": at(day),
            "background": background,
        }

    said = [
        [message(1, background=True), message(4), message(3)],
        [message(None), message(6)],
        [message(None)],
        [message(None)],
    ]
    times = [4, 6, 8, None]
    windows = [
        {
            **row(number, [day]),
            "scope": [("user_id", "u")],
            "messages": messages,
            "context": None,
        }
        for number, (messages, day) in enumerate(zip(said, times, strict=True))
    ]
    table = pa.Table.from_pylist(windows, schema=WINDOWS)
    assert earliest_times(table) == {"w0": at(3), "w1": at(6), "w2": at(8), "w3": EARLIEST}
    halves = pa.concat_tables([table.slice(0, 2), table.slice(2)])
    assert earliest_times(halves) == earliest_times(table)
