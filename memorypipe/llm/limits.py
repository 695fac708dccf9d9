"""How many requests may start, be in flight and spend tokens: the limits of one worker.

All of it belongs to one event loop and takes its clock from there.
"""

import asyncio
import math
from collections import deque
from types import TracebackType

from aiolimiter import AsyncLimiter

from memorypipe.errors import ModelError
from memorypipe.llm.types import Reply

__all__ = ["Attempt", "Limits", "Pace", "TokenBudget"]

_WINDOW_S = 1.0
_MINUTE_S = 60.0

# A loop that was busy for so long makes good the starts that it missed; what is missed beyond is
# gone, since endpoints that count in short windows would answer a larger burst with 429.
_CATCH_UP_S = 0.1

# What a call is taken to cost before the first reply tells.
_FIRST_GUESS_TOKENS = 1_000.0


class Pace:
    """Spaces starts, first come first served.

    No window of one second, its ends included, holds more starts than `max_qps` rounded up. A
    leaky bucket that holds one start loses the lateness of every timer, at 200 a second a tenth
    of the rate. This one holds a tenth of a second's worth, begins full, so that nothing bursts
    at the start, and a record of the last second's starts has the last word.

    Args:
        max_qps: Starts per second, above 0.
    """

    def __init__(self, max_qps: float) -> None:
        capacity = max(2.0, max_qps * _CATCH_UP_S)
        self._bucket = AsyncLimiter(capacity, capacity / max_qps)
        self._fill = capacity - 1.0
        self._starts: deque[float] = deque(maxlen=math.ceil(max_qps))
        self._turn = asyncio.Lock()

    async def wait(self) -> None:
        """Wait for the next start; the caller starts before it awaits anything else."""
        loop = asyncio.get_running_loop()
        async with self._turn:
            if self._fill:
                await self._bucket.acquire(self._fill)
                self._fill = 0.0
            await self._bucket.acquire()
            while (now := loop.time()) < (allowed := self._allowed_s()):  # noqa: ASYNC110  # time, no event
                await asyncio.sleep(allowed - now)
            self._starts.append(now)

    def _allowed_s(self) -> float:
        if len(self._starts) < self._starts.maxlen:  # type: ignore[operator]  # a maxlen is set
            return -math.inf
        # The first instant at which the oldest start lies outside the closed window.
        return math.nextafter(self._starts[0] + _WINDOW_S, math.inf)


class TokenBudget:
    """Lets calls start as the tokens of a minute allow, first come first served.

    What a call costs is known only from its reply: it is taken to cost the mean of the replies
    so far until `spend` and `done` put the true number in its place. In a minute at most the
    limit is spent, one second's worth and one call more, as far as the mean foretells.

    Args:
        max_tokens_per_minute: Prompt and completion tokens together, above 0.
    """

    def __init__(self, max_tokens_per_minute: int) -> None:
        self._rate_per_s = max_tokens_per_minute / _MINUTE_S
        self._balance = 0.0
        self._refilled_s = -math.inf
        self._mean = _FIRST_GUESS_TOKENS
        self._replies = 0
        self._open = 0
        self._reserved = 0.0
        self._turn = asyncio.Lock()

    async def wait(self) -> None:
        """Wait until a call may start, and reserve what it is taken to cost."""
        async with self._turn:
            while (missing := -self._refill()) > 0:  # noqa: ASYNC110  # a bucket, no event
                await asyncio.sleep(missing / self._rate_per_s)
            self._open += 1
            self._reserved += self._mean
            self._balance -= self._mean

    def spend(self, tokens: int) -> None:
        """Take the tokens of a reply off the budget, and learn from them."""
        self._balance -= tokens
        self._replies += 1
        self._mean += (tokens - self._mean) / self._replies

    def done(self) -> None:
        """Give back what a call had reserved, whether it got a reply or not."""
        share = self._reserved / self._open
        self._open -= 1
        self._reserved -= share
        self._balance += share

    def _refill(self) -> float:
        now = asyncio.get_running_loop().time()
        refill = (now - self._refilled_s) * self._rate_per_s
        # One second's worth is kept at most, so that idle time does not become a burst.
        self._balance = min(self._balance + refill, self._rate_per_s)
        self._refilled_s = now
        return self._balance


class Limits:
    """All limits of one worker, as an async context manager around one attempt.

    A slot in flight is taken first, then tokens, then the pace: whoever is given its start by the
    pace starts at once, so the pace is what the endpoint sees.

    Args:
        max_qps: As `Pace`; None for no limit.
        max_concurrency: Attempts between entering and leaving at one time.
        max_tokens_per_minute: As `TokenBudget`; None for no limit.

    Attributes:
        in_flight: Attempts started and not yet done.
        max_in_flight: The most that `in_flight` has been.
        waited_concurrency_s: Seconds waited for a slot, added up over attempts.
        waited_tokens_s: Seconds waited for tokens, added up.
        waited_qps_s: Seconds waited for the pace, added up.
    """

    def __init__(
        self,
        max_qps: float | None,
        max_concurrency: int,
        max_tokens_per_minute: int | None = None,
    ) -> None:
        self._slots = asyncio.Semaphore(max_concurrency)
        self._pace = None if max_qps is None else Pace(max_qps)
        self._tokens = None if max_tokens_per_minute is None else TokenBudget(max_tokens_per_minute)
        self.in_flight = 0
        self.max_in_flight = 0
        self.waited_concurrency_s = 0.0
        self.waited_tokens_s = 0.0
        self.waited_qps_s = 0.0

    def attempt(self, tokens: float) -> "Attempt":
        """Give the context of one attempt.

        Args:
            tokens: What its prompt is estimated to cost.
        """
        return Attempt(self, tokens)

    async def __aenter__(self) -> None:
        clock = asyncio.get_running_loop().time
        asked_s = clock()
        await self._slots.acquire()
        self.waited_concurrency_s += clock() - asked_s
        try:
            await self._wait_for_tokens()
            await self._wait_for_pace()
        except BaseException:
            # Cancelled while waiting: the slot goes to the next in line.
            self._slots.release()
            raise
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.in_flight -= 1
        if self._tokens is not None:
            self._tokens.done()
        self._slots.release()

    def spend(self, tokens: int) -> None:
        """Report what a reply cost, before leaving the context."""
        if self._tokens is not None:
            self._tokens.spend(tokens)

    async def _wait_for_tokens(self) -> None:
        if self._tokens is not None:
            clock = asyncio.get_running_loop().time
            asked_s = clock()
            await self._tokens.wait()
            self.waited_tokens_s += clock() - asked_s

    async def _wait_for_pace(self) -> None:
        if self._pace is not None:
            clock = asyncio.get_running_loop().time
            asked_s = clock()
            try:
                await self._pace.wait()
            except BaseException:
                if self._tokens is not None:
                    self._tokens.done()
                raise
            self.waited_qps_s += clock() - asked_s


class Attempt:
    """One attempt within the limits: waits on entering, gives back on leaving.

    Args:
        limits: Which limits.
        tokens: What its prompt is estimated to cost.
    """

    __slots__ = ("_limits", "_tokens")

    def __init__(self, limits: Limits, tokens: float) -> None:
        self._limits = limits
        self._tokens = tokens

    async def __aenter__(self) -> "Attempt":
        await self._limits.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._limits.__aexit__(kind, error, traceback)

    def replied(self, reply: Reply) -> None:
        """Report a reply."""
        self._limits.spend(reply.prompt_tokens + reply.completion_tokens)

    def failed(self, error: ModelError) -> None:
        """Report a failure."""
