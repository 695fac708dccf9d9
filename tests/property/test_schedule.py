"""The schedule of starts keeps the window rule, whoever uses them and however late."""

import bisect

from hypothesis import given
from hypothesis import strategies as st

from memorypipe.llm.limits.schedule import (
    HORIZON_S,
    StartSchedule,
    allowed_lateness_s,
    planned_rate,
)
from memorypipe.llm.limits.shares import fair_shares


@given(
    max_qps=st.one_of(st.floats(0.2, 20), st.sampled_from([1, 2.7, 2.99, 50, 200, 1_000])),
    lateness=st.lists(st.floats(0, 1), min_size=1, max_size=40),
    steps_s=st.lists(st.sampled_from([0.0, 0.001, 0.02, 0.05, 0.3, 2.0]), min_size=1, max_size=20),
    levels=st.lists(st.sampled_from([1.0, 0.7, 0.3]), min_size=1, max_size=5),
)
def test_no_window_holds_more_than_max_qps_and_one(
    max_qps: float, lateness: list[float], steps_s: list[float], levels: list[float]
) -> None:
    schedule = StartSchedule(max_qps, None, 0.0)
    late_s = allowed_lateness_s(max_qps)
    now, turn = 0.0, 0
    used: list[float] = []
    while len(used) < 3 * max_qps + 10:
        now += steps_s[turn % len(steps_s)] + 0.001
        while (at_s := schedule.next_s(now)) <= now + HORIZON_S:
            schedule.reserve(at_s, 0.0, levels[turn % len(levels)])
            used.append(at_s + late_s * lateness[len(used) % len(lateness)])
        turn += 1
    used.sort()
    fullest = max(bisect.bisect_right(used, s + 1.0) - place for place, s in enumerate(used))
    assert fullest <= max_qps + 1


@given(max_qps=st.floats(0.1, 5_000))
def test_hardly_any_of_the_rate_is_given_up(max_qps: float) -> None:
    assert 0.99 * max_qps <= planned_rate(max_qps) <= max_qps
    assert allowed_lateness_s(max_qps) > 0


@given(
    demands=st.dictionaries(st.text(max_size=3), st.integers(0, 100), max_size=8),
    capacity=st.integers(0, 200),
    turn=st.integers(0, 1_000),
)
def test_shares_are_fair_and_never_more_than_there_is(
    demands: dict[str, int], capacity: int, turn: int
) -> None:
    shares = fair_shares(demands, capacity, turn=turn)
    takers = [name for name in demands if demands[name]]
    assert sum(shares.values()) == (capacity if takers else 0)
    assert all(shares[name] == 0 for name in demands if not demands[name])
    if capacity >= len(takers):
        short = [shares[name] for name in takers if shares[name] < demands[name]]
        assert all(share >= max(shares.values()) - 1 for share in short)
        assert all(shares[name] >= 1 for name in takers)


@given(
    demands=st.dictionaries(st.text(max_size=3), st.integers(1, 9), min_size=2, max_size=8),
    data=st.data(),
)
def test_everyone_gets_a_turn(demands: dict[str, int], data: st.DataObject) -> None:
    capacity = data.draw(st.integers(1, len(demands)))
    turns = [fair_shares(demands, capacity, turn=turn) for turn in range(len(demands))]
    assert all(any(shares[name] for shares in turns) for name in demands)
