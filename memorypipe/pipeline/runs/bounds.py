"""Where a run stops: the bounds that a user sets, checked before anything slow."""

import math
from collections.abc import Iterable

from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.limits.control import Bounds
from memorypipe.llm.spec import OFFLINE_URL, ModelSpec

__all__ = ["BOUND_OPTIONS", "make_bounds"]

#: Names of the bounds, and of the options that set them.
BOUND_OPTIONS = {
    "max_calls": "--max-calls",
    "max_tokens": "--max-total-tokens",
    "max_cost": "--max-cost",
}


def make_bounds(
    *,
    max_calls: int | None = None,
    max_tokens: int | None = None,
    max_cost: float | None = None,
    specs: Iterable[ModelSpec] = (),
) -> Bounds:
    """Check the bounds of a run.

    Args:
        max_calls: Requests sent, from 1; None for no bound.
        max_tokens: Prompt and completion tokens, from 1.
        max_cost: Above 0, in the currency of the prices.
        specs: The models that are asked; for a cost each needs prices. The rule-based model
            costs nothing, and no bound stops it.

    Raises:
        InvalidArgumentError: For a number that cannot be a bound, or a cost without prices.

    Example:
        >>> make_bounds(max_calls=100)
        Bounds(max_calls=100, max_tokens=None, max_cost=None)
    """
    _check_count("max_calls", max_calls)
    _check_count("max_tokens", max_tokens)
    if max_cost is not None:
        if isinstance(max_cost, bool) or not isinstance(max_cost, int | float):
            raise _no_bound("max_cost", max_cost, "a number above 0")
        if not 0 < max_cost < math.inf:
            raise _no_bound("max_cost", max_cost, "a number above 0")
        _check_prices(specs)
    return Bounds(max_calls=max_calls, max_tokens=max_tokens, max_cost=max_cost)


def _check_count(name: str, value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _no_bound(name, value, "a whole number from 1")


def _no_bound(name: str, value: object, wanted: str) -> InvalidArgumentError:
    option = BOUND_OPTIONS[name]
    return InvalidArgumentError(
        f"{name} ({option}) must be {wanted}, or left out for no bound, got {value!r}."
    )


def _check_prices(specs: Iterable[ModelSpec]) -> None:
    for spec in specs:
        if spec.base_url != OFFLINE_URL and spec.prices is None:
            raise InvalidArgumentError(
                f"max_cost (--max-cost) needs to know what tokens cost, but {spec.model!r} at "
                f"{spec.endpoint!r} has no prices. Give its prices per million tokens, or bound "
                f"calls (max_calls, --max-calls) or tokens (max_tokens, --max-total-tokens)."
            )
