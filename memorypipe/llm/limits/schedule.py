"""Starts on one schedule for all workers: who may start, and exactly when. Pure.

Starts are reserved as points in time a little ahead. They lie a spacing apart, and a start is
used at its time or not at all, so a worker that dies or hangs leaves gaps and never a burst.
"""

import math

__all__ = ["HORIZON_S", "StartSchedule", "allowed_lateness_s", "planned_rate"]

HORIZON_S = 0.15
"""How far ahead starts are given out: what a worker that dies can take with it."""

# A start is given out no nearer than this: it has to reach the worker first.
_LEAD_S = 0.005

# A start may be used so late, where the planned rate can make room for it.
_WANTED_LATENESS_S = 0.025
_LEAST_SHARE_OF_RATE = 0.99
# On its way to the endpoint a request is delayed by about so much, more or less.
_TRANSPORT_S = 0.003

_MINUTE_S = 60.0


def planned_rate(max_qps: float) -> float:
    """Give the rate of the schedule, a little below `max_qps`.

    Starts that lie 1/r apart and are up to j seconds late put at most floor((1 + j) * r) + 1 into
    a window of one second. That this is no more than `max_qps` + 1 bounds r, for the lateness
    that should be allowed; more than a hundredth of the rate is not given up for it.

    Example:
        >>> round(planned_rate(50), 2), round(planned_rate(5), 2), round(planned_rate(1_000), 2)
        (49.76, 5, 990.0)
    """
    roomy = (math.floor(max_qps) + 1) / (1 + _WANTED_LATENESS_S)
    return min(max_qps, max(roomy, _LEAST_SHARE_OF_RATE * max_qps))


def allowed_lateness_s(max_qps: float | None) -> float:
    """Say how late a start may be used; it is dropped afterwards.

    Args:
        max_qps: Starts per second; None, where starts are not spaced, allows any lateness.
    """
    if max_qps is None:
        return math.inf
    room_s = (math.floor(max_qps) + 1) / planned_rate(max_qps) - 1
    return max(room_s - _TRANSPORT_S, room_s / 2)


class StartSchedule:
    """Gives out starts, each once.

    Args:
        max_qps: Starts per second; None for no limit.
        max_tokens_per_minute: Prompt and completion tokens; None for no limit.
        now: The schedule begins here, without credit for the time before.
    """

    def __init__(
        self, max_qps: float | None, max_tokens_per_minute: int | None, now: float
    ) -> None:
        self._spacing_s = 0.0 if max_qps is None else 1 / planned_rate(max_qps)
        self._tokens_per_s = (
            math.inf if max_tokens_per_minute is None else max_tokens_per_minute / _MINUTE_S
        )
        self._next_s = now
        # When the tokens spent and reserved so far will have been earned.
        self._earned_s = now

    def next_s(self, now: float) -> float:
        """Say when the next start may be."""
        lead_s = _LEAD_S if self._spacing_s else 0.0
        return max(now + lead_s, self._next_s, self._earned_s)

    def reserve(self, at_s: float, tokens: float, level: float) -> None:
        """Give a start out, as `next_s` said.

        Args:
            at_s: When it is.
            tokens: What the call is expected to cost; `correct` puts that right.
            level: Share of `max_qps` to keep to, above 0.
        """
        self._next_s = at_s + self._spacing_s / level
        # Tokens not used are kept for a second, so that idle time does not become a burst.
        self._earned_s = max(self._earned_s, at_s - 1.0)
        self.correct(tokens)

    def correct(self, tokens: float) -> None:
        """Charge tokens that no reservation foresaw; negative ones come back."""
        self._earned_s += tokens / self._tokens_per_s
