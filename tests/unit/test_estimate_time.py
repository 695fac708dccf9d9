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
            Pace(wall_s=203.0, limit="longest_scope"),
        ),
        ({"concurrency": 64}, {"latency_s": 0.0}, Pace(wall_s=6.0, limit="workers")),
        ({"concurrency": 64, "workers": 3}, {"latency_s": 0.0}, Pace(wall_s=2.0, limit="workers")),
        ({"concurrency": 1}, {"calls": 0}, Pace(wall_s=0.0, limit="nothing")),
    ],
)
def test_the_slowest_bound_binds(
    limits: dict[str, float], changes: dict[str, float], pace: Pace
) -> None:
    assert phase_time(Limits(**limits), load(**changes)) == pace  # type: ignore[arg-type]  # numbers


@pytest.mark.parametrize(
    ("decisions", "limits", "pace"),
    [
        # The windows of the longest chain are extracted once, then its decisions follow.
        ({"longest_chain": 101, "chains": 6}, {}, Pace(wall_s=205.01, limit="longest_scope")),
        ({"longest_chain": 3, "chains": 200}, {}, Pace(wall_s=39.5, limit="max_concurrency")),
        ({}, {"max_qps": 2.0}, Pace(wall_s=602.0, limit="max_qps")),
        ({"calls": 0}, {"max_qps": 2.0}, Pace(wall_s=302.0, limit="max_qps")),
        ({}, {"max_tokens_per_minute": 90_000}, Pace(wall_s=1202.0, limit="max_tokens_per_minute")),
        ({"calls": 6_000, "cpu_s": 0.1}, {}, Pace(wall_s=608.0, limit="workers")),
    ],
)
def test_stages_at_the_same_time_share_the_limits(
    decisions: dict[str, float], limits: dict[str, float], pace: Pace
) -> None:
    shared = Limits(concurrency=64, **limits)  # type: ignore[arg-type]  # numbers
    assert phase_time(shared, load(), load(**decisions)) == pace


def test_chains_that_work_more_than_they_wait_wait_for_each_other() -> None:
    found = phase_time(Limits(concurrency=64), load(longest_chain=12, chains=60, cpu_s=0.1))
    assert found == Pace(wall_s=68.0, limit="longest_scope")
