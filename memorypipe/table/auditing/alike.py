"""Which memories of a scope say the same, nearly the same, or what cannot both hold. Pure.

Texts become numbers, batch by batch; then only those are read whose numbers met.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memorypipe.llm.offline_rules.attributes import attributes_of
from memorypipe.table.auditing.judging import Likeness, judge
from memorypipe.table.auditing.word_sums import WordSums, mixed

__all__ = ["Found", "Suspects"]

_Numbers = NDArray[np.uint64]
_Places = NDArray[np.int64]
_Pairs = NDArray[np.int64]  # two columns

# Of texts with fewer words nearly all are about something else.
_LEAST_SHARED = 3

# Nothing has only one value unless it is said with one of these.
_ONE_VALUE = (
    r"(?i)\b(?:liv(?:e|es|ing)|resides?|based|located|moved|relocated|works?|working|employed|job|"
    r"favou?rite|named?|called|married|single|divorced|engaged|widowed|separated|vegetarian|vegan|"
    r"pescatarian|omnivore|phone|e?-?mail|address|birthday|born|from|weighs|years? old|turned|"
    r"is \d+)\b"
)


class _Value(NamedTuple):
    """What a row says of something that has one value at a time."""

    row: int
    words: frozenset[str]


class Suspects:
    """Collects numbers of texts, and finds the rows that are worth reading.

    A row is its place in the order in which texts were added. Takes about 150 bytes per row.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._exact: list[_Numbers] = []
        self._near: list[_Numbers] = []
        self._content: list[_Numbers] = []
        self._counts: list[_Places] = []
        self._without: list[tuple[_Numbers, _Places]] = []
        self._values: dict[tuple[int, str, str], list[_Value]] = {}

    def add(self, texts: pa.Array, exact: _Numbers, sums: WordSums, groups: _Numbers) -> None:
        """Take a batch of texts in.

        Args:
            texts: The texts.
            exact: A number per text; texts that have the same one say the same.
            sums: Of the texts.
            groups: A number per text; only texts of one group are compared.
        """
        salt = mixed(groups)
        self._exact.append(mixed(exact + salt))
        self._near.append(mixed(sums.near + salt))
        self._content.append(mixed(sums.content + salt))
        self._counts.append(sums.content_words)
        without = mixed(sums.without_one + salt[sums.without_rows])
        self._without.append((without, sums.without_rows + self._rows))
        self._note_values(texts, groups)
        self._rows += len(texts)

    def _note_values(self, texts: pa.Array, groups: _Numbers) -> None:
        """Note what a text says of something that has one value at a time."""
        places = np.flatnonzero(np.asarray(pc.match_substring_regex(texts, _ONE_VALUE)))
        for place, text in zip(places, texts.take(pa.array(places)).to_pylist(), strict=True):
            for each in attributes_of(text):
                key = (int(groups[place]), each.kind, each.subject)
                value = _Value(self._rows + int(place), each.words)
                self._values.setdefault(key, []).append(value)

    def find(self, max_pairs: int) -> "Found":
        """Find the rows whose numbers met.

        Args:
            max_pairs: Of rows whose texts are to be read, at most so many.
        """
        exact = _joined(self._exact, np.uint64)
        every = np.arange(len(exact))
        duplicates = _with_firsts(exact, every)
        is_first = np.ones(len(exact), np.bool_)
        is_first[duplicates[:, 0]] = False
        counts, content = _joined(self._counts, np.int64), _joined(self._content, np.uint64)
        near = _joined(self._near, np.uint64)
        said = every[is_first & (counts > 0)]
        alike = _with_firsts(content[said], said)
        pairs = np.concatenate(
            [
                _with_firsts(near[is_first], every[is_first]),
                self._longer(content, every[is_first & (counts >= _LEAST_SHARED)]),
                alike,
                _neighbours(alike),
            ]
        )
        return Found(
            duplicates=duplicates,
            values=self._other_values(),
            pairs=pairs[:max_pairs],
            left_out=max(len(pairs) - max_pairs, 0),
        )

    def _other_values(self) -> _Pairs:
        """Find the rows that give something another value than the first row did."""
        pairs = [
            (value.row, values[0].row)
            for values in self._values.values()
            for value in values[1:]
            if not (value.words <= values[0].words or values[0].words <= value.words)
        ]
        return np.array(pairs, np.int64).reshape(-1, 2)

    def _longer(self, content: _Numbers, rows: _Places) -> _Pairs:
        """Find the rows that have one word more than another one.

        Args:
            content: Of all rows.
            rows: The ones that may be the other one.
        """
        order = rows[np.argsort(content[rows], kind="stable")]
        ordered = content[order]
        without = _joined([numbers for numbers, _ in self._without], np.uint64)
        longer = _joined([places for _, places in self._without], np.int64)
        if not len(ordered):
            return np.empty((0, 2), np.int64)
        slots = np.minimum(np.searchsorted(ordered, without), len(ordered) - 1)
        hits = np.flatnonzero(ordered[slots] == without)
        return np.stack([longer[hits], order[slots[hits]]], axis=1)


@dataclass(frozen=True, kw_only=True)
class Found:
    """Rows that say the same, and pairs of rows whose texts have to be read.

    Attributes:
        duplicates: Pairs of a row and the first one that says the same.
        values: Pairs of a row and the first one that gives another value of the same thing.
        pairs: Pairs of a row and one that may say nearly the same, or what cannot hold beside it.
        left_out: Pairs beyond the bound.
    """

    duplicates: _Pairs
    values: _Pairs
    pairs: _Pairs
    left_out: int

    def judged(self, texts: Mapping[int, str]) -> Mapping[Likeness, Mapping[int, int]]:
        """Read the texts, and tell how the rows stand to each other.

        Args:
            texts: Of all rows of `pairs`.

        Returns:
            Likeness to rows, each with one that it stands so to.
        """
        values = dict(self.values[::-1].tolist())
        found: dict[Likeness, dict[int, int]] = {"near_duplicates": {}, "contradictions": values}
        for row, other in self.pairs.tolist():
            likeness = judge(texts[row], texts[other])
            if likeness is not None:
                found[likeness].setdefault(row, other)
        return found


def _joined(parts: Sequence[Any], kind: type) -> Any:
    return np.concatenate([*parts, np.empty(0, kind)])


def _with_firsts(numbers: _Numbers, rows: _Places) -> _Pairs:
    """Pair each row with the first one that has its number, in the order of the rows.

    Args:
        numbers: Of the rows.
        rows: In ascending order.
    """
    _, first, which = np.unique(numbers, return_index=True, return_inverse=True)
    firsts = rows[first[which]]
    later = firsts != rows
    return np.stack([rows[later], firsts[later]], axis=1)


def _neighbours(pairs: _Pairs) -> _Pairs:
    """Pair rows that were paired with one first row with the one before them, too."""
    ordered = pairs[np.argsort(pairs[:, 1], kind="stable")]
    same = ordered[1:, 1] == ordered[:-1, 1]
    return np.stack([ordered[1:, 0][same], ordered[:-1, 0][same]], axis=1)
