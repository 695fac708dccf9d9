"""Starts and tokens as time allows them, for one worker on its own.

All of it belongs to one event loop and takes its clock from there.
"""

import asyncio
import math
from collections import deque

from aiolimiter import AsyncLimiter

__all__ = ["Pace", "TokenBudget"]

# A little more than the second that endpoints count in: on their way there requests are delayed
# by more or less, and so may come closer together than they started.
_WINDOW_S = 1.006
_MINUTE_S = 60.0

# A loop that was busy for so long makes good the starts that it missed; what is missed beyond is
# gone, since endpoints that count in short windows would answer a larger burst with 429.
_CATCH_UP_S = 0.1


class Pace:
    """Spaces starts, first come first served.

    No window of one second, its ends included, holds more starts than `max_qps` rounded up. A
    leaky bucket that holds one start loses the lateness of every timer, at 200 a second a tenth
    of the rate. This one holds a tenth of a second's worth, begins full, so that nothing bursts
    at the start, and a record of the last second's starts has the last word.

    Args:
        max_qps: Starts per second, above 0.

    Attributes:
        level: Share of `max_qps` to keep to from now on, above 0 and at most 1.
    """

    def __init__(self, max_qps: float) -> None:
        self._capacity = max(2.0, max_qps * _CATCH_UP_S)
        self._bucket = AsyncLimiter(self._capacity, self._capacity / max_qps)
        self._fill = self._capacity - 1.0
        self._starts: deque[float] = deque(maxlen=math.ceil(max_qps))
        self._turn = asyncio.Lock()
        self.level = 1.0

    @property
    def is_short(self) -> bool:
        """Whether someone waits for a start."""
        return self._turn.locked()

    async def wait(self) -> None:
        """Wait for the next start; the caller starts before it awaits anything else."""
        loop = asyncio.get_running_loop()
        async with self._turn:
            if self._fill:
                await self._bucket.acquire(self._fill)
                self._fill = 0.0
            await self._pour(1.0 / self.level)
            while (now := loop.time()) < (allowed := self._allowed_s()):  # noqa: ASYNC110  # time, no event
                await asyncio.sleep(allowed - now)
            self._starts.append(now)

    async def _pour(self, amount: float) -> None:
        while amount > 0:
            part = min(amount, self._capacity)
            await self._bucket.acquire(part)
            amount -= part

    def _allowed_s(self) -> float:
        if len(self._starts) < self._starts.maxlen:  # type: ignore[operator]  # a maxlen is set
            return -math.inf
        # The first instant at which the oldest start lies outside the closed window.
        return math.nextafter(self._starts[0] + _WINDOW_S, math.inf)


class TokenBudget:
    """Lets calls start as the tokens of a minute allow, first come first served.

    What a call costs is known only from its reply: what it is expected to cost is reserved until
    `settle` puts the true number in its place. In a minute at most the limit is spent, one
    second's worth and one call more, as far as the expectations hold. Nothing bursts at the start.

    Args:
        max_tokens_per_minute: Prompt and completion tokens together, above 0.
    """

    def __init__(self, max_tokens_per_minute: int) -> None:
        self._rate_per_s = max_tokens_per_minute / _MINUTE_S
        self._balance = 0.0
        self._refilled_s: float | None = None
        self._turn = asyncio.Lock()

    async def wait(self, tokens: float) -> None:
        """Wait until a call may start, and reserve what it is expected to cost."""
        async with self._turn:
            while (missing := -self._refill()) > 0:  # noqa: ASYNC110  # a bucket, no event
                await asyncio.sleep(missing / self._rate_per_s)
            self._balance -= tokens

    def settle(self, reserved: float, spent: float) -> None:
        """Put what a call did cost in the place of what was reserved for it."""
        self._balance += reserved - spent

    def _refill(self) -> float:
        now = asyncio.get_running_loop().time()
        refill = 0.0 if self._refilled_s is None else (now - self._refilled_s) * self._rate_per_s
        # One second's worth is kept at most, so that idle time does not become a burst.
        self._balance = min(self._balance + refill, self._rate_per_s)
        self._refilled_s = now
        return self._balance
