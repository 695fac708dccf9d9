"""Fixtures of several folders."""

import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

# How fast an example runs says something about the machine and nothing about the rule.
settings.register_profile("memorypipe", deadline=None)
settings.load_profile("memorypipe")

# Ray reports its use to its makers unless told not to; tests talk to this machine alone.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"


@pytest.fixture(scope="session")
def ray_2_cpus() -> Iterator[None]:
    """Ray on two CPUs, started once: the smallest machine that the expressions must run on."""
    import ray  # noqa: PLC0415  # most tests need no Ray, and it is slow to import

    ray.init(
        address="local",  # not whatever cluster was on the machine last
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


@pytest.fixture
def commands_share_ray(ray_2_cpus: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001  # starts it
    """Commands join the Ray of the tests, as on a cluster: starting one takes seconds each time."""
    import ray  # noqa: PLC0415  # as above

    monkeypatch.setenv("RAY_ADDRESS", ray.get_runtime_context().gcs_address)
