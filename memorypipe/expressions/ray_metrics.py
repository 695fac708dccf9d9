"""What a worker counted, as metrics of Ray: they show wherever the cluster's own ones do.

Ray exports metrics through its agent, which comes with ``ray[default]``; without it they lead
nowhere and cost next to nothing.
"""

import math
import threading
from collections.abc import Mapping
from typing import Any

import ray
from ray.util import metrics as ray_registry

from memorypipe.llm.metrics import LATENCY_GROWTH, bucket_end_ms, difference
from memorypipe.llm.worker import Worker

__all__ = ["RayMetrics", "publish"]

_TAGS = ("endpoint", "model")

# As Ray shows latencies: about twice as long from bound to bound.
_BOUNDARIES_MS = tuple(round(bucket_end_ms(number), 3) for number in range(0, 141, 7))

_COUNTERS = {
    "calls": ("Requests answered, by the journal too.", ()),
    "attempts": ("Requests sent.", ()),
    "failures": ("Attempts that failed, by class.", ("kind",)),
    "tokens": ("Prompt and completion tokens.", ("direction",)),
    "journal_hits": ("Requests that the journal answered.", ()),
}


class RayMetrics:
    """Publishes what came between one snapshot of a worker and the next.

    Not one call by one: a worker publishes after each block.

    Args:
        endpoint: Tag `endpoint` of all metrics; never with a secret, as `ModelSpec.endpoint`.
        model: Tag `model`.
        registry: Has `Counter`, `Gauge` and `Histogram` as ``ray.util.metrics`` has them.
    """

    def __init__(self, *, endpoint: str, model: str, registry: Any = ray_registry) -> None:
        self._before: Mapping[str, Any] = {}
        tags = {"endpoint": endpoint, "model": model}
        self._counters = {
            name: registry.Counter(f"memorypipe_{name}", what, (*_TAGS, *more))
            for name, (what, more) in _COUNTERS.items()
        }
        self._in_flight = registry.Gauge("memorypipe_in_flight", "Requests under way.", _TAGS)
        self._latency = registry.Histogram(
            "memorypipe_latency_ms",
            "Of attempts, from sending to the last byte.",
            boundaries=list(_BOUNDARIES_MS),
            tag_keys=_TAGS,
        )
        for metric in (*self._counters.values(), self._in_flight, self._latency):
            metric.set_default_tags(tags)

    def publish(self, snapshot: Mapping[str, Any]) -> None:
        """Publish what is new since the last time.

        Args:
            snapshot: Of the worker, as `memorypipe.llm.metrics.WorkerMetrics` gives it, with
                `in_flight` where it is known.
        """
        new = difference(snapshot, self._before)
        self._before = dict(snapshot)
        self._count("calls", new.get("replies", 0) + new.get("journal_hits", 0))
        self._count("attempts", new.get("attempts", 0))
        self._count("journal_hits", new.get("journal_hits", 0))
        for direction in ("in", "out"):
            self._count("tokens", new.get(f"tokens_{direction}", 0), direction=direction)
        for kind, count in new.get("failures", {}).items():
            self._count("failures", count, kind=kind)
        for number, count in new.get("latency_ms", {}).items():
            middle_ms = bucket_end_ms(int(number)) / math.sqrt(LATENCY_GROWTH)
            for _ in range(count):
                self._latency.observe(middle_ms)
        if "in_flight" in snapshot:
            self._in_flight.set(snapshot["in_flight"])

    def _count(self, name: str, count: float, **tags: str) -> None:
        # Ray takes no zero.
        if count > 0:
            self._counters[name].inc(count, tags=tags or None)


_published: dict[str, RayMetrics] = {}
_publishing = threading.Lock()


def publish(worker: Worker) -> None:
    """Publish what a worker of this process has counted, where Ray runs; thread-safe."""
    if not ray.is_initialized():
        return
    spec = worker.spec
    with _publishing:
        metrics = _published.get(spec.key())
        if metrics is None:
            metrics = RayMetrics(endpoint=spec.endpoint, model=spec.model)
            _published[spec.key()] = metrics
        metrics.publish(worker.snapshot())
