"""Slots of requests in flight, whose number may change while they are in use."""

import asyncio
from collections import deque
from collections.abc import Callable

__all__ = ["Slots"]


class Slots:
    """A semaphore, first come first served, that can be resized.

    Some go first, in their own order: who comes again, so that work that was begun ends soon and
    a run does not end with rows that have most of their attempts before them.

    Where it shrinks below what is in use, nothing is taken away: no slot is given out until
    enough have come back.

    Args:
        capacity: Slots at the start, from 0.

    Attributes:
        capacity: Slots that may be in use.
        in_use: Slots that are.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.in_use = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._first: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        """Who waits for a slot."""
        return len(self._waiters) + len(self._first)

    @property
    def is_free(self) -> bool:
        """Whether `acquire` would return at once."""
        return self.in_use < self.capacity and not self.waiting

    async def acquire(self, *, first: bool = False) -> None:
        """Take a slot, waiting for it where none is free.

        Args:
            first: Whether it goes before those who wait without this.
        """
        if self.is_free:
            self.in_use += 1
            return
        turn = asyncio.get_running_loop().create_future()
        line = self._first if first else self._waiters
        line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                # It was given out in the very moment: on to the next in line.
                self.release()
            elif turn in line:
                line.remove(turn)
            raise

    def release(self) -> None:
        """Give a slot back."""
        self.in_use -= 1
        self._give_out()

    def resize(self, capacity: int) -> None:
        """Change how many slots there are."""
        self.capacity = capacity
        self._give_out()

    def fail_waiting(self, error: Callable[[], BaseException]) -> None:
        """Raise an error, a new one each, in everyone who waits."""
        while self.waiting:
            turn = self._next_in_line()
            if not turn.done():
                turn.set_exception(error())

    def _give_out(self) -> None:
        while self.waiting and self.in_use < self.capacity:
            turn = self._next_in_line()
            if not turn.done():
                self.in_use += 1
                turn.set_result(None)

    def _next_in_line(self) -> asyncio.Future[None]:
        return (self._first or self._waiters).popleft()
