"""Limits that several workers keep together, over a wire, on a virtual clock."""

import asyncio
import bisect

import pytest

from memorypipe.errors import BudgetError, StoppedError
from memorypipe.llm.limits.control import Bounds
from tests.support.shared_limits import Caller, NearCoordinator
from tests.support.virtual_time import run


def _fullest_window(starts: list[float]) -> int:
    return max(
        bisect.bisect_right(starts, first + 1.0) - place for place, first in enumerate(starts)
    )


def _most_at_once(starts: list[float], latency_s: float) -> int:
    events = sorted([(start, 1) for start in starts] + [(s + latency_s, -1) for s in starts])
    most = now = 0
    for _, change in events:
        now += change
        most = max(most, now)
    return most


def _rate_of(starts: list[float], seconds: float) -> float:
    return len([start for start in starts if start < starts[0] + seconds]) / seconds


@pytest.mark.parametrize("lateness_s", [0.0, 0.003])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_the_rate_is_kept_whole_by_all_workers_together(workers: int, lateness_s: float) -> None:
    async def main() -> list[Caller]:
        coordinator = NearCoordinator()
        callers = [Caller(f"w{n}", coordinator, max_qps=50) for n in range(workers)]
        for caller in callers:
            caller.start()
        await asyncio.sleep(20.5)
        return callers

    callers = run(main(), lateness_s=lateness_s)
    starts = sorted(start for caller in callers for start in caller.starts)
    assert 49.0 <= _rate_of(starts, 20.0) <= 50.5
    assert _fullest_window(starts) <= 51
    # Those with the same demand get about the same.
    assert min(len(c.starts) for c in callers) > 0.7 * max(len(c.starts) for c in callers)


def test_a_worker_that_is_killed_takes_little_of_the_rate_with_it() -> None:
    async def main() -> list[float]:
        coordinator = NearCoordinator()
        callers = [Caller(f"w{n}", coordinator, max_qps=50) for n in range(2)]
        for caller in callers:
            caller.start()
        await asyncio.sleep(10)
        callers[0].kill()
        await asyncio.sleep(10.5)
        return sorted(start for caller in callers for start in caller.starts)

    starts = run(main(), lateness_s=0.001)
    assert 49.0 <= _rate_of(starts, 20.0) <= 50.5
    assert _fullest_window(starts) <= 51


def test_a_worker_with_little_to_do_leaves_the_rest_of_the_rate_to_the_other() -> None:
    async def main() -> tuple[list[float], list[float]]:
        coordinator = NearCoordinator()
        busy = Caller("busy", coordinator, max_qps=50)
        calm = Caller("calm", coordinator, max_qps=50, lanes=1, latency_s=1.0)
        busy.start()
        calm.start()
        await asyncio.sleep(20.5)
        return busy.starts, calm.starts

    busy, calm = run(main())
    assert len(calm) >= 18
    assert 49.0 <= _rate_of(sorted(busy + calm), 20.0) <= 50.5


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_requests_in_flight_stay_full_and_never_exceed_the_limit(workers: int) -> None:
    async def main() -> tuple[list[float], int]:
        coordinator = NearCoordinator()
        callers = [
            Caller(f"w{n}", coordinator, max_concurrency=16, latency_s=0.5) for n in range(workers)
        ]
        for caller in callers:
            caller.start()
            await asyncio.sleep(2)
        await asyncio.sleep(20)
        assert all(caller.limits.counts.in_flight > 0 for caller in callers)
        return sorted(s for caller in callers for s in caller.starts), coordinator.exchanges

    starts, exchanges = run(main())
    assert _most_at_once(starts, 0.5) == 16
    seconds = 20 + 2 * workers
    assert len(starts) >= 0.9 * 16 / 0.5 * seconds
    # Attempts do not wait for an exchange each.
    assert exchanges <= 25 * seconds * workers


def test_every_worker_gets_its_turn_where_slots_are_fewer_than_workers() -> None:
    async def main() -> list[list[float]]:
        coordinator = NearCoordinator()
        callers = [Caller(f"w{n}", coordinator, max_concurrency=1, latency_s=0.2) for n in range(3)]
        for caller in callers:
            caller.start()
        await asyncio.sleep(30)
        return [caller.starts for caller in callers]

    each = run(main())
    assert all(len(starts) >= 20 for starts in each)
    assert _most_at_once(sorted(sum(each, [])), 0.2) == 1  # noqa: RUF017  # three short lists


def test_the_share_of_a_worker_that_died_comes_back() -> None:
    async def main() -> int:
        coordinator = NearCoordinator()
        callers = [
            Caller(f"w{n}", coordinator, max_concurrency=16, latency_s=0.5) for n in range(2)
        ]
        for caller in callers:
            caller.start()
        await asyncio.sleep(5)
        callers[0].kill()
        await asyncio.sleep(4)
        return callers[1].limits.counts.in_flight

    assert run(main()) == 16


@pytest.mark.parametrize("max_qps", [None, 200.0])
@pytest.mark.parametrize("workers", [1, 3])
def test_exactly_as_many_calls_are_made_as_the_bound_allows(
    workers: int, max_qps: float | None
) -> None:
    async def main() -> list[Caller]:
        coordinator = NearCoordinator(bounds=Bounds(max_calls=500))
        callers = [Caller(f"w{n}", coordinator, max_qps=max_qps) for n in range(workers)]
        for caller in callers:
            caller.start()
        for caller in callers:
            await caller.done()
        assert coordinator.totals()["calls"] == 500
        return callers

    callers = run(main())
    assert sum(len(caller.starts) for caller in callers) == 500
    errors = [error for caller in callers for error in caller.errors]
    assert len(errors) == 64 * workers
    assert all(isinstance(e, BudgetError) and e.bound == "max_calls" for e in errors)


def test_calls_that_a_dead_worker_was_granted_stay_counted() -> None:
    async def main() -> tuple[int, object]:
        coordinator = NearCoordinator(bounds=Bounds(max_calls=500))
        callers = [Caller(f"w{n}", coordinator) for n in range(2)]
        for caller in callers:
            caller.start()
        await asyncio.sleep(0.25)
        callers[0].kill()
        await callers[1].done()
        return sum(len(caller.starts) for caller in callers), coordinator.totals()["bound"]

    calls, bound = run(main())
    assert 500 - 16 - 64 <= calls <= 500
    assert bound == "max_calls"


@pytest.mark.parametrize("workers", [1, 3])
def test_tokens_stay_within_the_bound_and_come_near_it(workers: int) -> None:
    async def main() -> int:
        coordinator = NearCoordinator(bounds=Bounds(max_tokens=100_000))
        callers = [Caller(f"w{n}", coordinator, tokens=200) for n in range(workers)]
        for caller in callers:
            caller.start()
        for caller in callers:
            await caller.done()
            assert {type(error) for error in caller.errors} == {BudgetError}
        return sum(caller.spent for caller in callers)

    assert 95_000 <= run(main()) <= 100_000


def test_tokens_of_a_minute_are_shared() -> None:
    async def main() -> float:
        coordinator = NearCoordinator()
        callers = [
            Caller(f"w{n}", coordinator, max_tokens_per_minute=60_000, tokens=500) for n in range(2)
        ]
        for caller in callers:
            caller.start(300)
        for caller in callers:
            await caller.done()
        return asyncio.get_running_loop().time()

    assert run(main()) == pytest.approx(300, rel=0.02)


def test_a_worker_that_fell_idle_has_told_everything_and_gone_quiet() -> None:
    async def main() -> tuple[object, int, int]:
        coordinator = NearCoordinator()
        caller = Caller("w", coordinator, max_qps=50)
        caller.start(20)
        await asyncio.gather(*caller._tasks)
        await caller.limits.flush()
        totals, told = coordinator.totals(), coordinator.exchanges
        await asyncio.sleep(100)
        return totals, told, coordinator.exchanges

    totals, told, later = run(main())
    assert isinstance(totals, dict)
    assert (totals["calls"], totals["tokens"]) == (20, 2_000)
    assert totals["workers"] == {"w": {"name": "w", "started": 20}}
    assert later <= told + 1


def test_a_run_with_bounds_stops_where_its_coordinator_is_gone() -> None:
    async def main() -> list[BaseException]:
        coordinator = NearCoordinator(bounds=Bounds(max_calls=10_000))
        caller = Caller("w", coordinator)
        caller.start()
        await asyncio.sleep(1)
        coordinator.is_gone = True
        async with asyncio.timeout(10):
            await caller.done()
        return caller.errors

    errors = run(main())
    assert {type(error) for error in errors} == {StoppedError}
    assert "cannot be reached" in str(errors[0])


def test_without_bounds_each_worker_keeps_its_part_alone_until_the_coordinator_is_back() -> None:
    async def main() -> tuple[list[float], int]:
        coordinator = NearCoordinator()
        callers = [Caller(f"w{n}", coordinator, max_qps=50) for n in range(2)]
        for caller in callers:
            caller.start()
        await asyncio.sleep(5)
        coordinator.is_gone = True
        await asyncio.sleep(25)
        told = coordinator.exchanges
        coordinator.is_gone = False
        await asyncio.sleep(20)
        starts = sorted(start for caller in callers for start in caller.starts)
        return starts, coordinator.exchanges - told

    starts, exchanges = run(main())
    alone = [start for start in starts if 10 < start < 30]
    assert len(alone) / 20 == pytest.approx(50, rel=0.03)
    assert exchanges > 100
    assert _fullest_window([start for start in starts if start > 36]) <= 51


def test_an_interrupt_keeps_back_what_waits_and_is_no_bound() -> None:
    async def main() -> list[BaseException]:
        coordinator = NearCoordinator(bounds=Bounds(max_calls=100_000))
        caller = Caller("w", coordinator, max_qps=50)
        caller.start()
        await asyncio.sleep(5)
        assert coordinator.control is not None
        coordinator.control.stop("The run was interrupted.")
        async with asyncio.timeout(10):
            await caller.done()
        return caller.errors

    errors = run(main())
    assert {type(error) for error in errors} == {StoppedError}
    assert str(errors[0]) == "The run was interrupted."


def test_a_coordinator_that_was_never_there_stops_the_worker() -> None:
    async def main() -> list[BaseException]:
        caller = Caller("w", NearCoordinator(is_gone=True))
        caller.start()
        async with asyncio.timeout(10):
            await caller.done()
        return caller.errors

    errors = run(main())
    assert {type(error) for error in errors} == {StoppedError}
    assert "whether the run has bounds is not known" in str(errors[0])


def test_a_busy_worker_tells_its_counters_every_two_seconds() -> None:
    """What a worker counted is lost with it: of one that is killed all but the last is known."""

    async def main() -> tuple[int, int]:
        coordinator = NearCoordinator()
        caller = Caller("w", coordinator, max_qps=50)
        caller.start()
        await asyncio.sleep(20)
        caller.kill()
        workers = coordinator.totals()["workers"]
        assert isinstance(workers, dict)
        return workers["w"]["started"], len(caller.starts)

    told, started = run(main())
    assert started - 3 * 50 <= told <= started


@pytest.mark.parametrize("bounds", [Bounds(max_calls=500), Bounds(max_calls=100_000)])
def test_it_can_be_waited_for_that_nothing_will_start_any_more(bounds: Bounds) -> None:
    async def main() -> bool:
        coordinator = NearCoordinator(bounds=bounds)
        caller = Caller("w", coordinator)
        caller.start()
        await asyncio.sleep(0.1)
        was_set = caller.limits.ended.is_set()
        coordinator.is_gone = bounds.max_calls != 500
        async with asyncio.timeout(10):
            await caller.limits.ended.wait()
            await caller.done()
        return was_set

    assert not run(main())


def test_after_an_unexpected_error_the_coordinator_is_looked_for_again() -> None:
    async def main() -> tuple[int, int]:
        coordinator = NearCoordinator()
        caller = Caller("w", coordinator)
        caller.start()
        await asyncio.sleep(2)
        coordinator.error = RuntimeError("no such message")
        await asyncio.sleep(20)
        told, started = coordinator.exchanges, len(caller.starts)
        coordinator.error = None
        await asyncio.sleep(20)
        assert len(caller.starts) > started
        return told, coordinator.exchanges

    told, later = run(main())
    assert later > told + 20


def test_an_error_at_the_last_exchange_takes_no_outcome_with_it() -> None:
    async def main() -> list[BaseException]:
        coordinator = NearCoordinator()
        caller = Caller("w", coordinator)
        caller.start(100)
        await asyncio.sleep(0.2)
        coordinator.error = RuntimeError("no such message")
        await caller.limits.flush()
        await caller.done()
        return caller.errors

    assert run(main()) == []


@pytest.mark.parametrize("error", [ConnectionError("gone"), RuntimeError("no such message")])
def test_where_there_are_no_bounds_a_coordinator_that_was_never_there_is_done_without(
    error: Exception,
) -> None:
    async def main() -> list[float]:
        coordinator = NearCoordinator(error=error)
        caller = Caller("w", coordinator, max_qps=50, may_be_bounded=False)
        caller.start(500)
        async with asyncio.timeout(30):
            await caller.done()
        assert caller.errors == []
        return caller.starts

    starts = run(main())
    assert len(starts) == 500
    assert _fullest_window(starts) <= 51
