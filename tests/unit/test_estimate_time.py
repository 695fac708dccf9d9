"""A stage takes as long as the limit that binds makes it."""

import pytest

from memorypipe.pipeline.estimates.time import Limits, Load, Pace, phase_time


def load(**changes: float) -> Load:
    return Load(**{"calls": 600, "tokens": 900_000, "latency_s": 2.0, "cpu_s": 0.01, **changes})


@pytest.mark.parametrize(
    ("limits", "changes", "pace"),
    [
        ({"concurrency": 10}, {}, Pace(wall_s=122.0, limit="max_concurrency")),
        ({"concurrency": 64, "max_qps": 2.0}, {}, Pace(wall_s=302.0, limit="max_qps")),
        (
            {"concurrency": 64, "max_tokens_per_minute": 90_000},
            {},
            Pace(wall_s=602.0, limit="max_tokens_per_minute"),
        ),
        (
            {"concurrency": 64},
            {"longest_chain": 101, "chains": 6},
            Pace(wall_s=208.0, limit="longest_scope"),
        ),
        ({"concurrency": 64}, {"latency_s": 0.0}, Pace(wall_s=6.0, limit="workers")),
        ({"concurrency": 64, "workers": 3}, {"latency_s": 0.0}, Pace(wall_s=2.0, limit="workers")),
        ({"concurrency": 1}, {"calls": 0}, Pace(wall_s=0.0, limit="nothing")),
    ],
)
def test_the_slowest_bound_binds(
    limits: dict[str, float], changes: dict[str, float], pace: Pace
) -> None:
    assert phase_time(load(**changes), Limits(**limits)) == pace  # type: ignore[arg-type]  # numbers
