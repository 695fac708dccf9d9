"""When to try again, how long to wait, when to give an endpoint up: no clock, no dice in here."""

import random
from typing import Literal

from memorypipe.errors import EndpointError, ModelError, RetryableModelError

__all__ = [
    "MAX_RETRY_AFTER_S",
    "STOP_AFTER_S",
    "EndpointHealth",
    "is_retryable",
    "next_wait_s",
]

MAX_RETRY_AFTER_S = 300.0
"""The longest wait that an endpoint can ask for; a date far off must not park a worker."""

STOP_AFTER_S = 60.0
"""How long an endpoint that has answered may fail as if for good before the job stops."""

_BASE_S = 0.5
_LEAST_BASE_S = 0.02
_CAP_S = 30.0

# The strain looks back over about so many attempts.
_REMEMBERED = 64

# Failures in a row that come about by chance so seldom mean that the endpoint answers nobody.
_SELDOM = 1e-5

# 2 ** 30 times any base is above every cap, and no float overflows.
_MAX_DOUBLINGS = 30


def is_retryable(error: BaseException) -> bool:
    """Tell whether the same request may succeed later."""
    return isinstance(error, RetryableModelError)


def next_wait_s(
    error: BaseException,
    attempt: int,
    *,
    rng: random.Random,
    strain: float = 1.0,
    taken_s: float = 0.0,
) -> float:
    """Say how long to wait before the next attempt.

    An endpoint that turns a few requests away and answers the others takes this one a moment
    later: a long wait would leave it idle, and what the refused attempt took counts as waited.
    One that answers nobody needs time.

    Args:
        error: What the last attempt failed with; its `retry_after_s` is obeyed, up to
            `MAX_RETRY_AFTER_S`.
        attempt: The number of the attempt that failed, from 1.
        rng: The dice of the jitter.
        strain: Share of all attempts that fail now, from 0 to 1, as from `EndpointHealth.strain`.
            At 1 the upper end of the first wait is half a second; it doubles with every attempt.
        taken_s: What the attempt that failed took, waiting for its turn included. Below a strain
            of 1 the wait counts from its beginning, so that attempts that are refused slowly are
            as far apart as others.

    Returns:
        Seconds. Without `retry_after_s` any value up to the upper end is equally likely, so that
        requests that failed together do not come back together.

    Example:
        >>> next_wait_s(RetryableModelError("busy", "http_429", 7.0), 1, rng=random.Random(0))
        7.0
    """
    asked_s = error.retry_after_s if isinstance(error, RetryableModelError) else None
    if asked_s is not None:
        return min(max(asked_s, 0.0), MAX_RETRY_AFTER_S)
    base_s = max(_LEAST_BASE_S, _BASE_S * strain**2)
    doublings = min(max(attempt - 1, 0), _MAX_DOUBLINGS)
    wait_s = rng.uniform(0.0, min(max(base_s, _CAP_S * strain**4), base_s * 2**doublings))
    return max(0.0, wait_s - taken_s) if strain < 1.0 else wait_s


class EndpointHealth:
    """Decides whether an `EndpointError` stops the job.

    A wrong key, model or address stops it at once where the endpoint has not answered yet. Where
    it has, one restarting replica must not stop a run: the job goes on until the endpoint has
    failed for `stop_after_s` without a success in between. The caller waits between attempts
    (`next_wait_s`) and reads the key again.

    An endpoint counts as one, whatever replicas it has. "Has answered" means: has answered this
    object, which is as old as its worker. Another stage, and another process, begin anew.

    Args:
        stop_after_s: Counted from the first failure after the last success, so that a time
            without any call does not count.
    """

    def __init__(self, *, stop_after_s: float = STOP_AFTER_S) -> None:
        self._stop_after_s = stop_after_s
        self._last_success_s: float | None = None
        self._failing_since_s: float | None = None
        self._failing_share = 0.0
        self._share_before = 0.0
        self._failures_in_a_row = 0

    def success(self, now: float) -> None:
        """Take note of a reply that came at `now` (monotonic seconds)."""
        self._last_success_s = now
        self._failing_since_s = None
        self._failing_share -= self._failing_share / _REMEMBERED
        self._share_before = max(self._failing_share, 1 / _REMEMBERED)
        self._failures_in_a_row = 0

    @property
    def strain(self) -> float:
        """The share of attempts that fail; 1 where the endpoint seems to answer nobody.

        That is before the first reply, and after more failures in a row than that share explains:
        three where none failed before, eleven where a third did. What is rejected for good (400)
        is no failure of the endpoint.
        """
        if self._last_success_s is None:
            return 1.0
        by_chance = self._share_before**self._failures_in_a_row
        return 1.0 if by_chance < _SELDOM else self._failing_share

    def failure(self, error: ModelError, now: float) -> Literal["stop", "retry"]:
        """Take note of a failure, and say what to do.

        Args:
            error: What the attempt failed with. Only an `EndpointError` can stop the job; any
                other says nothing about key, model and address.
            now: Monotonic time in seconds.
        """
        if is_retryable(error) or isinstance(error, EndpointError):
            self._failing_share += (1.0 - self._failing_share) / _REMEMBERED
            self._failures_in_a_row += 1
        if not isinstance(error, EndpointError):
            return "retry"
        if self._last_success_s is None:
            return "stop"
        if self._failing_since_s is None:
            self._failing_since_s = max(now, self._last_success_s)
        return "stop" if now - self._failing_since_s >= self._stop_after_s else "retry"
