"""When attempts may start where a worker is on its own: tokens, pauses and pace, in this order."""

import asyncio

from memorypipe.errors import ModelError, RetryableModelError
from memorypipe.llm.limits.adaptive import OVERLOAD_KINDS, Adaptive
from memorypipe.llm.limits.call_cost import CallCost
from memorypipe.llm.limits.counts import LimitCounts
from memorypipe.llm.limits.pace import Pace, TokenBudget
from memorypipe.llm.limits.slots import Slots

__all__ = ["LocalStarts"]


class LocalStarts:
    """Lets attempts start that hold a slot already.

    Args:
        max_qps: As `Pace`; None for no limit.
        max_tokens_per_minute: As `TokenBudget`; None for no limit.
        slots: Those of the worker; refusals for overload make them fewer.
        counts: Where waiting is counted.
        cost: Foretells what attempts cost.
    """

    def __init__(
        self,
        max_qps: float | None,
        max_tokens_per_minute: int | None,
        *,
        slots: Slots,
        counts: LimitCounts,
        cost: CallCost,
    ) -> None:
        self._pace = None if max_qps is None else Pace(max_qps)
        self._budget = None if max_tokens_per_minute is None else TokenBudget(max_tokens_per_minute)
        self._slots = slots
        self._max_slots = slots.capacity
        self._counts = counts
        self._cost = cost
        self._adaptive = Adaptive(slots.capacity)

    def announce(self, prompt_tokens: float) -> None:
        """Hear of an attempt that is about to wait for a slot."""

    async def wait(self, prompt_tokens: float) -> float:
        """Wait for a start; the caller starts before it awaits anything else.

        Args:
            prompt_tokens: What the prompt is estimated to cost.

        Returns:
            The tokens that were reserved; `done` settles them.
        """
        clock = asyncio.get_running_loop().time
        if self._budget is None:
            if self._pace is not None or clock() < self._adaptive.paused_until_s:
                await self._wait_for_pace()
            return 0.0
        asked_s = clock()
        tokens = self._cost.tokens(prompt_tokens)
        await self._budget.wait(tokens)
        self._counts.waited_tokens_s += clock() - asked_s
        try:
            await self._wait_for_pace()
        except BaseException:
            self.done(tokens, 0)
            raise
        return tokens

    async def _wait_for_pace(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            asked_s = clock()
            while (now := clock()) < (until := self._adaptive.paused_until_s):  # noqa: ASYNC110  # time, no event
                await asyncio.sleep(until - now)
            self._counts.waited_pause_s += now - asked_s
            if self._pace is None:
                return
            await self._pace.wait()
            self._counts.waited_qps_s += clock() - now
            # A pause that began meanwhile holds for those in line, too.
            if clock() >= self._adaptive.paused_until_s:
                return

    def done(self, reserved: float, spent: int) -> None:
        """Settle the tokens of an attempt, whether it got a reply or not."""
        if self._budget is not None:
            self._budget.settle(reserved, spent)

    def replied(self) -> None:
        """Hear of a reply."""
        self._note(answered=1)

    def failed(self, error: ModelError) -> None:
        """Hear of a failure; only a refusal for overload says something about the pace."""
        if isinstance(error, RetryableModelError) and error.kind in OVERLOAD_KINDS:
            self._note(overloaded=1, retry_after_s=error.retry_after_s or 0.0)

    def pause(self, wait_s: float) -> None:
        """Let nothing start for a time."""
        self._adaptive.pause(asyncio.get_running_loop().time(), wait_s)

    def _note(self, *, answered: int = 0, overloaded: int = 0, retry_after_s: float = 0.0) -> None:
        adaptive = self._adaptive
        now = asyncio.get_running_loop().time()
        is_paced = self._pace is not None and self._pace.is_short
        adaptive.note(
            now,
            answered=answered,
            overloaded=overloaded,
            usage=1.0 if is_paced else self._counts.in_flight / self._max_slots,
            retry_after_s=retry_after_s,
        )
        if adaptive.is_steady and self._slots.capacity == self._max_slots:
            return
        self._slots.resize(adaptive.allowed_in_flight(now))
        if self._pace is not None:
            self._pace.level = adaptive.level(now)
