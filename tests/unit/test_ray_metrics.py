"""Ray's metrics grow by what is new in a worker's snapshot, and by nothing else."""

from collections import Counter
from typing import Any

import pytest

from memorypipe.expressions.ray_metrics import RayMetrics
from memorypipe.llm.metrics import WorkerMetrics
from memorypipe.llm.types import Reply

_TAGS = {"endpoint": "http://host/v1", "model": "m"}


class Recorded:
    """A metric as Ray's registry makes them, that remembers what it was told."""

    def __init__(
        self,
        name: str,
        description: str = "",
        tag_keys: tuple[str, ...] = (),
        boundaries: list[float] | None = None,
    ) -> None:
        assert description
        self.name = name
        self.tag_keys = tag_keys
        self.boundaries = boundaries
        self.default_tags: dict[str, str] = {}
        self.total: Counter[str] = Counter()
        self.values: list[float] = []

    def set_default_tags(self, tags: dict[str, str]) -> None:
        assert set(tags) <= set(self.tag_keys)
        self.default_tags = tags

    def inc(self, value: float = 1.0, tags: dict[str, str] | None = None) -> None:
        assert value > 0
        assert set(tags or {}) <= set(self.tag_keys)
        self.total[",".join((tags or {}).values())] += value  # type: ignore[assignment]  # floats

    def set(self, value: float) -> None:
        self.values.append(value)

    def observe(self, value: float) -> None:
        assert value > 0
        self.values.append(value)


class Registry:
    """Stands where ``ray.util.metrics`` stands."""

    def __init__(self) -> None:
        self.made: dict[str, Recorded] = {}
        self.Counter = self.Gauge = self.Histogram = self._make

    def _make(self, *args: Any, **kwargs: Any) -> Recorded:
        metric = Recorded(*args, **kwargs)
        self.made[metric.name.removeprefix("memorypipe_")] = metric
        return metric


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def published(registry: Registry) -> RayMetrics:
    return RayMetrics(endpoint="http://host/v1", model="m", registry=registry)


def test_every_metric_is_tagged_with_endpoint_and_model(
    registry: Registry, published: RayMetrics
) -> None:
    assert published
    assert {name: metric.default_tags for name, metric in registry.made.items()} == dict.fromkeys(
        (
            *("calls", "attempts", "failures", "tokens", "journal_hits"),
            *("in_flight", "latency_ms"),
        ),
        _TAGS,
    )


def test_only_what_is_new_is_added(registry: Registry, published: RayMetrics) -> None:
    metrics = WorkerMetrics()
    for _ in range(3):
        metrics.sent()
    metrics.replied(Reply(content="", prompt_tokens=7, completion_tokens=2, latency_ms=100), 0)
    metrics.failed("timeout", 500.0)
    metrics.hit()
    published.publish({**metrics.snapshot(), "in_flight": 1})
    metrics.failed("http_429", 1.0)
    published.publish({**metrics.snapshot(), "in_flight": 0})
    published.publish({**metrics.snapshot(), "in_flight": 0})
    totals = {name: dict(metric.total) for name, metric in registry.made.items() if metric.total}
    assert totals == {
        "calls": {"": 2},
        "attempts": {"": 3},
        "journal_hits": {"": 1},
        "tokens": {"in": 7, "out": 2},
        "failures": {"timeout": 1, "http_429": 1},
    }
    assert registry.made["in_flight"].values == [1, 0, 0]
    assert registry.made["latency_ms"].values == pytest.approx([100, 500, 1], rel=0.05)


def test_the_bounds_of_the_histogram_grow(registry: Registry, published: RayMetrics) -> None:
    assert published
    bounds = registry.made["latency_ms"].boundaries or []
    assert bounds == sorted(set(bounds))
    assert bounds[0] == 1.0
    assert bounds[-1] > 300_000


def test_rays_own_registry_takes_what_is_published() -> None:
    published = RayMetrics(endpoint="e", model="m")
    metrics = WorkerMetrics()
    metrics.sent()
    metrics.failed("timeout", 5.0)
    published.publish({**metrics.snapshot(), "in_flight": 2})
