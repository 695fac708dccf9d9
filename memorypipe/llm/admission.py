"""How much work a worker takes in hand at a time."""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Admission", "Portion"]


class Portion:
    """Rows that are in hand together; those that are done make room for others.

    Args:
        admission: What let them in.
        rows: Their number.
    """

    def __init__(self, admission: "Admission", rows: int) -> None:
        self._admission = admission
        self.rows = rows
        self.came_in = threading.Event()

    def done(self, rows: int = 1) -> None:
        """Count rows as done; thread-safe."""
        rows = min(rows, self.rows)
        self.rows -= rows
        self._admission.leave(rows)


class Admission:
    """Lets portions of rows in while there is room, first come, first served; thread-safe.

    What is not in hand is neither read nor laid out: that keeps memory flat, and the threads of
    waiting portions leave the processor to the requests. Rows count while they are not done: one
    that has to be asked ten times must not keep the others out.

    Args:
        rows: While fewer rows than this are in hand, another portion may come in whole.
    """

    def __init__(self, rows: int) -> None:
        self._most = rows
        self._inside = 0
        self._queue: deque[Portion] = deque()
        self._lock = threading.Lock()

    @contextmanager
    def hold(self, rows: int) -> Iterator[Portion]:
        """Wait for room, and keep so many rows in hand until they are done or the block ends."""
        portion = Portion(self, rows)
        with self._lock:
            self._queue.append(portion)
            self._let_in()
        try:
            portion.came_in.wait()
            yield portion
        finally:
            with self._lock:
                # Where the wait was interrupted: those behind must not wait for this one.
                if not portion.came_in.is_set():
                    self._queue.remove(portion)
                    portion.rows = 0
                    self._let_in()
            portion.done(portion.rows)

    def leave(self, rows: int) -> None:
        """Give the room of some rows to those who wait."""
        with self._lock:
            self._inside -= rows
            self._let_in()

    def _let_in(self) -> None:
        while self._queue and self._inside < self._most:
            portion = self._queue.popleft()
            self._inside += portion.rows
            portion.came_in.set()
