"""When most calls of a run fail it pauses, tries again with one request, and gives up at last."""

from dataclasses import replace

import pytest

from memorypipe.llm.limits.control import Ask, Bounds, GroupLimits
from memorypipe.llm.limits.run_control import RunControl
from memorypipe.llm.limits.run_health import JUDGED_CALLS, WAITS_S, RunHealth

LIMITS = GroupLimits(max_qps=None, max_concurrency=10, max_tokens_per_minute=None)
ASK = Ask(worker="a", group="g", limits=LIMITS, demand=5, waiting=5)
OTHER = replace(ASK, worker="b")


def ended(ask: Ask, calls: int, failed: int) -> Ask:
    """The same worker after so many more calls."""
    return replace(
        ask,
        started=ask.started + calls,
        calls=ask.calls + calls,
        failed_calls=ask.failed_calls + failed,
        answered=ask.answered + calls - failed,
    )


def paused_health() -> tuple[RunHealth, Ask]:
    health, ask = RunHealth(), ended(ASK, JUDGED_CALLS, 101)
    health.hear(ask, 0.0)
    assert health.is_paused
    return health, ask


@pytest.mark.parametrize(("failed", "is_paused"), [(100, False), (101, True)])
def test_a_run_is_paused_when_over_half_of_its_last_calls_failed(
    failed: int, *, is_paused: bool
) -> None:
    health, ask = RunHealth(), ASK
    for n in range(JUDGED_CALLS):
        ask = ended(ask, 1, int(n < failed))
        health.hear(ask, 0.0)
    assert health.is_paused is is_paused


def test_fewer_calls_than_are_judged_pause_nothing() -> None:
    health = RunHealth()
    health.hear(ended(ASK, JUDGED_CALLS - 1, JUDGED_CALLS - 1), 0.0)
    assert not health.is_paused


def test_only_the_last_calls_count_over_all_workers() -> None:
    health = RunHealth()
    health.hear(ended(ASK, 10_000, 0), 0.0)
    first, second = ended(ASK, 10_000, 0), ASK
    for _ in range(60):
        first, second = ended(first, 1, 1), ended(second, 1, 1)
        health.hear(first, 0.0)
        health.hear(replace(second, worker="b"), 0.0)
    assert not health.is_paused, "120 failed; but 10,000 calls came in one piece before"
    for _ in range(60):
        first = ended(first, 1, 1)
        health.hear(first, 0.0)
    assert not health.is_paused
    for _ in range(30):
        first = ended(first, 1, 1)
        health.hear(first, 0.0)
    assert health.is_paused


def test_what_is_told_twice_counts_once() -> None:
    health = RunHealth()
    for _ in range(10):
        health.hear(ended(ASK, 30, 30), 0.0)
    assert not health.is_paused


def test_one_request_is_sent_after_the_wait_and_no_second_one() -> None:
    health, ask = paused_health()
    assert not health.probe(ask, WAITS_S[0] - 0.1)
    assert health.probe(ask, WAITS_S[0])
    assert not health.probe(OTHER, WAITS_S[0])
    assert not health.probe(ask, WAITS_S[0] + 1.0)


def test_its_reply_lets_everything_go_on() -> None:
    health, ask = paused_health()
    assert health.probe(ask, 10.0)
    health.hear(replace(ask, started=ask.started + 1, answered=ask.answered + 1), 11.0)
    assert not health.is_paused
    assert health.paused(11.0) is None


def test_each_failure_makes_the_next_wait_longer_and_after_the_last_the_run_gives_up() -> None:
    health, ask = paused_health()
    now, waits = 0.0, []
    while health.gave_up is None:
        began_s = now
        while not health.probe(ask, now):
            now += 1.0
        waits.append(now - began_s)
        ask = replace(ask, started=ask.started + 1, in_flight=1)
        health.hear(ask, now)
        assert health.is_paused, "it is on its way"
        ask = replace(ask, in_flight=0)
        health.hear(ask, now)
    assert tuple(waits) == WAITS_S
    assert "101 of the last 200 calls have failed" in health.gave_up
    assert "5 times in 310 s" in health.gave_up


def test_after_a_pause_a_few_failures_are_enough_and_the_waits_go_on_growing() -> None:
    health, ask = paused_health()
    assert health.probe(ask, 10.0)
    ask = replace(ask, started=ask.started + 1, answered=ask.answered + 1)
    health.hear(ask, 10.0)
    ask = ended(ask, 20, 11)
    health.hear(ask, 10.0)
    assert health.is_paused
    assert not health.probe(ask, 10.0 + WAITS_S[1] - 0.1)
    assert health.probe(ask, 10.0 + WAITS_S[1])


def test_a_run_that_has_recovered_is_judged_as_at_its_beginning() -> None:
    health, ask = paused_health()
    assert health.probe(ask, 10.0)
    ask = replace(ask, started=ask.started + 1, answered=ask.answered + 1)
    health.hear(ask, 10.0)
    ask = ended(ask, JUDGED_CALLS, 0)
    health.hear(ask, 10.0)
    ask = ended(ask, JUDGED_CALLS, JUDGED_CALLS)
    health.hear(ask, 10.0)
    assert health.is_paused
    assert health.probe(ask, 10.0 + WAITS_S[0])


def test_a_probe_that_is_never_sent_or_whose_worker_dies_is_given_anew() -> None:
    health, ask = paused_health()
    assert health.probe(ask, 10.0)
    health.hear(ask, 12.5)
    assert health.probe(ask, 12.5), "it was not sent"
    health.hear(OTHER, 18.0)
    assert health.probe(OTHER, 18.0), "the worker is silent"


def test_calls_that_end_in_a_pause_are_not_judged() -> None:
    health, ask = paused_health()
    health.hear(ended(ask, 500, 500), 1.0)
    assert health.gave_up is None
    assert health.probe(ask, 10.0)


def test_the_coordinator_grants_nothing_in_a_pause_but_one_request() -> None:
    control = RunControl(Bounds(), 0.0)
    assert not control.exchange(ASK, 0.0).reserved, "no start is counted where nothing limits it"
    down = ended(ASK, JUDGED_CALLS, JUDGED_CALLS)
    grant = control.exchange(down, 1.0)
    assert (grant.reserved, grant.starts_in_s, grant.bound) == (True, (), None)
    assert "Nothing is sent for 10 s" in str(control.totals()["paused"])
    grant = control.exchange(down, 11.0)
    assert len(grant.starts_in_s) == 1
    sent = replace(down, started=down.started + 1, in_flight=1)
    assert control.exchange(sent, 11.1).starts_in_s == ()
    well = replace(sent, in_flight=0, answered=sent.answered + 1)
    assert not control.exchange(well, 11.2).reserved
    assert control.totals()["paused"] is None


def test_a_run_that_gives_up_is_stopped_by_its_failures() -> None:
    control, ask, now = RunControl(Bounds(), 0.0), ended(ASK, JUDGED_CALLS, JUDGED_CALLS), 0.0
    grant = control.exchange(ask, now)
    while grant.bound is None:
        now += 1.0
        grant = control.exchange(ask, now)
        if grant.starts_in_s:
            ask = replace(ask, started=ask.started + 1)
    assert grant.bound == "failures"
    assert control.totals()["bound"] == "failures"
    assert sum(WAITS_S) <= now < sum(WAITS_S) + 20
