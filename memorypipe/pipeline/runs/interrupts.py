"""Ctrl-C: once, what is in flight is finished and kept; twice, the run ends at once."""

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["DRAIN_S", "Drain", "drained_first"]

DRAIN_S = 60.0
"""What is still in flight so long after Ctrl-C is given up."""

Drain = Callable[[threading.Event], object]
"""Stops new requests and waits for those in flight; it returns early when the event is set."""

_logger = logging.getLogger(__name__)


@contextmanager
def drained_first(drain: Drain) -> Iterator[None]:
    """Let the first Ctrl-C drain the run before it interrupts the block.

    Ray ends its workers as soon as the thread that waits for them is interrupted. So the block
    goes on while the run is drained, and `KeyboardInterrupt` comes after that, at the latest at
    the end of the block: what was interrupted is never taken for complete.

    Nothing changes outside the main thread, or where Ctrl-C has a handler of its own already.

    Args:
        drain: Called in a thread of its own.

    Raises:
        KeyboardInterrupt: After Ctrl-C.
    """
    is_ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if not is_ours:
        yield
        return
    interrupt = _Interrupt(drain)
    signal.signal(signal.SIGINT, interrupt.on_signal)
    try:
        yield
    finally:
        interrupt.end()
        signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupt.raise_if_asked()


class _Interrupt:
    """The state between the first Ctrl-C and its `KeyboardInterrupt`."""

    def __init__(self, drain: Drain) -> None:
        self._drain = drain
        self._main = threading.main_thread()
        self._is_asked = False
        self._ended = threading.Event()
        # Held while the main thread is being interrupted, so that it is never outside the block.
        self._turn = threading.Lock()

    def on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Start to drain; the second time, interrupt."""
        if self._is_asked:
            self._ended.set()
            raise KeyboardInterrupt
        self._is_asked = True
        threading.Thread(target=self._drain_then_interrupt, daemon=True).start()

    def end(self) -> None:
        """Hear that the block is over."""
        self._ended.set()
        with self._turn:
            pass

    def raise_if_asked(self) -> None:
        """Interrupt a block that came to its end while it was drained."""
        if self._is_asked:
            raise KeyboardInterrupt

    def _drain_then_interrupt(self) -> None:
        try:
            self._drain(self._ended)
        except Exception as error:  # noqa: BLE001  # else Ctrl-C would have no effect at all
            _logger.warning("What is in flight is not waited for (%s).", type(error).__name__)
        with self._turn:
            if not self._ended.is_set() and self._main.ident is not None:
                # A signal, since the main thread may be waiting in a system call.
                signal.pthread_kill(self._main.ident, signal.SIGINT)
