"""Keeps one execution within its budget: looks at what is spent, and reserves what comes next."""

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

from memorypipe.llm.limits.control import Bounds
from memorypipe.pipeline.runs.budget import Budget, Reservation, Spent, bounds_left, reserve_ahead
from memorypipe.pipeline.runs.record import Heartbeat

__all__ = ["LOOK_S", "BudgetKeeper"]

LOOK_S = 0.25
"""Seconds from one look to the next."""

# Looks that fail in a row before the run stops.
_MAX_FAILURES = 20

_logger = logging.getLogger(__name__)


class BudgetKeeper(AbstractContextManager["BudgetKeeper"]):
    """Reserves while the context lasts, and settles at its end.

    Args:
        budget: As this execution sees it.
        first_call: What one call may come to, as long as none tells.
    """

    def __init__(self, budget: Budget, first_call: Spent) -> None:
        self._budget = budget
        self._calls = 0
        self._nothing = {
            "calls": 0,
            "expected": {
                "tokens": 0.0,
                "cost": 0.0,
                "tokens_each": first_call.tokens,
                "cost_each": first_call.cost,
            },
        }
        self._usage: Callable[[], Mapping[str, Any]] = lambda: self._nothing
        self._allow: Callable[[Bounds, int], None] = lambda _bounds, _calls: None
        self._failures = 0
        warning = "The budget could not be looked at"
        self._beat = Heartbeat(self.look_or_stop, every_s=LOOK_S, warning=warning)

    def begin(self) -> tuple[Bounds, int]:
        """Make the first reservation: the bounds of this execution, and the calls it may begin."""
        return self._reserve(self._nothing)

    def watch(
        self, usage: Callable[[], Mapping[str, Any]], allow: Callable[[Bounds, int], None]
    ) -> Self:
        """Say where to look.

        Args:
            usage: As `RunControl.usage`; raises ConnectionError where nobody can tell.
            allow: As `RunControl.allow`.
        """
        self._usage, self._allow = usage, allow
        return self

    def look(self) -> None:
        """Look once, and reserve ahead; written down before it is allowed."""
        left, calls = self._reserve(self._usage())
        self._allow(left, calls)

    def look_or_stop(self) -> None:
        """Look; where that fails again and again let nothing more start, or it would wait on."""
        try:
            self.look()
        except Exception:
            self._failures += 1
            if self._failures == _MAX_FAILURES:
                self._allow(Bounds(max_calls=0), 0)
            raise
        self._failures = 0

    def __enter__(self) -> Self:
        self._beat.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._beat.__exit__(kind, error, trace)
        self.settle()

    def settle(self) -> None:
        """Write down what was spent, in place of what was reserved."""
        spent: Spent | None = None
        try:
            told = self._usage()
            expected = told["expected"]
            spent = Spent(calls=told["calls"], tokens=expected["tokens"], cost=expected["cost"])
        except ConnectionError as lost:
            _logger.warning(
                "Of budget %r all counts that was reserved. %s", self._budget.name, lost
            )
        self._budget.close(spent)

    def _reserve(self, usage: Mapping[str, Any]) -> tuple[Bounds, int]:
        with self._budget.turn():
            left = bounds_left(self._budget.bounds, self._budget.spent_elsewhere())
            ahead: Reservation = reserve_ahead(usage, left, calls_before=self._calls)
            self._calls = usage["calls"]
            self._budget.reserve(ahead.spent)
        return left, ahead.calls
