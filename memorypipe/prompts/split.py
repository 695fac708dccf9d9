"""Halve what was too much for one reply."""

import re
from collections.abc import Sequence
from dataclasses import replace

from memorypipe.llm.types import Fact, Turn

__all__ = ["MIN_SPLIT_CHARS", "split_facts", "split_turns"]

# A reply cut over less than this is not cut because of how much there was to say.
MIN_SPLIT_CHARS = 200

# Where a text is best cut, the best first: between paragraphs, lines, sentences, words.
_CUTS = (
    re.compile(r"\n\s*\n"),
    re.compile(r"\n"),
    re.compile(r"[.!?]\s+|[。！？]"),  # noqa: RUF001  # full-width marks end sentences too
    re.compile(r"\s+"),
)


def split_turns(turns: Sequence[Turn]) -> tuple[tuple[Turn, ...], tuple[Turn, ...]] | None:
    """Halve a transcript at a turn boundary; a single turn is cut in its text.

    Args:
        turns: The transcript. Background turns do not count: each half has something of its own
            to tell, or there is no split.

    Returns:
        Two transcripts that together hold every character; None where nothing is left to split.

    Example:
        >>> split_turns([Turn(role="user", content="Short.")]) is None
        True
    """
    telling = [place for place, turn in enumerate(turns) if not turn.background]
    sizes = [len(turns[place].content) for place in telling]
    if sum(sizes) < MIN_SPLIT_CHARS:
        return None
    if len(telling) == 1:
        return _split_single(turns, telling[0])
    boundary = telling[_middle(sizes)]
    return tuple(turns[:boundary]), tuple(turns[boundary:])


def _middle(sizes: Sequence[int]) -> int:
    """How many of these sizes make the first half, at least one and not all."""
    total, before = sum(sizes), 0
    imbalances = []
    for size in sizes[:-1]:
        before += size
        imbalances.append(abs(total - 2 * before))
    return 1 + imbalances.index(min(imbalances))


def _split_single(turns: Sequence[Turn], place: int) -> tuple[tuple[Turn, ...], tuple[Turn, ...]]:
    turn = turns[place]
    cut = _cut(turn.content)
    head = replace(turn, content=turn.content[:cut])
    tail = replace(turn, content=turn.content[cut:])
    return (*turns[:place], head), (tail, *turns[place + 1 :])


def _cut(text: str) -> int:
    """Where to cut a text: in its middle half, as near to the middle as a good place is."""
    middle, low, high = len(text) // 2, len(text) // 4, len(text) * 3 // 4
    for pattern in _CUTS:
        ends = [match.end() for match in pattern.finditer(text, low, high)]
        if ends:
            return min(ends, key=lambda end: abs(end - middle))
    return middle


def split_facts(facts: Sequence[Fact]) -> tuple[tuple[Fact, ...], tuple[Fact, ...]] | None:
    """Halve the facts of a decision; None where there is but one."""
    if len(facts) <= 1:
        return None
    middle = (len(facts) + 1) // 2
    return tuple(facts[:middle]), tuple(facts[middle:])
