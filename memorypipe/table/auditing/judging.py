"""How two texts of one scope that look alike stand to each other. Pure."""

import re
from typing import Literal

from memorypipe.evidence.likeness import content_words, is_negated, near_key
from memorypipe.evidence.subjects import other_subjects
from memorypipe.rank.words import tokens

__all__ = ["Likeness", "judge"]

Likeness = Literal["near_duplicates", "contradictions"]

_LEAST_WORDS = 2
_FIGURE = re.compile(r"\d+(?:[.,:/-]\d+)*")


def judge(text: str, other: str) -> Likeness | None:
    """Tell how two texts stand to each other that have nearly the same words.

    Args:
        text: One text.
        other: The other.

    Returns:
        ``"contradictions"`` where only one of them negates, or they have other figures: nobody
        but a reader can tell whether both may hold. None where they are about different things.

    Example:
        >>> judge("Owns a cat", "The user owns the cat."), judge("Eats meat", "Doesn't eat meat")
        ('near_duplicates', 'contradictions')
        >>> judge("Has 2 cats", "Has 3 cats"), judge("Al likes Bo", "Bo likes Al")
        ('contradictions', None)
    """
    if near_key(text) == near_key(other):
        return "near_duplicates"
    # The same words with other signs, as "C++" and "C#", or in another order, are something else.
    if tokens(text) == tokens(other) or not _same_order(text, other):
        return None
    if other_subjects(text, other):
        return None
    if is_negated(text) != is_negated(other) or _other_figures(text, other):
        return "contradictions"
    # "Has a car" and "wants a car" have one word that says something.
    return "near_duplicates" if len(content_words(text)) >= _LEAST_WORDS else None


def _other_figures(text: str, other: str) -> bool:
    """Whether each has a figure that the other has not; one may tell more than the other."""
    figures, others = set(_FIGURE.findall(text)), set(_FIGURE.findall(other))
    return bool(figures - others) and bool(others - figures)


def _same_order(text: str, other: str) -> bool:
    """Whether the words that both have stand in the same order: who does what to whom."""
    words, others = tokens(text), tokens(other)
    shared = {word for word in set(words) & set(others) if content_words(word)}
    return [w for w in words if w in shared] == [w for w in others if w in shared]
