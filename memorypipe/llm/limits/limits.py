"""How many requests may start, be in flight and spend tokens: the limits of one worker.

A worker on its own keeps them by itself (`LocalStarts`); one of several that share them, or of a
run with bounds, asks their coordinator (`SharedStarts`). All of it belongs to one event loop and
takes its clock from there.
"""

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from memorypipe.errors import ModelError
from memorypipe.llm.limits.call_cost import CallCost
from memorypipe.llm.limits.control import Coordinator, GroupLimits
from memorypipe.llm.limits.counts import LimitCounts
from memorypipe.llm.limits.local_starts import LocalStarts
from memorypipe.llm.limits.rate_headers import pause_wanted_s
from memorypipe.llm.limits.shared_starts import SharedStarts
from memorypipe.llm.limits.slots import Slots
from memorypipe.llm.limits.spread import Spread
from memorypipe.llm.spec import Prices
from memorypipe.llm.types import Reply

__all__ = ["Attempt", "Limits"]


class Limits:
    """All limits of one worker: a context around each attempt.

    A slot in flight is taken first; then starts are kept a little apart, then come tokens, then
    the pace: whoever is given its start by the pace starts at once, so the pace is what the
    endpoint sees.

    Args:
        max_qps: Starts per second; None for no limit.
        max_concurrency: Attempts between entering and leaving at one time.
        max_tokens_per_minute: Prompt and completion tokens; None for no limit.
        coordinator: Who keeps these limits for several workers, or the bounds of a run; None
            where the worker is on its own.
        worker: The worker's name among those of the coordinator.
        group: Names the limits that it shares with others.
        prices: What tokens cost, for a bound on it.
        snapshot: Gives the worker's counters, JSON values, for the coordinator to keep.
        may_be_bounded: Whether the coordinator may be one of a run with bounds: where it was
            never reached, nothing starts. False: the worker then keeps the limits alone.

    Attributes:
        counts: What was let through so far, and how long it waited.
        ended: Set once nothing will start any more: a bound is reached, or nobody is there to
            keep the bounds.
    """

    def __init__(  # noqa: PLR0913  # the limits, and who else keeps them
        self,
        max_qps: float | None,
        max_concurrency: int,
        max_tokens_per_minute: int | None = None,
        *,
        coordinator: Coordinator | None = None,
        worker: str = "",
        group: str = "",
        prices: Prices | None = None,
        snapshot: Callable[[], Mapping[str, Any]] | None = None,
        may_be_bounded: bool = True,
    ) -> None:
        self.counts = LimitCounts()
        self.ended = asyncio.Event()
        self._cost = CallCost(prices)
        self._slots = Slots(max_concurrency if coordinator is None else 0)
        self._spread = Spread()
        self._starts: LocalStarts | SharedStarts
        self._shared: SharedStarts | None = None
        if coordinator is None:
            self._starts = LocalStarts(
                max_qps,
                max_tokens_per_minute,
                slots=self._slots,
                counts=self.counts,
                cost=self._cost,
            )
        else:
            self._starts = self._shared = SharedStarts(
                coordinator,
                GroupLimits(
                    max_qps=max_qps,
                    max_concurrency=max_concurrency,
                    max_tokens_per_minute=max_tokens_per_minute,
                ),
                slots=self._slots,
                counts=self.counts,
                cost=self._cost,
                worker=worker,
                group=group,
                snapshot=snapshot,
                ended=self.ended,
                may_be_bounded=may_be_bounded,
            )

    def attempt(self, tokens: float, *, first: bool = False) -> "Attempt":
        """Give the context of one attempt.

        Args:
            tokens: What its prompt is estimated to cost.
            first: Whether it goes before others that wait, as does what was begun before.
        """
        return Attempt(self, tokens, first=first)

    def call_ended(self, *, failed: bool) -> None:
        """Report a call that came to its end, with all its attempts.

        Args:
            failed: Whether it gave nothing that can be used.
        """
        self.counts.calls += 1
        self.counts.failed_calls += failed

    async def flush(self) -> None:
        """Tell the coordinator all that there is to tell, and wait until it has heard it."""
        if self._shared is not None:
            await self._shared.flush()

    async def close(self) -> None:
        """Tell the coordinator for the last time, and end the task that talks to it."""
        if self._shared is not None:
            await self._shared.close()

    # --- for `Attempt` ---

    async def _enter(self, prompt_tokens: float, *, first: bool) -> float:
        """Wait for everything, and give the tokens that were reserved."""
        counts, slots = self.counts, self._slots
        self._starts.announce(prompt_tokens)
        if slots.is_free:
            await slots.acquire()
        else:
            clock = asyncio.get_running_loop().time
            asked_s = clock()
            await slots.acquire(first=first)
            counts.waited_concurrency_s += clock() - asked_s
        try:
            await self._spread.wait(max(slots.capacity, 1))
            reserved = await self._starts.wait(prompt_tokens)
        except BaseException:
            # Cancelled while waiting: the slot goes to the next in line.
            slots.release()
            raise
        counts.started += 1
        counts.in_flight += 1
        counts.max_in_flight = max(counts.max_in_flight, counts.in_flight)
        return reserved

    def _leave(self, reserved: float, spent: int) -> None:
        self.counts.in_flight -= 1
        self._starts.done(reserved, spent)
        self._slots.release()

    def _replied(self, prompt_tokens: float, reply: Reply, latency_s: float) -> float:
        self._spread.learn(latency_s)
        counts, paid = self.counts, self._cost.paid(reply)
        counts.answered += 1
        counts.tokens += reply.prompt_tokens + reply.completion_tokens
        counts.cost += paid
        self._cost.learn(prompt_tokens, reply)
        if reply.rate is not None:
            wait_s = pause_wanted_s(reply.rate, self._cost.tokens(prompt_tokens))
            if wait_s > 0:
                self._starts.pause(wait_s)
        self._starts.replied()
        return paid

    def _failed(self, error: ModelError) -> None:
        self._starts.failed(error)


class Attempt:
    """One attempt within the limits: waits on entering, gives back on leaving.

    Entering raises `BudgetError` where a bound of the run is reached.

    Args:
        limits: Which limits.
        tokens: What its prompt is estimated to cost.
        first: Whether it goes before others that wait.
    """

    __slots__ = ("_first", "_limits", "_reserved", "_spent", "_started_s", "_tokens")

    def __init__(self, limits: Limits, tokens: float, *, first: bool) -> None:
        self._limits = limits
        self._first = first
        self._tokens = tokens
        self._reserved = 0.0
        self._spent = 0
        self._started_s = 0.0

    async def __aenter__(self) -> Self:
        self._reserved = await self._limits._enter(  # noqa: SLF001  # two halves of one
            self._tokens, first=self._first
        )
        self._started_s = asyncio.get_running_loop().time()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._limits._leave(self._reserved, self._spent)  # noqa: SLF001  # as above

    def replied(self, reply: Reply) -> float:
        """Report a reply; gives what it cost, in the currency of the prices, 0 without them."""
        self._spent += reply.prompt_tokens + reply.completion_tokens
        latency_s = asyncio.get_running_loop().time() - self._started_s
        return self._limits._replied(self._tokens, reply, latency_s)  # noqa: SLF001  # as above

    def failed(self, error: ModelError) -> None:
        """Report a failure."""
        self._limits._failed(error)  # noqa: SLF001  # as above
