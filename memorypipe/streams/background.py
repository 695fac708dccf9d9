"""A thread that flushes now and then, for services that have no scheduler."""

import logging
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["AutoFlush"]

_LOG = logging.getLogger(__name__)


class AutoFlush:
    """Does something every so many seconds, in a thread of its own, until `stop`.

    Args:
        flush: What; a failure is told as a warning, and the next try may work.
        every_s: Seconds from the end of one to the next.
    """

    def __init__(self, flush: Callable[[], Any], *, every_s: float) -> None:
        self._flush = flush
        self._every_s = every_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memorypipe-flush", daemon=True)

    def start(self) -> None:
        """Begin; the first flush comes at once."""
        self._thread.start()

    def stop(self) -> None:
        """End after the flush under way."""
        self._stopped.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._flush()
            except Exception as error:  # noqa: BLE001  # one bad flush must not end all later ones
                _LOG.warning("A flush failed: %s: %s", type(error).__name__, error)
            self._stopped.wait(self._every_s)
