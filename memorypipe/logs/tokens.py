"""Cuts of a text that respect the estimate of its tokens."""

import re

import numpy as np

from memorypipe.llm.tokens import UNITS_PER_TOKEN, char_units

__all__ = ["split_text"]

# Where a text that must be cut is best cut, best first: after a paragraph, a line, a sentence,
# a word.
_BOUNDARIES = tuple(
    re.compile(pattern) for pattern in (r"\n\s*\n", r"\n", r"[.!?…]\s|[\u3002\uff01\uff1f]", r"\s")
)


def split_text(text: str, *, max_tokens: int) -> list[str]:
    """Cut a text into pieces, each of at most `max_tokens` estimated tokens.

    Args:
        text: Any text without lone surrogates.
        max_tokens: At least 2, what the heaviest character takes.

    Returns:
        Pieces that join to the text; a cut falls after a paragraph, line, sentence or word of the
        second half of a piece where there is one.

    Example:
        >>> split_text("One two. Three four.", max_tokens=3)
        ['One two. ', 'Three four.']
    """
    ends = np.cumsum(char_units(text), dtype=np.int64)
    pieces, start, used = [], 0, 0
    while start < len(text):
        limit = used + max_tokens * UNITS_PER_TOKEN
        stop = int(np.searchsorted(ends, limit, side="right"))
        if stop < len(text):
            stop = _cut(text, start, stop)
        pieces.append(text[start:stop])
        start, used = stop, int(ends[stop - 1])
    return pieces


def _cut(text: str, start: int, stop: int) -> int:
    middle = start + (stop - start) // 2
    for boundary in _BOUNDARIES:
        ends = [match.end() for match in boundary.finditer(text, middle, stop)]
        if ends:
            return ends[-1]
    return stop
