"""From a task to its reading: ask, ask again with what was wrong, or cut the task in two."""

from dataclasses import replace
from typing import Any, Generic, TypeVar

from memorypipe.errors import ModelError, StoppedError
from memorypipe.llm.caller import Caller
from memorypipe.llm.stage import COMPLETE_STATUSES, Reading, Stage
from memorypipe.llm.tally import Tally
from memorypipe.llm.types import Reply, Request
from memorypipe.prompts.retry import retry_messages

__all__ = ["Solver"]

TaskT = TypeVar("TaskT")
ValueT = TypeVar("ValueT")

# The model may do better when it is told what was wrong.
_WORTH_ANOTHER = frozenset({"parse_error", "incomplete"})


class Solver(Generic[TaskT, ValueT]):
    """Solves one task within one budget of attempts.

    Args:
        stage: The kind of work.
        caller: Gets replies.
        tally: The budget, for the task with all its corrections and halves.
        scope_key: Whose data the task is about; None where nobody says.
    """

    def __init__(
        self,
        stage: Stage[TaskT, ValueT],
        caller: Caller,
        tally: Tally,
        scope_key: str | None = None,
    ) -> None:
        self._stage = stage
        self._caller = caller
        self._tally = tally
        self._scope_key = scope_key

    async def solve(self, task: TaskT) -> Reading[ValueT]:
        """Get a reading, asking again or cutting the task in two while the budget lasts."""
        tally = self._tally
        request = self._stage.request(task)
        best: Reading[ValueT] | None = None
        before: str | None = None
        while True:
            try:
                reply, reading = await self._caller.ask(
                    request,
                    lambda reply: self._stage.read(task, reply),
                    tally,
                    correct=_corrected,
                    may_split=lambda: self._may_split(task),
                    scope_key=self._scope_key,
                )
            except ModelError:
                if best is None or self._caller.stopped is not None:
                    raise
                return best
            tally.last_reply = reply
            if reading.status == "truncated" and tally.attempts_left > 1:
                tally.fail("truncated")
                return await self._solve_halves(task, reading)
            if reading.value is not None:
                best = reading
            # A model that says the same again will do so for ever.
            is_stuck = before is not None and reply.content == before
            if reading.status not in _WORTH_ANOTHER or not tally.attempts_left or is_stuck:
                return best or reading
            before = reply.content
            tally.fail(reading.status)
            request = _corrected(request, reply, reading)

    def _may_split(self, task: TaskT) -> bool:
        # Now or, where this run has used its attempts up, in a later one.
        budget = self._tally.attempts + self._tally.attempts_left
        return budget > 1 and self._stage.split(task) is not None

    async def _solve_halves(self, task: TaskT, whole: Reading[ValueT]) -> Reading[ValueT]:
        """Answer the two halves of a task whose reply did not fit."""
        halves = self._stage.split(task)
        if halves is None:
            return whole
        first, second = [await self._solve_half(half) for half in halves]
        if first.value is None and second.value is None:
            return whole
        good = {first.status, second.status} <= COMPLETE_STATUSES
        errors = [reading.error for reading in (whole, first, second) if reading.error]
        return Reading(
            value=self._stage.merge(task, first.value, second.value, whole.value),
            status="ok" if good else "truncated",
            error=None if good else "; ".join(errors),
            dropped_items=first.dropped_items + second.dropped_items,
            repaired=first.repaired + second.repaired,
        )

    async def _solve_half(self, half: TaskT) -> Reading[ValueT]:
        if not self._tally.attempts_left:
            return Reading(value=None, status="truncated", error="no attempt is left for a half")
        try:
            return await self.solve(half)
        except StoppedError:
            raise
        except ModelError as error:
            if self._caller.stopped is not None:
                raise
            return Reading(value=None, status="truncated", error=f"{type(error).__name__}: {error}")


def _corrected(request: Request, reply: Reply, reading: Reading[Any]) -> Request:
    """Give a request again, with what was replied and what was wrong with it."""
    error = reading.error or "it holds no readable item"
    return replace(request, messages=retry_messages(request.messages, reply.content, error))
