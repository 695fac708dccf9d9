"""A bound is checked before anything slow starts."""

from typing import Any

import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.limits.control import Bounds
from memorypipe.llm.spec import OFFLINE_URL, ModelSpec, Prices
from memorypipe.pipeline.runs.bounds import BOUND_OPTIONS, make_bounds

_UNPRICED = ModelSpec(base_url="http://127.0.0.1/v1", model="m")
_PRICED = ModelSpec(
    base_url="http://127.0.0.1/v1", model="m", prices=Prices(per_million_in=1, per_million_out=2)
)
_OFFLINE = ModelSpec(base_url=OFFLINE_URL, model="rules")


def test_without_bounds_a_run_has_none() -> None:
    assert make_bounds() == Bounds()


def test_a_cost_needs_the_prices_of_every_model_that_is_asked() -> None:
    assert make_bounds(max_cost=0.5, specs=(_PRICED, _OFFLINE)).max_cost == 0.5
    with pytest.raises(InvalidArgumentError, match=r"--max-cost.*'m'.*has no prices"):
        make_bounds(max_cost=0.5, specs=(_PRICED, _UNPRICED))
    assert make_bounds(max_calls=5, max_tokens=9, specs=(_UNPRICED,)).max_tokens == 9


@pytest.mark.parametrize("name", sorted(BOUND_OPTIONS))
@pytest.mark.parametrize("value", [0, -1, True, "5", float("nan"), float("inf")])
def test_what_can_be_no_bound_is_named_with_its_option(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        make_bounds(**{name: value})
    assert name in str(caught.value)
    assert BOUND_OPTIONS[name] in str(caught.value)
    assert repr(value) in str(caught.value)
