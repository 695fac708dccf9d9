"""BM25 over the memories of one scope: kept up as they change, or all at once."""

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from memorypipe.rank.fusion import best_names
from memorypipe.rank.memory import Memory
from memorypipe.rank.words import find_words, tokens

__all__ = ["KeywordIndex", "keyword_scores"]

# BM25's usual constants: how fast repetition saturates, how much length counts.
_K1 = 1.2
_B = 0.75

# So few memories that half of them may well share a word that counts.
_FEW = 10


def _rarity(count_all: int, holders: int) -> float:
    """Say how much a word tells; 0 for one that more than half of the memories hold."""
    if count_all > _FEW and 2 * holders > count_all:
        return 0.0
    return math.log1p((count_all - holders + 0.5) / (holders + 0.5))


class KeywordIndex:
    """BM25 over the memories of one scope, kept up as they change.

    A word that more than half of the memories hold tells nothing and is passed over.

    Args:
        memories: What it holds at first.

    Example:
        >>> tea, cat = Memory(id="m1", text="Likes tea"), Memory(id="m2", text="Owns a cat")
        >>> KeywordIndex([tea, cat]).best("likes green tea", 5)
        ['m1']
    """

    def __init__(self, memories: Iterable[Memory] = ()) -> None:
        self._ids: list[str] = []  # by place; those of memories that have gone stay
        self._lengths: list[int] = []  # likewise
        self._places: dict[str, int] = {}
        self._total_length = 0
        # Of each word the places of the memories that hold it, and how often they do.
        self._holders: dict[str, tuple[array[int], array[int]]] = {}
        self._dampings: NDArray[Any] | None = None  # as of the last change
        for memory in memories:
            self.add(memory)

    def add(self, memory: Memory) -> None:
        """Take a memory in; its id must not be held yet."""
        words = tokens(memory.text)
        place = self._places[memory.id] = len(self._ids)
        self._ids.append(memory.id)
        self._lengths.append(len(words))
        self._total_length += len(words)
        for word, count in Counter(words).items():
            places, counts = self._holders.setdefault(word, (array("q"), array("q")))
            places.append(place)
            counts.append(count)
        self._dampings = None

    def remove(self, memory: Memory) -> None:
        """Forget a memory, given as it was taken in."""
        place = self._places.pop(memory.id)
        self._total_length -= self._lengths[place]
        for word in set(tokens(memory.text)):
            places, counts = self._holders[word]
            at = places.index(place)
            del places[at], counts[at]
        self._dampings = None

    def best(self, query: str, k: int) -> list[str]:
        """Give the ids of the `k` best memories that share a word, the best first, ties by id."""
        told: list[float] = []
        found: list[tuple[array[int], array[int]]] = []
        # Sorted, so that the sum, and with it a tie, comes out the same in every process.
        for word in sorted(set(tokens(query)) & self._holders.keys()):
            holding = self._holders[word]
            if rarity := _rarity(len(self._places), len(holding[0])):
                told.append(rarity)
                found.append(holding)
        if not found:
            return []
        sizes = [len(places) for places, _ in found]
        places = np.concatenate([np.frombuffer(each, np.int64) for each, _ in found])
        counts = np.concatenate([np.frombuffer(each, np.int64) for _, each in found])
        weights = np.repeat(told, sizes) * counts * (_K1 + 1)
        weights /= counts + self._length_dampings()[places]
        scores: NDArray[Any] = np.bincount(places, weights, minlength=len(self._ids))
        return best_names(scores, self._ids, k, among=np.flatnonzero(scores))

    def _length_dampings(self) -> NDArray[Any]:
        """Say per place how much the length of its memory takes off a word's weight."""
        if self._dampings is None:
            slope = _K1 * _B * len(self._places) / max(self._total_length, 1)
            self._dampings = _K1 * (1 - _B) + slope * np.array(self._lengths)
        return self._dampings


def keyword_scores(
    texts: pa.ChunkedArray,
    starts: NDArray[np.int64],
    queries: Sequence[str],
    scopes: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Score all texts of some scopes for some queries, to the bit as a `KeywordIndex` of each does.

    Args:
        texts: All texts of all scopes, scope after scope; strings, no nulls.
        starts: Number of the first text of each scope, and at the end the number of all texts.
        queries: What is looked for.
        scopes: Number of the scope that each query is about.

    Returns:
        One row per query; its columns are the texts of its scope, and zeros up to the size of the
        largest. 0 where they share no word that tells.

    Example:
        >>> texts = pa.chunked_array([["Likes tea", "Owns a cat", "Drinks tea"]])
        >>> starts = np.array([0, 2, 3])
        >>> (keyword_scores(texts, starts, ["green tea"], np.array([0])) > 0).tolist()
        [[True, False]]
    """
    sizes = np.diff(starts)
    width = int(sizes.max(initial=0))
    asked = [sorted(set(tokens(query))) for query in queries]
    number: dict[tuple[int, str], int] = {}
    for scope, each in zip(scopes.tolist(), asked, strict=True):
        for word in each:
            number.setdefault((scope, word), len(number))
    if not number or not width:
        return np.zeros((len(queries), width))
    word_scopes = np.array([scope for scope, _ in number], np.int64)
    text_scopes = np.repeat(np.arange(len(sizes)), sizes)
    found = find_words(texts, text_scopes, [word for _, word in number], word_scopes)
    cells, counts = np.unique(found.words * len(texts) + found.texts, return_counts=True)
    words, holding = np.divmod(cells, len(texts))
    holders = np.bincount(words, minlength=len(number))
    weights = _rarities(sizes[word_scopes], holders)[words] * counts * (_K1 + 1)
    weights /= counts + _dampings(found.lengths, starts)[holding]
    # Word by word in their order: the sum comes out as in an index.
    links = [
        (query, number[scope, word])
        for query, (scope, each) in enumerate(zip(scopes.tolist(), asked, strict=True))
        for word in each
    ]
    of_query, of_word = np.array(links, np.int64).T
    first = np.concatenate([[0], np.cumsum(holders)])
    spans = holders[of_word]
    picked = np.arange(spans.sum()) + np.repeat(first[of_word] - np.cumsum(spans) + spans, spans)
    columns = holding[picked] - starts[text_scopes[holding[picked]]]
    place = np.repeat(of_query, spans) * width + columns
    scores: NDArray[Any] = np.bincount(place, weights[picked], minlength=len(queries) * width)
    return scores.reshape(len(queries), width)


def _rarities(sizes: NDArray[np.int64], holders: NDArray[np.int64]) -> NDArray[np.float64]:
    """Say how much words tell, in scopes of these sizes."""
    pairs, place = np.unique(np.stack([sizes, holders]), axis=1, return_inverse=True)
    values = [_rarity(size, count) for size, count in pairs.T.tolist()]
    return np.array(values)[place]


def _dampings(lengths: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Say per text how much its length takes off a word's weight, in its scope."""
    totals = np.diff(np.concatenate([[0], np.cumsum(lengths)])[starts])
    sizes = np.diff(starts)
    slopes = _K1 * _B * sizes / np.maximum(totals, 1)
    dampings: NDArray[np.float64] = _K1 * (1 - _B) + np.repeat(slopes, sizes) * lengths
    return dampings
