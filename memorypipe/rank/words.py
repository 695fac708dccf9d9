"""Texts as words: what keyword ranking counts."""

import re
import unicodedata
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memorypipe.text import normalise

__all__ = ["Occurrences", "find_words", "tokens"]

_WORD = re.compile(r"[^\W_]+")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af]+")

# Stands between two texts that are cut as one: no part of a word, and no white space.
_BREAK = "\x01"

# What is no part of a word becomes a space. In ASCII that is one table look-up per character.
_SPACED = bytes(
    byte if byte >= 128 or chr(byte).isalnum() or chr(byte) == _BREAK else 32  # noqa: PLR2004  # ASCII, space
    for byte in range(256)
)

# Room before the first word and after the last, so that eight bytes can be read anywhere in one.
_ROOM = b" " * 8
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)
_MARK_BITS = 20
_MARK_SHIFT = np.uint64(64 - _MARK_BITS)  # the upper bits are the best mixed
_SHIFT = np.uint64(32)  # beyond the size of any word
_MIXERS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)


@lru_cache(maxsize=65_536)
def tokens(text: str) -> tuple[str, ...]:
    """Cut a text into words, and scripts without spaces into pairs of characters.

    Example:
        >>> tokens("Likes tea, 喜欢喝茶")
        ('likes', 'tea', '喜欢', '欢喝', '喝茶')
    """
    found: list[str] = []
    for word in _WORD.findall(normalise(text)):
        rest = word
        for run in _CJK.findall(word):
            before, _, rest = rest.partition(run)
            found += [before] if before else []
            found += [run[i : i + 2] for i in range(max(len(run) - 1, 1))]
        found += [rest] if rest else []
    return tuple(found)


class Occurrences(NamedTuple):
    """Where words occur in texts.

    Attributes:
        words: Number of the word, one per occurrence.
        texts: Number of the text, likewise.
        lengths: Words in each text, all of them.
    """

    words: NDArray[np.int64]
    texts: NDArray[np.int64]
    lengths: NDArray[np.int64]


def find_words(
    texts: pa.ChunkedArray,
    groups: NDArray[np.int64],
    words: Sequence[str],
    word_groups: NDArray[np.int64],
) -> Occurrences:
    """Find words in many texts at once, without an object per word that they hold.

    Args:
        texts: Strings, no nulls.
        groups: Of each text.
        words: As `tokens` gives them; each once per group.
        word_groups: Of each word: it is found in the texts of its group alone.

    Example:
        >>> texts, one = pa.chunked_array([["Tea, black tea", "A cat"]]), np.zeros(2, np.int64)
        >>> find_words(texts, one, ["cat", "tea"], one).texts.tolist()
        [0, 0, 1]
    """
    held = _Words.of(_spaced(texts))
    breaks = np.flatnonzero((held.sizes == 1) & (held.starting == ord(_BREAK)))
    lengths = np.diff(breaks, prepend=-1) - 1
    text_of = np.repeat(np.arange(len(texts)), lengths + 1)
    asked = _Words.of(" ".join(words).encode(errors="replace"))
    number, places = asked.find_in(held, word_groups, groups[text_of])
    return Occurrences(number, text_of[places], lengths)


class _Words(NamedTuple):
    """The words of a text with spaces between them, as numbers.

    Attributes:
        text: UTF-8, with room around.
        starts: Of each word, in bytes.
        sizes: Of each word, in bytes.
        starting: The first eight bytes of each word.
        ending: The last eight of each word that is longer than that, with a checksum of what
            stands between, else 0.
    """

    text: bytes
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    starting: NDArray[np.uint64]
    ending: NDArray[np.uint64]

    @classmethod
    def of(cls, spaced: bytes) -> "_Words":
        text = _ROOM + spaced + _ROOM
        space = np.frombuffer(text, np.uint8) == ord(" ")
        edges = np.flatnonzero(space[1:] != space[:-1]) + 1
        starts, ends = edges[0::2], edges[1::2]
        sizes = ends - starts
        eights: NDArray[np.uint64] = np.ndarray((len(text) - 7,), "<u8", text, strides=(1,))
        starting = eights[starts] & _MASKS[np.minimum(sizes, 8)]
        ending = np.zeros_like(starting)
        long = np.flatnonzero(sizes > 8)  # noqa: PLR2004  # bytes read at once
        ending[long] = eights[ends[long] - 8]
        # Both ends say all about a word of up to sixteen bytes.
        for word in long[sizes[long] > 16].tolist():  # noqa: PLR2004  # see above
            middle = text[int(starts[word]) + 8 : int(ends[word]) - 8]
            ending[word] ^= np.uint64(zlib.crc32(middle) << 16)
        return cls(text, starts, sizes, starting, ending)

    def keys(self, groups: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Give one number per word; equal words of one group have equal ones."""
        key: NDArray[np.uint64] = self.starting * _MIXERS[0]
        key ^= self.ending * _MIXERS[1]
        key ^= (self.sizes.astype(np.uint64) + (groups.astype(np.uint64) << _SHIFT)) * _MIXERS[2]
        return key

    def find_in(
        self, other: "_Words", groups: NDArray[np.int64], other_groups: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find these words, each of which stands here once per group, among others.

        Returns:
            Numbers of words here and their places there, one pair per place.
        """
        if not len(self.starts):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        keys, other_keys = self.keys(groups), other.keys(other_groups)
        order = np.argsort(keys)
        ordered = keys[order]
        # Nearly all words are none of those asked for; a table of marks tells so at once.
        marked = np.zeros(1 << _MARK_BITS, np.bool_)
        marked[keys >> _MARK_SHIFT] = True
        places = np.flatnonzero(marked[other_keys >> _MARK_SHIFT])
        slots = np.minimum(np.searchsorted(ordered, other_keys[places]), len(order) - 1)
        hits = np.flatnonzero(ordered[slots] == other_keys[places])
        places, numbers = places[hits], order[slots[hits]]
        same = groups[numbers] == other_groups[places]
        same &= self.starting[numbers] == other.starting[places]
        same &= self.ending[numbers] == other.ending[places]
        for place in np.flatnonzero(self.sizes[numbers] > 16).tolist():  # noqa: PLR2004  # see `of`
            same[place] &= self._word(numbers[place]) == other._word(places[place])  # noqa: SLF001  # the same class
        return numbers[same], places[same]

    def _word(self, number: int) -> bytes:
        start = int(self.starts[number])
        return self.text[start : start + int(self.sizes[number])]


def _spaced(texts: pa.ChunkedArray) -> bytes:
    """Give the words of all texts with spaces between them, a break after those of each."""
    data = _joined(texts)
    if data.count(_BREAK.encode()) > len(texts):
        texts = pc.replace_substring(texts, _BREAK, " ")
        data = _joined(texts)
    if data.isascii():
        return data.lower().translate(_SPACED)
    joined = data.decode()
    if _CJK.search(joined):
        cut = [" ".join(tokens(t)) if _CJK.search(t) else t for t in texts.to_pylist()]
        joined = _joined(pa.chunked_array([cut], pa.string())).decode()
    # As `normalise` does, for all at once: a break combines with nothing.
    folded = unicodedata.normalize("NFC", joined).casefold()
    joined = unicodedata.normalize("NFC", folded)
    # There are few characters that are no part of a word, and replacing one is fast.
    for character in set(joined):
        if not character.isalnum() and character != _BREAK:
            joined = joined.replace(character, " ")
    return joined.encode(errors="replace")


def _joined(texts: pa.ChunkedArray) -> bytes:
    """Join texts where Arrow holds them: a Python string for each would take three times as long.

    Large strings, as all together may have more than two gigabytes.
    """
    kind = pa.large_string()
    ended = pc.binary_join_element_wise(
        texts.cast(kind), *(pa.scalar(each, kind) for each in (_BREAK, "", " "))
    )
    return b"".join(_bytes(chunk) for chunk in ended.chunks)


def _bytes(strings: pa.LargeStringArray) -> bytes:
    _, offset_buffer, data = strings.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64, len(strings) + 1, strings.offset * 8)
    first, end = offsets[[0, -1]].tolist()
    return b"" if data is None else data.slice(first, end - first).to_pybytes()
