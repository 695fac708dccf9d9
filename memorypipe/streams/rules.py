"""Rules that say when a stream is due, and the one pass that finds all streams that are. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from memorypipe.errors import InvalidArgumentError
from memorypipe.streams.fields import Fields, refuse

__all__ = ["ABANDONED_AFTER_S", "MAX_OVERLAP", "NO_RULE", "Due", "Reason", "Rule", "find_due"]

ABANDONED_AFTER_S = 24 * 60 * 60
"""What is pending is flushed so long after the last event, whatever the rule."""

MAX_OVERLAP = 1_000
_MAX_EVENTS = 1_000_000
_MINUTE_S = 60
_MICROSECONDS = 1_000_000

Reason = Literal[
    "force_flush", "retry", "no_rule", "event_count", "idle_duration", "fixed_interval", "24_hours"
]
"""Why a stream is due; the first that applies."""

_RULE_FIELDS = ("event_count", "idle_duration", "fixed_interval", "overlap_event_count")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """When a stream is due; 0 stands for what is not set.

    Attributes:
        event_count: New events.
        idle_s: Seconds since the newest new event was ingested.
        interval_s: Seconds from one time to the next, from when the rule was set.
        overlap: Events already processed that open the next window again.
    """

    event_count: int = 0
    idle_s: int = 0
    interval_s: int = 0
    overlap: int = 0

    @classmethod
    def read(cls, config: Any, path: str = "generation_trigger_config") -> Self | None:
        """Read a trigger config.

        Args:
            config: A mapping or object with `generation_rule`.
            path: Its place in the request.

        Returns:
            None where it sets nothing.

        Raises:
            InvalidArgumentError: For a rule that cannot be; names field and value.

        Example:
            >>> Rule.read({"generation_rule": {"event_count": 10, "idle_duration": "300s"}})
            Rule(event_count=10, idle_s=300, interval_s=0, overlap=0)
        """
        top = Fields(config, ("generation_rule",), path)
        given = Fields(top["generation_rule"], _RULE_FIELDS, top.path("generation_rule"))
        rule = cls(
            event_count=given.count("event_count", _MAX_EVENTS) or 0,
            idle_s=given.seconds("idle_duration", multiple_of=_MINUTE_S) or 0,
            interval_s=given.seconds("fixed_interval", multiple_of=_MINUTE_S) or 0,
            overlap=given.count("overlap_event_count", MAX_OVERLAP) or 0,
        )
        _check(rule, given)
        return None if rule == cls() else rule

    @classmethod
    def from_dict(cls, values: Mapping[str, Any] | None) -> Self | None:
        """Read what `to_dict` gave."""
        return None if values is None else cls(**values)

    def to_dict(self) -> dict[str, int]:
        """Give the rule as JSON values."""
        return asdict(self)


NO_RULE = Rule()


def _check(rule: Rule, given: Fields) -> None:
    if rule.idle_s and rule.interval_s:
        raise InvalidArgumentError(
            f"{given.path('idle_duration')} {given['idle_duration']!r} and "
            f"{given.path('fixed_interval')} {given['fixed_interval']!r} exclude each other; "
            "give one of them."
        )
    if not rule.overlap:
        return
    field = given.path("overlap_event_count")
    if not (rule.event_count or rule.idle_s or rule.interval_s):
        refuse(field, rule.overlap, "come with event_count, idle_duration or fixed_interval")
    if rule.event_count and rule.overlap >= rule.event_count:
        refuse(field, rule.overlap, f"be below event_count, which is {rule.event_count}")


@dataclass(frozen=True, kw_only=True)
class Due:
    """Which streams are due.

    Attributes:
        places: Places of these streams in the columns.
        reasons: Why each of them is.
    """

    places: NDArray[np.int64]
    reasons: tuple[Reason, ...]


def find_due(
    columns: Mapping[str, NDArray[Any]],
    now_us: int,
    default: Rule | None = None,
    default_set_us: int = 0,
) -> Due:
    """Find the streams that are due, in one pass over all of them.

    Args:
        columns: One value per stream: `pending` (new events), `newest_us` and `oldest_us` (when
            the newest and the oldest of them was ingested), `is_forced`, `attempts` (how often
            making memories of them has failed), `has_rule`, `event_count`, `idle_s`,
            `interval_s`, `rule_set_us`. Times in microseconds since 1970.
        now_us: The time.
        default: The rule of streams without one of their own; None: they are due at once.
        default_set_us: When it was set.
    """
    has_rule = columns["has_rule"]
    fallback = NO_RULE if default is None else default

    def rule(name: str) -> NDArray[np.int64]:
        own: NDArray[np.int64] = np.where(has_rule, columns[name], getattr(fallback, name))
        return own

    set_us = np.where(has_rule, columns["rule_set_us"], default_set_us)
    pending, newest_us = columns["pending"], columns["newest_us"]
    count, idle_us = rule("event_count"), rule("idle_s") * _MICROSECONDS
    met: dict[Reason, NDArray[np.bool_]] = {
        "force_flush": columns["is_forced"],
        "retry": columns["attempts"] > 0,
        "no_rule": ~has_rule if default is None else np.zeros(len(has_rule), np.bool_),
        "event_count": (count > 0) & (pending >= count),
        "idle_duration": (idle_us > 0) & (now_us - newest_us >= idle_us),
        "fixed_interval": _has_ticked(
            rule("interval_s") * _MICROSECONDS, set_us, columns["oldest_us"], now_us
        ),
        "24_hours": now_us - newest_us >= ABANDONED_AFTER_S * _MICROSECONDS,
    }
    reasons = get_args(Reason)
    table = np.stack([met[reason] for reason in reasons]) & (pending > 0)
    places = np.flatnonzero(table.any(axis=0))
    first = table[:, places].argmax(axis=0)
    return Due(places=places, reasons=tuple(reasons[number] for number in first))


def _has_ticked(
    interval_us: NDArray[np.int64],
    set_us: NDArray[np.int64],
    oldest_us: NDArray[np.int64],
    now_us: int,
) -> NDArray[np.bool_]:
    """Whether a tick, counted from when the rule was set, came after the oldest new event."""
    every = np.where(interval_us > 0, interval_us, 1)
    since = np.maximum(oldest_us, set_us)
    ticked: NDArray[np.bool_] = (interval_us > 0) & (
        (now_us - set_us) // every > (since - set_us) // every
    )
    return ticked
