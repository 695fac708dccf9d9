"""What a worker does to the process that it lives in."""

import gc
from typing import Any

import pytest
import ray

from memorypipe.expressions.worker_process import worker_of
from memorypipe.llm.spec import OFFLINE_MODEL, OFFLINE_URL, ModelSpec

SPEC = ModelSpec(base_url=OFFLINE_URL, model=OFFLINE_MODEL)


class Process:
    """An actor that makes a worker and says how many objects the collector leaves alone."""

    def frozen(self) -> int:
        worker_of(SPEC)
        return gc.get_freeze_count()


@pytest.mark.usefixtures("ray_2_cpus")
def test_the_collector_leaves_what_is_loaded_alone_in_an_actor_and_nowhere_else() -> None:
    before = gc.get_freeze_count()
    assert Process().frozen() == before
    actor: Any = ray.remote(Process).options(num_cpus=0).remote()
    try:
        assert ray.get(actor.frozen.remote()) > 10_000
    finally:
        ray.kill(actor)
