"""What a worker counts reaches Ray's metrics."""

import pytest

from memorypipe import MemoryExtract
from memorypipe.expressions import ray_metrics


@pytest.mark.usefixtures("ray_2_cpus")
def test_a_block_is_published_when_it_is_done() -> None:
    extract = MemoryExtract(base_url="offline:", model="offline-rules", repeat_key="metrics")
    extract(["[user]: I like tea.", "[user]: I like coffee.", None])
    metrics = ray_metrics._published[extract.spec.key()]
    assert metrics._before["attempts"] == 2
    extract(["[user]: I like water."])
    assert metrics._before["attempts"] == 3
