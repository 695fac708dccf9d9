import asyncio
import os
import signal
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import ray

from memorypipe.errors import BudgetError, StoppedError
from memorypipe.expressions import coordinator as module
from memorypipe.expressions.coordinator import HereCoordinator, RunCoordinator, connect
from memorypipe.llm.limits.control import Ask, Bounds, GroupLimits
from memorypipe.llm.limits.limits import Limits
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.types import Reply

pytestmark = pytest.mark.usefixtures("ray_2_cpus")

REPLY = Reply(content="", prompt_tokens=10, completion_tokens=10)


def _spec(run: str | None = None, **values: Any) -> ModelSpec:
    return ModelSpec(base_url="http://127.0.0.1:9/v1", model="m", run=run, **values)


def _limits(spec: ModelSpec) -> Limits:
    return Limits(
        spec.max_qps,
        spec.concurrency,
        spec.max_tokens_per_minute,
        coordinator=connect(spec),
        worker=uuid.uuid4().hex,
        group=spec.limit_group or spec.key(),
        snapshot=lambda: {"seen": True},
    )


async def _call(limits: Limits, seconds: float, *, latency_s: float = 0.02) -> list[float]:
    """Call as fast as the limits allow; gives when each call started (monotonic)."""
    starts: list[float] = []
    end_s = time.monotonic() + seconds

    async def lane() -> None:
        while time.monotonic() < end_s:
            async with limits.attempt(10) as attempt:
                starts.append(time.monotonic())
                await asyncio.sleep(latency_s)
                attempt.replied(REPLY)

    await asyncio.gather(*(lane() for _ in range(8)))
    await limits.close()
    return starts


async def _call_for_ever(limits: Limits, *, every_s: float = 0.0) -> None:
    while True:
        async with limits.attempt(10) as attempt:
            attempt.replied(REPLY)
        await asyncio.sleep(every_s)


class _Caller:
    """A process that calls within shared limits."""

    def call(self, spec: ModelSpec, seconds: float) -> list[float]:
        return asyncio.run(_call(_limits(spec), seconds))

    def pid(self) -> int:
        return os.getpid()


def _caller() -> Any:
    return ray.remote(_Caller).options(num_cpus=0).remote()


Either = RunCoordinator | HereCoordinator
EITHER = [RunCoordinator.start, HereCoordinator]


@pytest.fixture(params=EITHER)
def run(request: pytest.FixtureRequest) -> Iterator[Either]:
    coordinator = request.param("bounded", Bounds(max_calls=30))
    yield coordinator
    coordinator.close()


# Workers that wait for a processor note a start late. The rule itself is shown on a virtual clock;
# a rate kept by each worker for itself would fill a window twice as full.
_NOTED_LATE = 4


def _fullest_window(starts: list[float]) -> int:
    return max(sum(1 for s in starts if first <= s <= first + 1.0) for first in starts)


def test_a_spec_without_shared_limits_has_no_coordinator() -> None:
    assert connect(_spec()) is None


def test_two_workers_keep_to_one_rate() -> None:
    spec = _spec(rate_scope="cluster", max_qps=50)
    callers = [_caller() for _ in range(2)]
    # The first to ask starts the coordinator, which may take seconds.
    ray.get([caller.call.remote(spec, 0.1) for caller in callers])
    both = ray.get([caller.call.remote(spec, 4.0) for caller in callers])
    starts = sorted(start for each in both for start in each)
    assert all(len(each) > 20 for each in both)
    # On a busy machine starts that come too late are dropped: no more than the rate is certain.
    steady = [start for start in starts if start < starts[0] + 3.0]
    assert 25 <= len(steady) / 3.0 <= 50.5
    assert _fullest_window(starts) <= 51 + _NOTED_LATE


def test_the_other_goes_on_when_the_first_worker_is_killed() -> None:
    """The coordinator outlives the worker that made it, and the rate stays whole."""
    spec = _spec(rate_scope="cluster", max_qps=40)
    first, second = _caller(), _caller()
    pid = ray.get(first.pid.remote())
    ray.get(second.pid.remote())
    lost = first.call.remote(spec, 5.0)
    time.sleep(0.5)
    kept = second.call.remote(spec, 5.0)
    time.sleep(1.5)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(lost)
    starts = ray.get(kept)
    alone = [start for start in starts if start > starts[-1] - 2.0]
    # More than the half that it had before.
    assert 21 <= len(alone) / 2.0 <= 40.5
    assert _fullest_window(starts) <= 41 + _NOTED_LATE


def test_a_run_stops_at_its_bound_and_tells_what_it_used(
    run: Either,
) -> None:
    async def main() -> int:
        limits = _limits(_spec("bounded"))
        with pytest.raises(BudgetError, match="max_calls=30") as raised:
            await _call_for_ever(limits)
        assert raised.value.bound == "max_calls"
        await limits.close()
        return limits.counts.started

    assert asyncio.run(main()) == 30
    totals = run.totals()
    assert (totals["calls"], totals["tokens"], totals["bound"]) == (30, 600, "max_calls")
    assert list(totals["workers"].values()) == [{"seen": True}]
    assert totals["in_flight"]


@pytest.mark.parametrize("start", EITHER)
def test_a_run_whose_coordinator_is_gone_stops_instead_of_hanging(start: Any) -> None:
    async def main() -> None:
        coordinator = start("gone", Bounds(max_calls=30))
        limits = _limits(_spec("gone"))
        async with limits.attempt(10):
            pass
        coordinator.close()
        with pytest.raises(StoppedError, match="cannot be reached"):
            await asyncio.wait_for(_call_for_ever(limits, every_s=0.2), 60)
        await limits.close()

    asyncio.run(main())


def test_a_run_that_was_stopped_is_quiet_when_all_know_it(
    run: Either,
) -> None:
    async def main() -> None:
        limits = _limits(_spec("bounded"))
        async with limits.attempt(10):
            run.stop("Enough.")
            await limits.flush()
            assert not run.is_quiet()
        with pytest.raises(StoppedError, match="Enough"):
            await asyncio.wait_for(_call_for_ever(limits), 60)
        await limits.flush()
        assert run.is_quiet()
        await limits.close()

    asyncio.run(main())


def test_a_name_is_taken_once() -> None:
    coordinator = RunCoordinator.start("twice")
    with pytest.raises(ValueError, match="twice"):
        RunCoordinator.start("twice")
    coordinator.close()


def test_the_coordinator_of_a_job_ends_when_nobody_asks() -> None:
    actor = module._actor_class("job-idle", lifetime="detached").remote(Bounds(), 0.5)
    limits = GroupLimits(max_qps=None, max_concurrency=8, max_tokens_per_minute=None)
    grant = ray.get(actor.exchange.remote(Ask(worker="a", group="g", limits=limits, demand=1)))
    assert grant.concurrency == 8
    with pytest.raises(ray.exceptions.RayActorError):
        _ask_for(actor, 60.0)


def _ask_for(actor: Any, seconds: float) -> None:
    deadline_s = time.monotonic() + seconds
    while time.monotonic() < deadline_s:
        ray.get(actor.totals.remote())
        time.sleep(0.2)
