"""What several runs of a budget have spent: never under-counted, never taken twice."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.limits.control import Ask, Bounds, GroupLimits
from memorypipe.llm.limits.run_control import RunControl
from memorypipe.pipeline.runs.budget import Budget, Spent, bounds_left, check_budget, reserve_ahead
from memorypipe.pipeline.runs.budget_keeper import BudgetKeeper

FIRST = Spent(tokens=1_000.0, cost=0.5)
LIMITS = GroupLimits(max_qps=None, max_concurrency=1_000, max_tokens_per_minute=None)


def budget(table: Path, execution: str, **bounds: Any) -> Budget:
    return Budget.of(str(table), "jan", execution, Bounds(**bounds))


class Execution:
    """A run within a budget, whose calls a worker makes as far as it is let."""

    def __init__(self, table: Path, name: str, **bounds: Any) -> None:
        self.keeper = BudgetKeeper(budget(table, name, **bounds), FIRST)
        left, calls = self.keeper.begin()
        self.control = RunControl(left, 0.0, leased_calls=calls)
        self.keeper.watch(self.control.usage, self.control.allow)
        self.started = 0
        self.bound: str | None = None

    def work(self, wanted: int) -> None:
        """Start what may be started of so many calls, and end it."""
        ask = Ask(
            worker="w",
            group="g",
            limits=LIMITS,
            demand=wanted,
            waiting=wanted,
            started=self.started,
            tokens=self.started * 100,
            tokens_each=100.0,
            cost=self.started * 0.25,
            cost_each=0.25,
        )
        grant = self.control.exchange(ask, 0.0)
        self.started += len(grant.starts_in_s)
        self.bound = grant.bound

    def end(self) -> None:
        self.work(0)
        self.keeper.settle()


@pytest.fixture
def execution(tmp_path: Path) -> Callable[..., Execution]:
    return lambda name, **bounds: Execution(tmp_path, name, **bounds)


def test_what_runs_have_spent_is_added_up(
    execution: Callable[..., Execution], tmp_path: Path
) -> None:
    for name, calls in (("a", 3), ("b", 5)):
        run = execution(name)
        run.work(calls)
        run.end()
    assert budget(tmp_path, "c").spent() == Spent(calls=8, tokens=800.0, cost=2.0)
    assert [path.name for path in (tmp_path / "budgets" / "jan").glob("*.json")] == ["total.json"]


def test_the_bounds_of_a_run_are_what_others_have_left(
    execution: Callable[..., Execution],
) -> None:
    first = execution("a", max_calls=10)
    first.work(7)
    first.end()
    second = execution("b", max_calls=10)
    second.work(7)
    second.work(4)
    assert (second.started, second.bound) == (3, "max_calls")


def test_a_budget_that_is_used_up_lets_nothing_start(execution: Callable[..., Execution]) -> None:
    for name, bounds in (("a", {"max_tokens": 300}), ("b", {"max_tokens": 300})):
        run = execution(name, **bounds)
        for _ in range(5):
            run.work(1)
        run.end()
    assert (run.started, run.bound) == (0, "max_tokens")


def test_after_a_kill_at_least_what_was_spent_counts(
    execution: Callable[..., Execution], tmp_path: Path
) -> None:
    killed = execution("a", max_calls=1_000)
    for _ in range(8):
        killed.work(500)
        spent = budget(tmp_path, "b").spent()
        assert spent.calls >= killed.started
        assert spent.tokens >= killed.started * 100
        assert spent.cost >= killed.started * 0.25
        killed.keeper.look()
    assert killed.started > 400, "it is not held up"
    assert budget(tmp_path, "b").spent().calls <= 1_000


def test_what_is_not_reserved_waits_and_is_not_refused(
    execution: Callable[..., Execution],
) -> None:
    run = execution("a", max_calls=1_000)
    run.work(500)
    assert (run.started, run.bound) == (16, None)
    run.work(484)
    assert (run.started, run.bound) == (16, None)
    run.keeper.look()
    run.work(484)
    assert run.started == 80, "four times what was used since the last look"


def test_two_runs_at_once_do_not_both_take_what_is_left(
    execution: Callable[..., Execution], tmp_path: Path
) -> None:
    runs = [execution(name, max_calls=100) for name in ("a", "b")]
    for _ in range(20):
        for run in runs:
            run.work(50)
            run.keeper.look()
    assert sum(run.started for run in runs) == 100
    for run in runs:
        run.end()
    assert budget(tmp_path, "c").spent().calls == 100


def test_a_kill_while_a_run_settles_counts_it_twice_never_not_at_all(tmp_path: Path) -> None:
    first = budget(tmp_path, "a")
    with first.turn():
        first.reserve(Spent(calls=5))
    first.close(Spent(calls=3))
    again = budget(tmp_path, "b")
    with again.turn():
        again.reserve(Spent(calls=4))
    assert budget(tmp_path, "c").spent().calls == 7
    again.close(None)
    assert budget(tmp_path, "c").spent().calls == 7, "where nobody can tell, what was reserved"
    again.close(Spent(calls=9))
    assert budget(tmp_path, "c").spent().calls == 7, "once"


def test_a_budget_that_cannot_be_written_any_more_stops_the_run(
    execution: Callable[..., Execution], tmp_path: Path
) -> None:
    run = execution("a", max_calls=1_000)
    folder = tmp_path / "budgets" / "jan"
    folder.rename(tmp_path / "away")
    folder.write_text("a file in its place")
    for _ in range(20):
        with pytest.raises(OSError, match="jan"):
            run.keeper.look_or_stop()
    run.work(10)
    assert (run.started, run.bound) == (0, "max_calls")


@given(
    used=st.integers(0, 1_000),
    since=st.integers(0, 1_000),
    bound=st.none() | st.integers(0, 2_000),
)
def test_what_is_reserved_is_at_least_what_was_used_and_at_most_what_is_left(
    used: int, since: int, bound: int | None
) -> None:
    expected = {"tokens": used * 10.0, "cost": 0.0, "tokens_each": 10.0, "cost_each": 0.0}
    usage = {"calls": used, "expected": expected}
    ahead = reserve_ahead(usage, Bounds(max_calls=bound), calls_before=max(0, used - since))
    assert ahead.calls >= used
    assert ahead.spent.calls == ahead.calls
    assert ahead.spent.tokens >= 10.0 * ahead.calls
    if bound is not None:
        assert ahead.calls <= max(bound, used)


def test_each_bound_is_what_others_have_left_of_it() -> None:
    bounds = Bounds(max_calls=10, max_tokens=500, max_cost=2.0)
    left = bounds_left(bounds, Spent(calls=4, tokens=600.0, cost=0.5))
    assert left == Bounds(max_calls=6, max_tokens=0, max_cost=1.5)


@pytest.mark.parametrize("name", ["", " ", "a/b", "..", ".hidden"])
def test_a_name_that_cannot_name_a_folder_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="--budget"):
        check_budget(name)


def test_batches_are_counted_by_no_budget() -> None:
    assert check_budget("jan") == "jan"
    with pytest.raises(InvalidArgumentError, match="--batch-api"):
        check_budget("jan", with_batches=True)
