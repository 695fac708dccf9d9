"""The coordinator of a run, as the driver sees it."""

import logging
import time
import uuid
from collections.abc import Iterable
from copy import copy
from dataclasses import asdict, replace
from threading import Event
from typing import Any, Self, TypeVar

from memorypipe.expressions.coordinator import HereCoordinator, RunCoordinator
from memorypipe.expressions.llm_base import LLMExpression
from memorypipe.llm.limits.control import Bounds
from memorypipe.llm.spec import OFFLINE_URL
from memorypipe.llm.worker import close_workers_of
from memorypipe.pipeline.runs.budget import Budget, Spent
from memorypipe.pipeline.runs.budget_keeper import BudgetKeeper
from memorypipe.pipeline.runs.interrupts import DRAIN_S

__all__ = ["Coordination"]

ExpressionT = TypeVar("ExpressionT", bound=LLMExpression[Any, Any])

_LOOK_S = 0.25
_KEEP_S = 1.0

# Prompt and completion of a call of which nothing is known yet.
_FIRST_TOKENS = (4_000, 1_000)

_logger = logging.getLogger(__name__)


class Coordination:
    """Starts the coordinator of a run when it is needed, and ends it.

    The rule-based model costs nothing and has no limits: its runs have no coordinator.

    Args:
        name: Names this execution; no other one has it, not even of the same run.
        bounds: Where the run stops.
        budget: What these bounds hold for, together with other executions; None: for this alone.
    """

    def __init__(self, name: str, bounds: Bounds, budget: Budget | None = None) -> None:
        self._name = name
        self._bounds = bounds
        self._budget = budget
        self._keeper: BudgetKeeper | None = None
        self._coordinator: RunCoordinator | HereCoordinator | None = None
        self._is_joined = False
        self._is_paused = False

    @classmethod
    def of(cls, table_uri: str, bounds: Bounds, budget_id: str | None) -> Self:
        """Make that of an execution of its own.

        Args:
            table_uri: The table, beside which budgets are kept.
            bounds: Where the run stops.
            budget_id: The budget that these bounds hold for; None: for this execution alone.
        """
        name = uuid.uuid4().hex
        budget = budget_id and Budget.of(table_uri, budget_id, name, bounds)
        return cls(name, bounds, budget or None)

    def start(self, *expressions: LLMExpression[Any, Any], here: bool) -> None:
        """Start the coordinator of these stages, without waiting for it; once.

        Args:
            expressions: The stages.
            here: Whether this process alone asks; else it is an actor of Ray, which takes a second
                to come up.
        """
        if self._coordinator is not None or not any(map(_is_asked, expressions)):
            return
        start = HereCoordinator if here else RunCoordinator.start
        if self._budget is None:
            self._coordinator = start(self._name, self._bounds)
            return
        keeper = BudgetKeeper(self._budget, _first_call(expressions))
        left, calls = keeper.begin()
        coordinator = self._coordinator = start(self._name, left, leased_calls=calls)
        self._keeper = keeper.watch(coordinator.usage, coordinator.allow)
        self._keeper.__enter__()

    def join(self, expression: ExpressionT) -> ExpressionT:
        """Give the expression as a part of the run: its workers ask the coordinator."""
        if self._coordinator is None or not _is_asked(expression):
            return expression
        self._is_joined = True
        joined = copy(expression)
        joined.spec = replace(expression.spec, run=self._name)
        return joined

    def totals(self) -> dict[str, Any] | None:
        """Give what the workers have told; None where there is no coordinator to tell.

        Nor is one asked that nobody can have told anything yet: an actor takes a second to come up.
        """
        if self._coordinator is None or not self._is_joined:
            return None
        try:
            totals = self._coordinator.totals()
        except ConnectionError as error:
            _logger.warning("The accounts are those of the rows alone. %s", error)
            return None
        self._tell_of_pause(totals.get("paused"))
        return totals

    def _tell_of_pause(self, paused: str | None) -> None:
        """Warn when the run pauses and when it goes on, once each."""
        if paused is not None and not self._is_paused:
            _logger.warning("The run is paused. %s", paused)
        elif paused is None and self._is_paused:
            _logger.warning("The run goes on: a request was answered again, or it was given up.")
        self._is_paused = paused is not None

    def budget(self) -> dict[str, Any] | None:
        """Give the budget: its id, and what all executions have spent; None without one."""
        if self._budget is None:
            return None
        return {"id": self._budget.name, **asdict(self._budget.spent())}

    def settle(self) -> None:
        """Let the budget say what was spent, and no more what was set aside; once."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.__exit__(None, None, None)

    def drain(self, gave_up: Event) -> None:
        """Let nothing more be sent, and wait for what is in flight, `DRAIN_S` at most.

        Args:
            gave_up: Ends the waiting.
        """
        if self._coordinator is None:
            return
        _logger.warning("Finishing what is in flight. Ctrl-C again ends it at once.")
        self._coordinator.stop("The run was interrupted; this request was not sent.")
        until_s = time.monotonic() + DRAIN_S
        while not self._coordinator.is_quiet() and time.monotonic() < until_s:
            if gave_up.wait(_LOOK_S):
                return
        # The last replies are on their way into the journal.
        gave_up.wait(_KEEP_S)

    def close(self) -> None:
        """End the coordinator, where there is one, and what workers it has in this process."""
        close_workers_of(self._name)
        self.settle()
        if self._coordinator is not None:
            self._coordinator.close()


def _first_call(expressions: Iterable[LLMExpression[Any, Any]]) -> Spent:
    """Say what a call may come to before any has: of the dearest model."""
    prices = [each.spec.prices for each in expressions if each.spec.prices is not None]
    cost = max((price.cost(*_FIRST_TOKENS) for price in prices), default=0.0)
    return Spent(tokens=sum(_FIRST_TOKENS), cost=cost)


def _is_asked(expression: LLMExpression[Any, Any]) -> bool:
    return expression.spec.base_url != OFFLINE_URL
