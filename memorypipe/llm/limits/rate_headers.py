"""What an endpoint tells about its own limits in the headers of a response. Pure.

Read are the headers of OpenAI (``x-ratelimit-remaining-requests: 59``,
``x-ratelimit-reset-requests: 6m0s``; so do most compatible servers), of Anthropic
(``anthropic-ratelimit-requests-remaining``, ``…-reset`` with an RFC 3339 time) and of the IETF
draft (``ratelimit-remaining``, ``ratelimit-reset`` in seconds).
"""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from memorypipe.llm.types import RateState

__all__ = ["RateReader", "pause_wanted_s", "read_rate_state"]

_OPENAI = "x-ratelimit-remaining-requests"
_OPENAI_TOKENS = "x-ratelimit-remaining-tokens"
_ANTHROPIC = "anthropic-ratelimit-requests-remaining"
_IETF = "ratelimit-remaining"

_UNITS_S = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_WHOLE_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+")
# A number so large is a point in time, not a number of seconds from now.
_FIRST_EPOCH_S = 1e9


# A header is looked up in microseconds, thousands of times a second.
_LOOK_EVERY = 16


class RateReader:
    """Reads the state off every response of an endpoint that tells it, and off few of others."""

    def __init__(self) -> None:
        self._unread = 0

    def read(self, headers: Mapping[str, str]) -> RateState | None:
        """Read the next response; as `read_rate_state`."""
        if self._unread:
            self._unread -= 1
            return None
        rate = read_rate_state(headers)
        if rate is None:
            self._unread = _LOOK_EVERY - 1
        return rate


def read_rate_state(headers: Mapping[str, str], *, now: datetime | None = None) -> RateState | None:
    """Read what the endpoint still takes, and until when; None where it says nothing.

    Args:
        headers: Of the response, looked up in lower case.
        now: Against which times count; None takes the clock.

    Example:
        >>> read_rate_state(
        ...     {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}
        ... )
        RateState(remaining_requests=0, reset_requests_s=360.0, \
remaining_tokens=None, reset_tokens_s=None)
        >>> read_rate_state({"content-type": "application/json"}) is None
        True
    """
    if _OPENAI in headers or _OPENAI_TOKENS in headers:
        return _state(headers, "x-ratelimit-{part}-{what}", now)
    if _ANTHROPIC in headers:
        return _state(headers, "anthropic-ratelimit-{what}-{part}", now)
    if _IETF in headers:
        return RateState(
            remaining_requests=_count(headers.get(_IETF)),
            reset_requests_s=_wait_s(headers.get("ratelimit-reset"), now),
        )
    return None


def pause_wanted_s(rate: RateState, tokens: float) -> float:
    """Say for how long the endpoint takes no further call; 0 where it takes one.

    Args:
        rate: What it told.
        tokens: What one call is expected to cost.

    Example:
        >>> pause_wanted_s(RateState(remaining_tokens=200, reset_tokens_s=1.5), 300.0)
        1.5
    """
    wait_s = 0.0
    if rate.remaining_requests is not None and rate.remaining_requests <= 0:
        wait_s = rate.reset_requests_s or 0.0
    if rate.remaining_tokens is not None and rate.remaining_tokens < tokens:
        wait_s = max(wait_s, rate.reset_tokens_s or 0.0)
    return wait_s


def _state(headers: Mapping[str, str], pattern: str, now: datetime | None) -> RateState:
    def get(what: str, part: str) -> str | None:
        return headers.get(pattern.format(what=what, part=part))

    return RateState(
        remaining_requests=_count(get("requests", "remaining")),
        reset_requests_s=_wait_s(get("requests", "reset"), now),
        remaining_tokens=_count(get("tokens", "remaining")),
        reset_tokens_s=_wait_s(get("tokens", "reset"), now),
    )


def _count(value: str | None) -> int | None:
    number = _number(value)
    return int(number) if math.isfinite(number) else None


def _wait_s(value: str | None, now: datetime | None) -> float | None:
    """Read a duration (``"6m0s"``, ``"20ms"``, ``"1.5"``) or a point in time."""
    if value is None:
        return None
    number = _number(value)
    if math.isfinite(number):
        is_time = number >= _FIRST_EPOCH_S
        return max(number - (now or datetime.now(UTC)).timestamp() if is_time else number, 0.0)
    text = value.strip().lower()
    if _WHOLE_DURATION.fullmatch(text):
        return sum(float(n) * _UNITS_S[unit] for n, unit in _DURATION.findall(text))
    return _until_s(text, now)


def _until_s(text: str, now: datetime | None) -> float | None:
    try:
        until = datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max((until - (now or datetime.now(UTC))).total_seconds(), 0.0)


def _number(value: str | None) -> float:
    try:
        return float(value or "nan")
    except ValueError:
        return math.nan
