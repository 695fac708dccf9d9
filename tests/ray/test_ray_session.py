"""The Ray that a command starts keeps what it does to itself."""

import os

import pytest

from memorypipe.cli.ray_session import ray_session
from memorypipe.ray_start import ensure_ray


@pytest.mark.usefixtures("ray_2_cpus")
def test_ray_reports_its_use_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED")
    with ray_session(None):
        assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


@pytest.mark.usefixtures("ray_2_cpus")
def test_who_wants_to_report_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "1")
    with ray_session(None):
        assert os.environ["RAY_USAGE_STATS_ENABLED"] == "1"


@pytest.mark.usefixtures("ray_2_cpus")
def test_ray_that_runs_already_is_taken_as_it_is() -> None:
    with ray_session(None, on_start=lambda: pytest.fail("It runs.")):
        ensure_ray()
