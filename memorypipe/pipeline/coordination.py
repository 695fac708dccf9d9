"""The coordinator of a run, as the driver sees it."""

import logging
import time
from copy import copy
from dataclasses import replace
from threading import Event
from typing import Any, TypeVar

from memorypipe.expressions.coordinator import RunCoordinator
from memorypipe.expressions.llm_base import LLMExpression
from memorypipe.llm.limits.control import Bounds
from memorypipe.llm.spec import OFFLINE_URL
from memorypipe.pipeline.interrupts import DRAIN_S

__all__ = ["Coordination"]

ExpressionT = TypeVar("ExpressionT", bound=LLMExpression[Any, Any])

_LOOK_S = 0.25
_KEEP_S = 1.0

_logger = logging.getLogger(__name__)


class Coordination:
    """Starts the coordinator of a run when it is needed, and ends it.

    The rule-based model costs nothing and has no limits: its runs have no coordinator.

    Args:
        name: Names this execution; no other one has it, not even of the same run.
        bounds: Where the run stops.
    """

    def __init__(self, name: str, bounds: Bounds) -> None:
        self._name = name
        self._bounds = bounds
        self._coordinator: RunCoordinator | None = None

    def start(self, *expressions: LLMExpression[Any, Any]) -> None:
        """Start the coordinator of these stages, without waiting for it; once."""
        if self._coordinator is None and any(map(_is_asked, expressions)):
            self._coordinator = RunCoordinator.start(self._name, bounds=self._bounds)

    def join(self, expression: ExpressionT) -> ExpressionT:
        """Give the expression as a part of the run: its workers ask the coordinator."""
        if self._coordinator is None or not _is_asked(expression):
            return expression
        joined = copy(expression)
        joined.spec = replace(expression.spec, run=self._name)
        return joined

    def totals(self) -> dict[str, Any] | None:
        """Give what the workers have told; None where there is no coordinator to tell."""
        if self._coordinator is None:
            return None
        try:
            return self._coordinator.totals()
        except ConnectionError as error:
            _logger.warning("The accounts are those of the rows alone. %s", error)
            return None

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
        """End the coordinator, where there is one."""
        if self._coordinator is not None:
            self._coordinator.close()


def _is_asked(expression: LLMExpression[Any, Any]) -> bool:
    return expression.spec.base_url != OFFLINE_URL
