from memorypipe.llm.limits.control import Ask, Bounds, GroupLimits
from memorypipe.llm.limits.run_control import RunControl
from memorypipe.llm.limits.timeline import Timeline

FREE = GroupLimits(max_qps=None, max_concurrency=10, max_tokens_per_minute=None)
PACED = GroupLimits(max_qps=10, max_concurrency=10, max_tokens_per_minute=None)


def test_where_nothing_is_counted_only_the_share_limits() -> None:
    grant = RunControl(Bounds(), 0.0).exchange(Ask(worker="a", group="g", limits=FREE, demand=4), 0)
    assert (grant.reserved, grant.concurrency, grant.starts_in_s) == (False, 10, ())


def test_starts_are_granted_only_a_little_ahead() -> None:
    control = RunControl(Bounds(), 0.0)
    grant = control.exchange(Ask(worker="a", group="g", limits=PACED, demand=9, waiting=9), 0.0)
    assert len(grant.starts_in_s) == 2
    assert max(grant.starts_in_s) <= 0.15


def test_an_exchange_that_comes_twice_counts_once() -> None:
    control = RunControl(Bounds(max_calls=100), 0.0)
    ask = Ask(worker="a", group="g", limits=FREE, demand=9, started=40, tokens=400, cost=1.5)
    for now in (0.0, 0.1, 0.2):
        control.exchange(ask, now)
    totals = control.totals()
    assert (totals["calls"], totals["tokens"], totals["cost"]) == (40, 400, 1.5)


def test_starts_whose_grant_was_lost_come_back() -> None:
    control = RunControl(Bounds(max_calls=10), 0.0)
    ask = Ask(worker="a", group="g", limits=FREE, demand=10, waiting=10)
    assert len(control.exchange(ask, 0.0).starts_in_s) == 10
    # It did not hear of them, and asks again.
    assert len(control.exchange(ask, 0.1).starts_in_s) == 10
    assert control.totals()["calls"] == 10


def test_what_a_silent_worker_had_under_way_counts_as_spent() -> None:
    control = RunControl(Bounds(max_tokens=1_000), 0.0)
    ask = Ask(worker="a", group="g", limits=FREE, demand=9, tokens_each=100.0)
    dead = Ask(**{**vars(ask), "worker": "dead", "in_flight": 9, "started": 9})
    control.exchange(dead, 0.0)
    waiting = Ask(**{**vars(ask), "waiting": 2})
    grant = control.exchange(waiting, 0.1)
    # What is in flight may still fail and make room: nobody is told to stop.
    assert (len(grant.starts_in_s), grant.bound) == (1, None)
    grant = control.exchange(Ask(**{**vars(waiting), "started": 1, "tokens": 100}), 5.0)
    assert (grant.starts_in_s, grant.bound) == ((), "max_tokens")


def test_a_bound_on_money_is_kept() -> None:
    control = RunControl(Bounds(max_cost=1.0), 0.0)
    ask = Ask(
        worker="a", group="g", limits=FREE, demand=9, waiting=9, cost=0.75, started=3, cost_each=0.2
    )
    grant = control.exchange(ask, 0.0)
    assert len(grant.starts_in_s) == 1
    spent = Ask(**{**vars(ask), "cost": 0.95, "started": 4})
    grant = control.exchange(spent, 0.1)
    assert grant.bound == "max_cost"
    assert grant.reason is not None
    assert grant.reason.startswith("max_cost=1.0 is reached: 0.95 were spent")


def test_a_bound_that_is_reached_holds_for_every_group() -> None:
    control = RunControl(Bounds(max_calls=5), 0.0)
    ask = Ask(worker="a", group="g", limits=FREE, demand=9, waiting=9, started=5)
    assert control.exchange(ask, 0.0).bound == "max_calls"
    other = Ask(worker="b", group="h", limits=PACED, demand=1, waiting=1)
    assert control.exchange(other, 0.1).bound == "max_calls"


def test_the_timeline_stays_short_and_keeps_its_peaks() -> None:
    timeline = Timeline()
    for step in range(10_000):
        timeline.note(step * 0.5, 99 if step == 7_777 else 3)
    points = timeline.points()
    assert len(points) <= 1_000
    assert max(value for _, value in points) == 99
    assert points[-1][0] >= 4_900


def test_a_stopped_run_sends_nothing_more_and_is_quiet_when_all_who_know_have_finished() -> None:
    control = RunControl(Bounds(), 0.0)
    busy = Ask(worker="a", group="g", limits=FREE, demand=4, in_flight=2)
    idle = Ask(worker="a", group="g", limits=FREE)
    assert control.exchange(busy, 0.0).bound is None
    assert not control.is_quiet(0.0)
    control.stop("interrupted")
    grant = control.exchange(idle, 0.1)
    assert (grant.bound, grant.reason) == ("interrupt", "interrupted")
    assert not control.is_quiet(0.1), "it may have started something before it was told"
    control.exchange(busy, 0.2)
    assert not control.is_quiet(0.2)
    control.exchange(idle, 0.3)
    assert control.is_quiet(0.3)
    assert control.totals()["bound"] is None, "an interrupt is no bound of the run"
    assert control.totals()["interrupted"] == "interrupted"


def test_a_worker_that_fell_silent_keeps_a_stopped_run_from_nothing() -> None:
    control = RunControl(Bounds(), 0.0)
    control.exchange(Ask(worker="a", group="g", limits=FREE, in_flight=2), 0.0)
    control.stop("interrupted")
    assert not control.is_quiet(0.1)
    assert control.is_quiet(1_000.0)
