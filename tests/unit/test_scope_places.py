"""The order of scopes that samples and commits in parts go by."""

import numpy as np
import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.pipeline.runs.scope_places import PLACES, places_below, scope_places

KEYS = [f"scope {number}" for number in range(2_000)]


def test_a_place_depends_on_the_scope_and_the_seed_alone() -> None:
    places = scope_places(KEYS)
    assert scope_places(KEYS[::-1])[::-1].tolist() == places.tolist()
    assert np.count_nonzero(scope_places(KEYS, seed=7) == places) == 0


@pytest.mark.parametrize("seed", [0, 7])
def test_samples_have_their_share_and_lie_within_larger_ones(seed: int) -> None:
    places = scope_places(KEYS, seed)
    small, large = places < places_below(0.1), places < places_below(0.3)
    assert 0.08 < small.mean() < 0.12
    assert 0.27 < large.mean() < 0.33
    assert not (small & ~large).any()
    assert (places < places_below(1)).all()
    assert places.max() < PLACES


@pytest.mark.parametrize("sample", [0, -0.1, 1.1, True, "5%", float("nan")])
def test_what_is_no_share_is_refused(sample: float) -> None:
    with pytest.raises(InvalidArgumentError, match="more than 0 and at most 1"):
        places_below(sample)
