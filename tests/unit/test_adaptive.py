"""What refusals do to the pace: endpoints of several kinds on a virtual clock."""

import asyncio
import random

import pytest

from memorypipe.llm.limits.adaptive import Adaptive
from memorypipe.llm.limits.limits import Limits
from tests.support.shared_limits import NearCoordinator
from tests.support.simulated_endpoint import SimulatedEndpoint, call_all, keep_calling
from tests.support.virtual_time import run


def _limits(*, shared: bool = False, slots: int = 64, max_qps: float | None = None) -> Limits:
    coordinator = NearCoordinator() if shared else None
    return Limits(max_qps, slots, coordinator=coordinator, worker="w", group="g")


def _per_s(times: list[float], begin_s: float, end_s: float) -> float:
    return sum(1 for time in times if begin_s <= time < end_s) / (end_s - begin_s)


def test_what_many_workers_tell_at_a_time_does_not_look_mixed_for_it() -> None:
    """The last fifth of each second is refused: halves of a second show that, or nothing of it."""
    adaptive = Adaptive(100)
    for now, answered, overloaded in [(0.0, 25, 0), (0.2, 50, 0), (0.45, 50, 0), (0.7, 32, 18)]:
        adaptive.note(now, answered=answered, overloaded=overloaded)
    adaptive.note(0.95, overloaded=22)
    adaptive.note(1.2, answered=50)
    dropped = adaptive.level(1.2)
    assert dropped == pytest.approx(0.7)
    # A hundred were on their way; what follows is judged when a second of it is there.
    for now, answered, overloaded in [(1.45, 50, 0), (1.7, 50, 0), (1.95, 35, 0), (2.2, 35, 0)]:
        adaptive.note(now, answered=answered, overloaded=overloaded)
    adaptive.note(2.46, answered=30, overloaded=5)
    assert adaptive.level(2.9) == dropped


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("refused", [0.05, 1 / 3, 0.6])
def test_refusals_that_do_not_depend_on_the_pace_do_not_slow_it(
    refused: float, *, shared: bool
) -> None:
    """What can be had is the share that is not refused; a little is lost while finding out."""
    endpoint = SimulatedEndpoint(
        refuses=lambda it: it.rng.random() < refused,
        refusal_s=0.2,
        rng=random.Random(5),  # noqa: S311  # a test's dice
    )
    run(keep_calling(_limits(shared=shared), endpoint, seconds=30, lanes=400))
    best = 64 / 0.2 * (1 - refused)
    assert _per_s(endpoint.answered_at_s, 0, 30) >= 0.92 * best


def test_a_run_of_which_a_third_is_refused_takes_one_and_a_half_times_as_long() -> None:
    def seconds(refused: float) -> float:
        endpoint = SimulatedEndpoint(
            refuses=lambda it: it.rng.random() < refused,
            refusal_s=0.2,
        )
        return run(call_all(_limits(), endpoint, rows=10_000, lanes=256))

    assert seconds(1 / 3) <= 1.53 * seconds(0.0)


def test_after_a_drop_in_vain_the_pace_is_back_within_a_second() -> None:
    """A third is refused throughout: one second shows it, 0.7 more that less sent is no help."""
    found = []
    for seed in range(10):
        endpoint = SimulatedEndpoint(
            refuses=lambda it: it.rng.random() < 1 / 3,
            refusal_s=0.2,
            rng=random.Random(seed),  # noqa: S311  # a test's dice
        )
        run(keep_calling(_limits(), endpoint, seconds=4, lanes=192))
        found.append(_per_s(endpoint.answered_at_s, 2.2, 4.0))
    assert sum(found) / len(found) >= 0.97 * 64 / 0.2 * 2 / 3


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("latency_s", "lanes"), [(0.2, 64), (0.2, 256), (1.0, 64)])
def test_an_endpoint_that_works_on_thirty_at_a_time_gets_about_thirty(
    latency_s: float, lanes: int, *, shared: bool
) -> None:
    endpoint = SimulatedEndpoint(refuses=lambda it: it.in_flight >= 30, latency_s=latency_s)
    run(keep_calling(_limits(shared=shared), endpoint, seconds=60, lanes=lanes))
    best = 30 / latency_s
    answered = _per_s(endpoint.answered_at_s, 20, 60)
    refused = _per_s(endpoint.refused_at_s, 20, 60)
    assert answered >= 0.8 * best
    assert refused <= 0.15 * answered


def test_an_endpoint_that_counts_by_the_second_gets_about_what_it_allows() -> None:
    seconds: dict[int, int] = {}

    def refuses(_: SimulatedEndpoint) -> bool:
        second = int(asyncio.get_running_loop().time())
        seconds[second] = seconds.get(second, 0) + 1
        return seconds[second] > 40

    endpoint = SimulatedEndpoint(refuses=refuses)
    run(keep_calling(_limits(max_qps=100), endpoint, seconds=60, lanes=256))
    assert _per_s(endpoint.answered_at_s, 10, 60) >= 0.8 * 40
    assert _per_s(endpoint.refused_at_s, 10, 60) <= 2


@pytest.mark.parametrize("retry_after_s", [None, 10.0])
def test_after_an_outage_of_a_minute_the_pace_is_back_within_seconds(
    retry_after_s: float | None,
) -> None:
    endpoint = SimulatedEndpoint(
        refuses=lambda _: 10 <= asyncio.get_running_loop().time() < 70,
        retry_after_s=retry_after_s,
    )
    run(keep_calling(_limits(), endpoint, seconds=110, lanes=256))
    assert _per_s(endpoint.answered_at_s, 0, 10) >= 300
    assert _per_s(endpoint.answered_at_s, 95, 110) >= 300
    # Little is sent in vain, and hardly anything where it asks to wait.
    assert _per_s(endpoint.refused_at_s, 20, 70) <= (30 if retry_after_s is None else 8)


def test_the_level_is_1_while_nothing_is_refused() -> None:
    adaptive = Adaptive(64)
    for step in range(1_000):
        adaptive.note(step * 0.1, answered=50)
    assert adaptive.is_steady
    assert adaptive.allowed_in_flight(100.0) == 64


def test_at_least_one_request_is_allowed_whatever_is_refused() -> None:
    adaptive = Adaptive(64)
    for step in range(1_000):
        adaptive.note(step * 0.1, overloaded=50)
    assert adaptive.allowed_in_flight(100.0) == 1


def test_a_drop_counts_from_what_is_in_use() -> None:
    """A limit of a thousand, of which twenty are used, is not lowered to seven hundred."""
    adaptive = Adaptive(1_000)
    for step in range(30):
        adaptive.note(step * 0.1, answered=1, overloaded=9, usage=0.02)
    assert adaptive.allowed_in_flight(3.0) <= 14


@pytest.mark.parametrize(("answered", "paused"), [(0, True), (1, True), (5, False), (20, False)])
def test_a_wait_that_a_refusal_asks_for_holds_for_all_where_nearly_all_is_refused(
    answered: int, *, paused: bool
) -> None:
    adaptive = Adaptive(64)
    adaptive.note(0.0, answered=answered, overloaded=19)
    adaptive.note(0.1, overloaded=1, retry_after_s=900.0)
    # A minute at most.
    assert (adaptive.paused_until_s == pytest.approx(60.1)) is paused
