"""An event loop whose clock jumps to the next timer: hours of waiting in milliseconds."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["VirtualTimeLoop", "run"]

T = TypeVar("T")

# Every turn of the loop takes this long, as on a real clock: code that waits for a time that the
# clock never quite reaches, because of rounding, then gets there.
_TICK_S = 1e-9


class _JumpingSelector(selectors.SelectSelector):
    """Counts the time for which it would have blocked, and blocks for threads alone."""

    def __init__(self, lateness_s: float, *, serves_threads: bool) -> None:
        super().__init__()
        self.elapsed_s = 0.0
        self._lateness_s = lateness_s
        self._serves_threads = serves_threads

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None and self._serves_threads:
            return super().select(None)
        if timeout is None:
            raise RuntimeError("Nothing is scheduled any more: the program waits for ever.")
        self.elapsed_s += max(timeout + self._lateness_s, _TICK_S) if timeout > 0 else _TICK_S
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop for code without sockets and threads; `time()` starts at 0.

    Every timer fires `lateness_s` late, as on a busy machine. With `serves_threads` a loop with
    nothing to do waits for what other threads give it, instead of failing.
    """

    def __init__(self, *, lateness_s: float = 0.0, serves_threads: bool = False) -> None:
        self._jumping = _JumpingSelector(lateness_s, serves_threads=serves_threads)
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.elapsed_s

    def be_busy(self, duration_s: float) -> None:
        """Let time pass while nothing else can run, as a long computation does."""
        self._jumping.elapsed_s += duration_s


def run(main: Coroutine[Any, Any, T], *, lateness_s: float = 0.0) -> T:
    """Run a coroutine on a fresh virtual-time loop."""
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(lateness_s=lateness_s)) as runner:
        return runner.run(main)
