"""An estimate of a text's tokens that needs no tokenizer, and cuts that respect it.

A character of Chinese, Japanese or Korean counts as one token, everything else as a quarter of
its UTF-8 bytes: four letters of English to a token, two of Cyrillic or Greek, one emoji. The
estimate is the same everywhere, so windows do not move when a model does.
"""

import re

import numpy as np

__all__ = ["estimate_tokens", "split_text"]

_CJK_RANGES = (
    (0x3000, 0x30FF),  # punctuation, hiragana, katakana
    (0x3400, 0x9FFF),  # ideographs
    (0xAC00, 0xD7AF),  # hangul
    (0xF900, 0xFAFF),  # compatibility ideographs
    (0xFF00, 0xFFEF),  # full-width forms
    (0x20000, 0x3FFFF),  # further ideographs
)
_CJK = re.compile("[" + "".join(f"{chr(low)}-{chr(high)}" for low, high in _CJK_RANGES) + "]")
_QUARTERS_PER_TOKEN = 4

# Where a text that must be cut is best cut, best first: after a paragraph, a line, a sentence,
# a word.
_BOUNDARIES = tuple(
    re.compile(pattern) for pattern in (r"\n\s*\n", r"\n", r"[.!?…]\s|[\u3002\uff01\uff1f]", r"\s")
)


def estimate_tokens(text: str) -> int:
    """Estimate how many tokens a text has.

    Example:
        >>> estimate_tokens("I like tea."), estimate_tokens("我喜欢茶")
        (3, 4)
    """
    return -(-_quarters(text) // _QUARTERS_PER_TOKEN)


def _quarters(text: str) -> int:
    if text.isascii():
        return len(text)
    others = _CJK.sub("", text)
    return _QUARTERS_PER_TOKEN * (len(text) - len(others)) + len(others.encode())


def split_text(text: str, *, max_tokens: int) -> list[str]:
    """Cut a text into pieces, each of at most `max_tokens` estimated tokens.

    Args:
        text: Any text without lone surrogates.
        max_tokens: At least 1.

    Returns:
        Pieces that join to the text; a cut falls after a paragraph, line, sentence or word of the
        second half of a piece where there is one.

    Example:
        >>> split_text("One two. Three four.", max_tokens=3)
        ['One two. ', 'Three four.']
    """
    ends = np.cumsum(_char_quarters(text))
    pieces, start, used = [], 0, 0
    while start < len(text):
        limit = used + max_tokens * _QUARTERS_PER_TOKEN
        stop = int(np.searchsorted(ends, limit, side="right"))
        if stop < len(text):
            stop = _cut(text, start, stop)
        pieces.append(text[start:stop])
        start, used = stop, int(ends[stop - 1])
    return pieces


def _char_quarters(text: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    codes = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    quarters = np.ones(len(codes), dtype=np.int64)
    for first in (0x80, 0x800, 0x10000):
        quarters += codes >= first
    for low, high in _CJK_RANGES:
        quarters[(codes >= low) & (codes <= high)] = _QUARTERS_PER_TOKEN
    return quarters


def _cut(text: str, start: int, stop: int) -> int:
    middle = start + (stop - start) // 2
    for boundary in _BOUNDARIES:
        ends = [match.end() for match in boundary.finditer(text, middle, stop)]
        if ends:
            return ends[-1]
    return stop
