"""Points in time as logs write them, brought to UTC."""

import math
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, NamedTuple

__all__ = ["ParsedTime", "parse_time"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Shorter digit strings are ISO 8601 basic dates ("20250101").
_MIN_EPOCH_DIGITS = 9

# Epoch numbers name their unit by their size: seconds stay below 10**11 until the year 5138,
# and milliseconds, microseconds and nanoseconds follow three digits apart.
_MICROSECONDS_PER_UNIT = ((1e11, 1e6), (1e14, 1e3), (1e17, 1.0))
_MICROSECONDS_PER_NANOSECOND = 1e-3


class ParsedTime(NamedTuple):
    """A point in time, or why there is none.

    Attributes:
        at: UTC; None where the value is missing or unreadable.
        naive: The value named no time zone, none was given for it, and it was taken as UTC.
        unreadable: There is a value, but it is no time.
    """

    at: datetime | None = None
    naive: bool = False
    unreadable: bool = False


def parse_time(value: Any, *, zone: tzinfo | None = None) -> ParsedTime:
    """Read a time from an ISO 8601 string, an epoch number, a date or a datetime.

    Args:
        value: Epoch numbers (also as digit strings) are UTC seconds, milliseconds, microseconds
            or nanoseconds, told apart by their size. None, NaN, NaT and blank strings are
            missing.
        zone: Of times that name none; None: they are UTC. Where clocks go back, the earlier of
            the two times that it may be.

    Example:
        >>> parse_time("2025-01-01T12:00:00+02:00").at.isoformat()
        '2025-01-01T10:00:00+00:00'
        >>> parse_time(1735725600000).at.isoformat()
        '2025-01-01T10:00:00+00:00'
        >>> parse_time("2025-01-01").naive
        True
        >>> parse_time("yesterday").unreadable
        True
    """
    if _is_missing(value):
        return ParsedTime()
    try:
        return _read(value, zone)
    except (ValueError, OverflowError, TypeError):
        return ParsedTime(unreadable=True)


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    if isinstance(value, str):
        return not value.strip()
    # NaN and NaT are the only values that differ from themselves.
    return isinstance(value, float | datetime) and bool(value != value)  # noqa: PLR0124  # as said


def _read(value: Any, zone: tzinfo | None) -> ParsedTime:
    if isinstance(value, datetime):
        return _from_datetime(value, zone)
    if isinstance(value, date):
        return _from_datetime(datetime(value.year, value.month, value.day), zone)  # noqa: DTZ001  # naive
    if isinstance(value, str):
        return _from_string(value.strip(), zone)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return ParsedTime(at=_from_epoch(value))
    raise TypeError(type(value).__name__)


def _from_string(text: str, zone: tzinfo | None) -> ParsedTime:
    if text.isdecimal() and len(text) >= _MIN_EPOCH_DIGITS:
        return ParsedTime(at=_from_epoch(int(text)))
    if text.endswith(" UTC"):
        text = text.removesuffix(" UTC") + "+00:00"
    return _from_datetime(datetime.fromisoformat(text), zone)


def _from_datetime(value: datetime, zone: tzinfo | None) -> ParsedTime:
    if value.utcoffset() is not None:
        return ParsedTime(at=_plain(value.astimezone(UTC)))
    # A pandas timestamp has no `replace` that takes every zone.
    plain = datetime.combine(value.date(), value.time(), tzinfo=zone or UTC)
    return ParsedTime(at=plain.astimezone(UTC), naive=zone is None)


def _plain(value: datetime) -> datetime:
    # A pandas timestamp is a datetime with nanoseconds, which a plain one cannot hold.
    return datetime.combine(value.date(), value.time(), tzinfo=UTC)


def _from_epoch(value: float) -> datetime:
    if not math.isfinite(value):
        raise ValueError(value)
    scale = next(
        (scale for limit, scale in _MICROSECONDS_PER_UNIT if abs(value) < limit),
        _MICROSECONDS_PER_NANOSECOND,
    )
    return _EPOCH + timedelta(microseconds=round(value * scale))
