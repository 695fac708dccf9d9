"""Where each scope stands in an order that only a seed decides: samples, and commits in parts.

The same seed puts a scope at the same place in every log and plan, so that a smaller sample lies
within a larger one.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from memorypipe import ids
from memorypipe.errors import InvalidArgumentError

__all__ = ["PLACES", "places_below", "scope_places"]

#: One more than the last place: small enough for every reader of JSON.
PLACES = 1 << 48

_BYTES = 6


def scope_places(scope_keys: Iterable[str], seed: int = 0) -> Any:
    """Give each scope its place.

    Args:
        scope_keys: As from `memorypipe.ids.scope_key`.
        seed: Decides the order.

    Returns:
        numpy int64, from 0 to below `PLACES`, in the order of the keys.

    Example:
        >>> both = scope_places(["a", "b"])
        >>> bool(both[0] == scope_places(["a"])[0] != scope_places(["a"], seed=1)[0])
        True
    """
    places = (
        int.from_bytes(ids.digest("sample", seed, key, size=_BYTES), "big") for key in scope_keys
    )
    return np.fromiter(places, np.int64)


def places_below(sample: float) -> int:
    """Give the place that ends a sample: the scopes before it belong to it.

    Args:
        sample: Share of the scopes, more than 0 and at most 1.

    Raises:
        InvalidArgumentError: For any other number.

    Example:
        >>> places_below(1.0) == PLACES
        True
    """
    is_number = isinstance(sample, int | float) and not isinstance(sample, bool)
    if not is_number or not 0 < sample <= 1:
        raise InvalidArgumentError(
            f"sample must be a share of the scopes, more than 0 and at most 1, got {sample!r}."
        )
    return round(sample * PLACES)
