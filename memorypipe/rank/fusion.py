"""From scores to ranks, and from several rankings to one.

Rankings are fused by reciprocal rank: an item scores the sum of 1 / (60 + its rank) over the
rankings that hold it. Only the best `fusion_depth` of each ranking count, so that a search which
ranks everything and one which asks an index for the best fuse the same.
"""

from collections.abc import Hashable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["best_names", "best_places", "by_turns", "fused", "fused_scores", "fusion_depth"]

Scores = NDArray[np.float64]

_Item = TypeVar("_Item", bound=Hashable)

# The constant of the method's authors: how little the first ranks differ from those after.
_DAMPING = 60
_LEAST_DEPTH = 50


def fusion_depth(k: int) -> int:
    """Say how many of each ranking count where `k` are wanted."""
    return max(k, _LEAST_DEPTH)


def best_places(scores: Scores, k: int, *, above: float) -> list[list[int]]:
    """Give, per row, the places of the `k` highest scores above a bound.

    Returns:
        Per row the best first, ties by place.

    Example:
        >>> best_places(np.array([[0.0, 2.0, 3.0, 2.0]]), 3, above=0.0)
        [[2, 1, 3]]
    """
    order, counts = _ranked(scores, k, above)
    return [row[:count] for row, count in zip(order.tolist(), counts.tolist(), strict=True)]


def best_names(
    scores: Scores, names: Sequence[str], k: int, *, among: NDArray[np.int64]
) -> list[str]:
    """Give the names of the `k` highest of some scores, the best first, ties by name.

    Args:
        scores: By place.
        names: Likewise.
        k: Names wanted.
        among: The places to choose from.

    Example:
        >>> best_names(np.array([0.0, 2.0, 3.0, 2.0]), "dcba", 2, among=np.arange(4))
        ['b', 'a']
    """
    found = scores[among]
    if len(found) > k:
        # What is as good as the last of them may go before it by its name.
        is_best = found >= np.partition(found, len(found) - k)[len(found) - k]
        among, found = among[is_best], found[is_best]
    pairs = zip((-found).tolist(), [names[place] for place in among.tolist()], strict=True)
    return [name for _, name in sorted(pairs)[:k]]


def fused_scores(words: Scores, likeness: Scores, k: int) -> Scores:
    """Fuse what was found by words and by vectors, as `fused` does, for many queries at once.

    Args:
        words: One row per query, one column per item; 0 for what was not found.
        likeness: Likewise; minus infinity for what has no vector.
        k: Items wanted.

    Returns:
        One row per query, one column per item; 0 for what neither found.
    """
    depth = fusion_depth(k)
    return _reciprocal(words, depth, 0.0) + _reciprocal(likeness, depth, -np.inf)


def _reciprocal(scores: Scores, depth: int, above: float) -> Scores:
    order, counts = _ranked(scores, depth, above)
    ranks = np.arange(1, order.shape[1] + 1)
    parts = np.where(ranks <= counts[:, None], 1 / (_DAMPING + ranks), 0.0)
    given = np.zeros_like(scores)
    np.put_along_axis(given, order, parts, axis=1)
    return given


def _ranked(scores: Scores, k: int, above: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give the places of the `k` best per row, and how many of them are above the bound."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    counts = np.minimum(np.count_nonzero(scores > above, axis=1), k)
    return order, counts


def fused(rankings: Sequence[Sequence[_Item]], k: int) -> list[tuple[_Item, float]]:
    """Fuse rankings.

    Args:
        rankings: Items that can be ordered, the best first.
        k: Items wanted.

    Returns:
        The `k` best with their scores, the best first, ties in the order of the items.

    Example:
        >>> [item for item, _ in fused([["a", "b"], ["b", "c"]], 2)]
        ['b', 'a']
    """
    depth = fusion_depth(k)
    scores: dict[_Item, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking[:depth], start=1):
            scores[item] = scores.get(item, 0.0) + 1 / (_DAMPING + rank)

    def worst_last(pair: tuple[Any, float]) -> tuple[float, Any]:
        return (-pair[1], pair[0])

    return sorted(scores.items(), key=worst_last)[:k]


def by_turns(rankings: Sequence[Sequence[_Item]]) -> list[_Item]:
    """Unite rankings: the first of each, then the second of each, and so on, each item once.

    Example:
        >>> by_turns([["a", "b"], ["c", "a"]])
        ['a', 'c', 'b']
    """
    deepest = max(map(len, rankings), default=0)
    turns = (items[rank] for rank in range(deepest) for items in rankings if rank < len(items))
    return list(dict.fromkeys(turns))
