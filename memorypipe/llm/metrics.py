"""What a worker counts about its calls: numbers that can be added up over workers and stages.

A *snapshot* is a mapping of JSON values. Its numbers add up, mappings inside it key by key; a
number whose name begins with ``max_`` is the greatest of all instead. So whoever adds a number to
a snapshot need not tell those who merge it.

Latencies are counted in buckets whose bounds grow by a tenth, the same everywhere: percentiles
can still be read after merging, at most 5 % off.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from memorypipe.llm.types import Reply

__all__ = [
    "LATENCY_GROWTH",
    "WorkerMetrics",
    "bucket_end_ms",
    "difference",
    "latencies",
    "merge",
    "percentile",
]

LATENCY_GROWTH = 1.1
"""Each bucket of the latencies ends at so many times the end of the one before; 1 ms ends one."""

_SCALE = 1.0 / math.log(LATENCY_GROWTH)

# Below the first and above the last bucket nobody needs to tell latencies apart: 0.1 ms, 3 h.
_FIRST_BUCKET = -24
_LAST_BUCKET = 170

_GREATEST = "max_"


class WorkerMetrics:
    """Counts the calls of one worker since its start.

    It belongs to one event loop and has no lock.
    """

    __slots__ = (
        "_buckets",
        "_cost",
        "_failures",
        "_hits",
        "_latency_ms",
        "_max_latency_ms",
        "_misses",
        "_replies",
        "_sent",
        "_tokens_in",
        "_tokens_out",
    )

    def __init__(self) -> None:
        self._sent = 0
        self._replies = 0
        self._hits = 0
        self._misses = 0
        self._tokens_in = 0
        self._tokens_out = 0
        self._cost = 0.0
        self._latency_ms = 0.0
        self._max_latency_ms = 0.0
        self._failures: Counter[str] = Counter()
        self._buckets: Counter[int] = Counter()

    def sent(self) -> None:
        """Count a request that goes out."""
        self._sent += 1

    def replied(self, reply: Reply, cost: float) -> None:
        """Count a reply, whether it can be used or not.

        Args:
            reply: What came.
            cost: What it cost, in the currency of the prices; 0 without prices.
        """
        self._replies += 1
        self._tokens_in += reply.prompt_tokens
        self._tokens_out += reply.completion_tokens
        self._cost += cost
        self._took(reply.latency_ms)

    def failed(self, kind: str, latency_ms: float) -> None:
        """Count an attempt to which no reply came.

        Args:
            kind: The class of the failure, e.g. ``"timeout"``, ``"http_429"``.
            latency_ms: From sending to the failure; 0 where nothing was sent.
        """
        self._failures[kind] += 1
        self._took(latency_ms)

    def hit(self) -> None:
        """Count a request that the journal answered."""
        self._hits += 1

    def miss(self) -> None:
        """Count a request that the journal could not answer."""
        self._misses += 1

    def snapshot(self) -> dict[str, Any]:
        """Give all counts so far.

        Returns:
            `attempts` (requests sent), `replies`, `journal_hits`, `journal_misses`, `tokens_in`,
            `tokens_out`, `cost`, `failures` (class to count), `total_latency_ms`,
            `max_latency_ms`, and `latency_ms` (number of a bucket to count, see `bucket_end_ms`).
        """
        return {
            "attempts": self._sent,
            "replies": self._replies,
            "journal_hits": self._hits,
            "journal_misses": self._misses,
            "tokens_in": self._tokens_in,
            "tokens_out": self._tokens_out,
            "cost": self._cost,
            "failures": dict(self._failures),
            "total_latency_ms": self._latency_ms,
            "max_latency_ms": self._max_latency_ms,
            # JSON knows no other keys; copied first, since others than the loop may ask.
            "latency_ms": {str(number): count for number, count in dict(self._buckets).items()},
        }

    def _took(self, latency_ms: float) -> None:
        if latency_ms <= 0:
            return
        number = math.ceil(math.log(latency_ms) * _SCALE)
        self._buckets[min(max(number, _FIRST_BUCKET), _LAST_BUCKET)] += 1
        self._latency_ms += latency_ms
        self._max_latency_ms = max(self._max_latency_ms, latency_ms)


def merge(snapshots: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Add snapshots up.

    Example:
        >>> merge([{"attempts": 1, "max_in_flight": 3}, {"attempts": 2, "max_in_flight": 2}])
        {'attempts': 3, 'max_in_flight': 3}
    """
    merged: dict[str, Any] = {}
    for snapshot in snapshots:
        for name, value in snapshot.items():
            merged[name] = _added(name, merged.get(name), value)
    return merged


def _added(name: str, known: Any, value: Any) -> Any:
    if isinstance(value, Mapping):
        return merge([known or {}, value])
    if known is None:
        return value
    return max(known, value) if name.startswith(_GREATEST) else known + value


def difference(after: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Give what came between two snapshots of the same worker, or of the same workers merged.

    What is the greatest so far can't be told for a part: those numbers are the ones of `after`.

    Example:
        >>> difference({"attempts": 5, "failures": {"timeout": 1}}, {"attempts": 3})
        {'attempts': 2, 'failures': {'timeout': 1}}
    """
    return {name: _subtracted(name, value, before.get(name)) for name, value in after.items()}


def _subtracted(name: str, value: Any, known: Any) -> Any:
    if isinstance(value, Mapping):
        parts = difference(value, known or {})
        return {part: left for part, left in parts.items() if left or part.startswith(_GREATEST)}
    return value if known is None or name.startswith(_GREATEST) else value - known


def bucket_end_ms(number: int) -> float:
    """Give the greatest latency, in milliseconds, that a bucket counts.

    Example:
        >>> bucket_end_ms(0), round(bucket_end_ms(10), 3)
        (1.0, 2.594)
    """
    return float(LATENCY_GROWTH**number)


def percentile(buckets: Mapping[str, int], share: float) -> float | None:
    """Read a percentile from counted latencies.

    Args:
        buckets: `latency_ms` of a snapshot.
        share: Above 0, at most 1: the part of all latencies that is not greater.

    Returns:
        Milliseconds, at most 5 % off; None where nothing was counted.

    Example:
        >>> percentile({"48": 90, "73": 10}, 0.5)
        92.5...
    """
    total = sum(buckets.values())
    seen = 0
    for number, count in sorted((int(number), count) for number, count in buckets.items()):
        seen += count
        if seen >= share * total:
            # The middle of a bucket, as its bounds grow: as far from the one as from the other.
            return bucket_end_ms(number) / math.sqrt(LATENCY_GROWTH)
    return None


def latencies(snapshot: Mapping[str, Any]) -> dict[str, float]:
    """Sum the latencies of a snapshot up for people.

    Returns:
        `p50`, `p90`, `p99` and `max` in milliseconds; empty where nothing was counted.
    """
    buckets: Mapping[str, int] = snapshot.get("latency_ms", {})
    if not buckets:
        return {}
    last = max(int(number) for number in buckets)
    longest_ms = float(snapshot.get("max_latency_ms", 0.0))
    # The longest of a part of the counts may not be the longest of all.
    is_exact = last == _LAST_BUCKET or bucket_end_ms(last - 1) < longest_ms <= bucket_end_ms(last)
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    found = {name: percentile(buckets, share) or 0.0 for name, share in shares.items()}
    if is_exact:
        found = {name: min(value, longest_ms) for name, value in found.items()}
        found["max"] = longest_ms
    return {name: round(value, 3) for name, value in found.items()}
