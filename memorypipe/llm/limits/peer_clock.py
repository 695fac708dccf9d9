"""Another process's monotonic clock, read off exchanges with it. Pure."""

import math

__all__ = ["PeerClock"]

# Two clocks drift apart by so much per second, at worst.
_DRIFT = 1e-4


class PeerClock:
    """Tells at which of our times something happens that a peer dates by its own clock.

    The peer's time was taken between sending and receiving: the shorter that took, the better is
    it known. The best exchange counts until drift has made a newer one better.

    Example:
        >>> clock = PeerClock()
        >>> clock.note(10.0, 10.2, 500.1)
        >>> round(clock.ours_s(501.1), 3)
        11.1
    """

    def __init__(self) -> None:
        self._ahead_s = 0.0
        self._error_s = math.inf
        self._noted_s = 0.0

    def note(self, sent_s: float, received_s: float, theirs_s: float) -> None:
        """Take note of an exchange: our times of sending and receiving, their time between."""
        error_s = (received_s - sent_s) / 2
        if error_s <= self._error_s + (received_s - self._noted_s) * _DRIFT:
            self._ahead_s = theirs_s - (sent_s + received_s) / 2
            self._error_s = error_s
            self._noted_s = received_s

    def ours_s(self, theirs_s: float) -> float:
        """Give our time of a moment of theirs."""
        return theirs_s - self._ahead_s
