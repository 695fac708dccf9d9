"""How much work a worker takes in hand at a time."""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Admission"]


class Admission:
    """Lets portions of rows in while there is room, first come, first served; thread-safe.

    What is not in hand is neither read nor laid out: that keeps memory flat, and the threads of
    waiting portions leave the processor to the requests.

    Args:
        rows: While fewer rows than this are in hand, another portion may come in whole.
    """

    def __init__(self, rows: int) -> None:
        self._most = rows
        self._inside = 0
        self._queue: deque[object] = deque()
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, rows: int) -> Iterator[None]:
        """Wait for room, and keep so many rows in hand until the block ends."""
        me = object()
        with self._changed:
            self._queue.append(me)
            try:
                self._changed.wait_for(lambda: self._queue[0] is me and self._inside < self._most)
                self._inside += rows
            finally:
                # Also where the wait was interrupted: those behind must not wait for this one.
                self._queue.remove(me)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._inside -= rows
                self._changed.notify_all()
