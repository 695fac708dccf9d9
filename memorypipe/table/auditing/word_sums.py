"""Numbers for texts, so that texts which may say the same have equal ones. Pure.

A million texts are too many for a look at each pair, or for an object per word. Here the words of
all texts of a batch become numbers at once, and those of each text are added up. Equal numbers say
that a closer look is worth it, no more.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memorypipe.evidence.lexicon import STOP_WORDS
from memorypipe.evidence.likeness import near_key

__all__ = ["WordSums", "mixed", "string_numbers", "word_sums"]

Numbers = NDArray[np.uint64]
_Places = NDArray[np.int64]

# A number for a run of bytes: a polynomial in an odd number, whose powers can be divided by again.
_BASE = 0x9E3779B97F4A7C15
_BASE_INVERSE = pow(_BASE, -1, 1 << 64)
_MIXERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_PLACE = np.uint64(0xD6E8FEB86659FD93)

_NO_ASCII = 128
_IS_WORD = np.array([b >= _NO_ASCII or chr(b).isalnum() for b in range(256)])
_IS_DIGIT = np.array([chr(b).isdigit() and b < _NO_ASCII for b in range(256)])
_IS_ENDING = np.array([chr(b) in "deiy" for b in range(256)])
_STEM_BYTES = 5
_SHORTEST_PLURAL = 4

# Fewer words than this are found in too many texts.
_LEAST_LEFT = 3


@dataclass(frozen=True, kw_only=True)
class WordSums:
    """Numbers for the texts of a batch.

    Attributes:
        near: Equal where `memorypipe.evidence.likeness.near_key` is.
        content: Equal where the words that say something are, whatever their order and most of
            their endings; figures and negations are none of them.
        words: Words of each text, all of them.
        content_words: Of these, the ones that say something.
        without_one: What `content` would be without one of the words; none for short texts.
        without_rows: The place of the text that each number of `without_one` is about.
    """

    near: Numbers
    content: Numbers
    words: NDArray[np.int64]
    content_words: NDArray[np.int64]
    without_one: Numbers
    without_rows: _Places


def word_sums(texts: pa.Array) -> WordSums:
    """Number the texts of a batch.

    Args:
        texts: Strings without nulls.
    """
    held = _Words(_lower(texts))
    words = np.bincount(held.texts, minlength=len(texts))
    keeps = _says_something(held)
    texts_of, stems = held.texts[keeps], mixed(held.stems()[keeps])
    content = _sums(stems, texts_of, len(texts))
    counts = np.bincount(texts_of, minlength=len(texts))
    is_long = counts[texts_of] > _LEAST_LEFT
    return WordSums(
        near=_in_order(held, len(texts)),
        content=content,
        words=words,
        content_words=counts,
        without_one=content[texts_of[is_long]] - stems[is_long],
        without_rows=texts_of[is_long],
    )


def string_numbers(strings: pa.Array) -> Numbers:
    """Give one number for each string; other strings have other ones.

    Args:
        strings: Strings; a null counts as "".
    """
    data, edges = _bytes(pc.fill_null(strings, ""))
    return mixed(_Bytes(data).numbers(edges[:-1], edges[1:]))


def mixed(numbers: Numbers) -> Numbers:
    """Mix the bits of numbers, so that sums of them say which ones were added."""
    result = numbers ^ (numbers >> _SHIFTS[0])
    result = result * _MIXERS[0]
    result ^= result >> _SHIFTS[1]
    result *= _MIXERS[1]
    result ^= result >> _SHIFTS[2]
    return result


def _lower(texts: pa.Array) -> pa.Array:
    """Bring texts to lower case; those that are no ASCII to what is left of them to compare."""
    plain = pc.string_is_ascii(texts)
    lower = pc.ascii_lower(texts)
    if pc.all(plain).as_py():
        return lower
    others = pc.invert(plain)
    keys = [near_key(text) for text in texts.filter(others).to_pylist()]
    return pc.replace_with_mask(lower, others, pa.array(keys, pa.string()))


def _bytes(strings: pa.Array) -> tuple[NDArray[np.uint8], _Places]:
    """Give the bytes of all strings, and where each begins and the last one ends."""
    strings = strings.cast(pa.large_string())
    edges: Any = np.frombuffer(strings.buffers()[1], np.int64)
    edges = edges[strings.offset : strings.offset + len(strings) + 1]
    data: Any = np.frombuffer(strings.buffers()[2] or b"", np.uint8)
    if not len(strings):
        return data[:0], np.zeros(1, np.int64)
    return data[edges[0] : edges[-1]], edges - edges[0]


class _Bytes:
    """Bytes, any runs of which can be numbered."""

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self.data = data
        powers, self._inverses = _powers(_capacity(len(data)))
        self._sums = np.zeros(len(data) + 1, np.uint64)
        # A zero byte counts, so that runs of several lengths differ.
        np.cumsum((data + np.uint64(1)) * powers[: len(data)], out=self._sums[1:])

    def numbers(self, starts: _Places, ends: _Places) -> Numbers:
        """Give one number per run: a polynomial of its bytes, wherever it stands."""
        found: Numbers = (self._sums[ends] - self._sums[starts]) * self._inverses[starts]
        return found

    def holds(self, mask: NDArray[np.bool_], starts: _Places, ends: _Places) -> NDArray[np.bool_]:
        """Tell which runs hold a byte that the mask names."""
        if not mask.any():
            return np.zeros(len(starts), np.bool_)
        counts = np.concatenate([[0], np.cumsum(mask, dtype=np.int32)])
        return counts[ends] > counts[starts]


class _Words:
    """The words of texts: where they are, and in which text.

    Args:
        texts: In lower case.

    Attributes:
        texts: Number of the text that each word stands in.
        numbers: Of each word.
    """

    def __init__(self, texts: pa.Array) -> None:
        data, edges = _bytes(texts)
        is_word = _IS_WORD[data]
        # A word ends with its text, even where the next text begins with one.
        is_edge = np.zeros(len(data) + 1, np.bool_)
        is_edge[edges] = True
        before, after = np.zeros_like(is_word), np.zeros_like(is_word)
        before[1:], after[:-1] = is_word[:-1], is_word[1:]
        self._starts = np.flatnonzero(is_word & (~before | is_edge[:-1]))
        self._ends = np.flatnonzero(is_word & (~after | is_edge[1:])) + 1
        # Where a text is empty several begin at one place: the last of them has the word.
        self.texts = np.searchsorted(edges, self._starts, side="right") - 1
        self._held = _Bytes(data)
        self.numbers = self._held.numbers(self._starts, self._ends)

    def stems(self) -> Numbers:
        """Give a number for what most endings leave alone of each word, as `content_words` does."""
        data, starts, ends = self._held.data, self._starts, self._ends
        is_plural = (data[ends - 1] == ord("s")) & (ends - starts >= _SHORTEST_PLURAL)
        ends = ends - is_plural
        # Letters of other scripts take several bytes: their words stay whole.
        is_plain = ~self._held.holds(data >= _NO_ASCII, starts, ends)
        ends = np.where(is_plain, np.minimum(ends, starts + _STEM_BYTES), ends)
        whole = ends
        for _ in range(_STEM_BYTES):
            ends = ends - (is_plain & (ends > starts) & _IS_ENDING[data[ends - 1]])
        return self._held.numbers(starts, np.where(ends > starts, ends, whole))

    def has_digit(self) -> NDArray[np.bool_]:
        return self._held.holds(_IS_DIGIT[self._held.data], self._starts, self._ends)


def _capacity(size: int) -> int:
    """Round up, so that the powers are worked out for a few sizes only."""
    return 1 << max(size, 1).bit_length()


@lru_cache(maxsize=2)
def _powers(size: int) -> tuple[Numbers, Numbers]:
    found = []
    for base in (_BASE, _BASE_INVERSE):
        factors = np.full(size + 1, base, np.uint64)
        factors[0] = 1
        found.append(np.cumprod(factors))
    return found[0], found[1]


def _numbers_of(words: list[str]) -> Numbers:
    data, edges = _bytes(pa.array(words, pa.string()))
    return _Bytes(data).numbers(edges[:-1], edges[1:])


_USER = _numbers_of(["user"])[0]
_NEGATIONS = (
    "never without none neither nor cannot longer isn aren wasn weren hasn haven hadn wouldn "
    "shouldn couldn doesn don won ain"
)


class _Set:
    """A few numbers, to be found among very many."""

    def __init__(self, numbers: Numbers) -> None:
        self._sorted = np.unique(numbers)
        # Nearly all numbers are none of them; a table of marks tells so at once.
        self._marks = np.zeros(1 << _MARK_BITS, np.bool_)
        self._marks[numbers >> _MARK_SHIFT] = True

    def has(self, numbers: Numbers) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self._marks[numbers >> _MARK_SHIFT]
        places = np.flatnonzero(found)
        some = numbers[places]
        slots = np.minimum(np.searchsorted(self._sorted, some), len(self._sorted) - 1)
        found[places] = self._sorted[slots] == some
        return found


_MARK_BITS = 16
_MARK_SHIFT = np.uint64(64 - _MARK_BITS)
_FILLERS = _Set(_numbers_of(["a", "an", "the"]))
_SAYS_NOTHING = _Set(_numbers_of([*sorted(STOP_WORDS), *_NEGATIONS.split()]))


def _says_something(held: _Words) -> NDArray[np.bool_]:
    return ~(_SAYS_NOTHING.has(held.numbers) | held.has_digit())


def _in_order(held: _Words, count: int) -> Numbers:
    """Add up the words of each text with their places, "the user" before them left out."""
    numbers = held.numbers
    keeps = ~_FILLERS.has(numbers)
    while True:
        kept, texts = numbers[keeps], held.texts[keeps]
        firsts = np.searchsorted(texts, np.arange(count))
        places = np.arange(len(texts)) - firsts[texts]
        is_user = (places == 0) & (kept == _USER)
        if not is_user.any():
            return _sums(mixed(kept + places.astype(np.uint64) * _PLACE), texts, count)
        keeps[np.flatnonzero(keeps)[is_user]] = False


def _sums(numbers: Numbers, texts: _Places, count: int) -> Numbers:
    """Add up the numbers of each text; they overflow, and are none the worse for it."""
    sums = np.zeros(len(numbers) + 1, np.uint64)
    np.cumsum(numbers, out=sums[1:])
    edges = np.searchsorted(texts, np.arange(count + 1))
    return sums[edges[1:]] - sums[edges[:-1]]
