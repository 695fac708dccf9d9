"""The coordinator of workers that are all in one process."""

import threading
import time
from collections.abc import Callable
from typing import Any

from memorypipe.llm.limits.control import Ask, Bounds, Grant
from memorypipe.llm.limits.run_control import RunControl

__all__ = ["LocalCoordinator"]


class LocalCoordinator:
    """Holds the state machine and gives it the time; any thread may call it.

    Args:
        bounds: Where the run stops; None for no bounds.
        leased_calls: As for `RunControl`.
        clock: Gives monotonic seconds.
    """

    def __init__(
        self,
        bounds: Bounds | None = None,
        *,
        leased_calls: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._control = RunControl(bounds or Bounds(), clock(), leased_calls=leased_calls)
        self._clock = clock
        # Each worker asks from the thread of its own loop.
        self._turn = threading.Lock()
        self._is_closed = False

    async def exchange(self, ask: Ask) -> Grant:
        """Hear a worker and answer it; as `RunControl.exchange`.

        Raises:
            ConnectionError: After `close`.
        """
        with self._turn:
            if self._is_closed:
                raise ConnectionError("The run is over.")
            return self._control.exchange(ask, self._clock())

    def totals(self) -> dict[str, Any]:
        """Give what the run has used so far; as `RunControl.totals`."""
        with self._turn:
            return self._control.totals()

    def usage(self) -> dict[str, Any]:
        """Give what a budget is kept by; as `RunControl.usage`."""
        with self._turn:
            return self._control.usage()

    def stop(self, reason: str) -> None:
        """Let nothing more be sent; what is under way goes on."""
        with self._turn:
            self._control.stop(reason)

    def allow(self, bounds: Bounds, leased_calls: int) -> None:
        """Set bounds anew; as `RunControl.allow`."""
        with self._turn:
            self._control.allow(bounds, leased_calls)

    def is_quiet(self) -> bool:
        """Tell whether nothing is under way any more after `stop`; as `RunControl.is_quiet`."""
        with self._turn:
            return self._control.is_quiet(self._clock())

    def idle_s(self) -> float:
        """Tell for how many seconds nobody has asked."""
        with self._turn:
            return self._clock() - self._control.heard_s

    def close(self) -> None:
        """Answer nobody any more; what was told can still be asked for."""
        with self._turn:
            self._is_closed = True
