"""Whether two texts say the same, or speak of the same at all."""

import re
from functools import lru_cache

from memorypipe.evidence.lexicon import (
    AVERSION,
    CHANGE,
    END,
    NEGATION,
    NO_LONGER,
    OTHER_VERBS,
    STOP_WORDS,
    VERBS,
)
from memorypipe.rank.words import tokens
from memorypipe.text import normalise

__all__ = [
    "content_words",
    "is_negated",
    "near_key",
    "only_retracts",
    "share_words",
    "tells_change",
]

_FILLERS = frozenset({"a", "an", "the"})
_SUBJECT = re.compile(r"^(?:the )?user (?=\w)")
_OPENING = "\"'“”„«([（「"  # noqa: RUF001  # full-width
_CLOSING = "\"'“”»)].,;:!…）」。，！；："  # noqa: RUF001  # full-width

# Words are the same where this much of their beginning is: as far as most endings leave alone.
_STEM_CHARS = 5
_ENDINGS = "deiy"


def near_key(text: str) -> str:
    """Give what is left of a text without articles, punctuation and "the user" before it.

    Texts with one key say the same in nearly the same words. Everything that carries meaning is
    in it: numbers and signs, names, negations, small words such as "from", and the order of all.

    Example:
        >>> near_key("The user owns a cat.") == near_key("Owns the cat")
        True
        >>> near_key("Likes C++") == near_key("Likes C#")
        False
    """
    words = (_bare(word) for word in _SUBJECT.sub("", normalise(text)).split())
    return " ".join(word for word in words if word and word not in _FILLERS)


def _bare(word: str) -> str:
    return word.lstrip(_OPENING).rstrip(_CLOSING)


def content_words(text: str) -> set[str]:
    """Give the words of a text that say something, without most of their endings.

    Scripts without spaces give pairs of characters.

    Example:
        >>> sorted(content_words("The user moved to Oslo"))
        ['mov', 'oslo']
    """
    return {_stem(word) for word in tokens(text) if word not in STOP_WORDS}


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    stem = word[:-1] if word.endswith("s") and len(word) > len("its") else word
    return stem[:_STEM_CHARS].rstrip(_ENDINGS) or stem


# What parts a text that states two things.
_CLAUSE = re.compile(
    r"[,;.]|(?<!\w)(?:and|but|und|aber|et|mais|y|pero|e|ma|и|а|но)(?!\w)",  # noqa: RUF001  # Russian
    re.IGNORECASE,
)
_STATING = VERBS | OTHER_VERBS

_EVERYDAY = {_stem(word) for word in VERBS | OTHER_VERBS}


def share_words(a: str, b: str, *, verbs: bool = True) -> bool:
    """Whether two texts share a word that says something.

    Texts in different languages hardly do.

    Args:
        a: One text.
        b: The other.
        verbs: Whether a verb that goes with everything, as "likes" does, is enough.

    Example:
        >>> share_words("Likes tea", "Likes hiking")
        True
        >>> share_words("Likes tea", "Likes hiking", verbs=False)
        False
    """
    shared = content_words(a) & content_words(b)
    return bool(shared if verbs else shared - _EVERYDAY)


def is_negated(text: str) -> bool:
    """Whether a text negates; "no longer" negates what was, and does not count.

    Example:
        >>> is_negated("Doesn't eat meat"), is_negated("No longer eats meat")
        (True, False)
    """
    return bool(NEGATION.search(NO_LONGER.sub(" ", text.replace("’", "'"))))  # noqa: RUF001  # as typed


def tells_change(text: str) -> bool:
    """Whether a text tells that something ended or changed.

    Example:
        >>> tells_change("Sold the car"), tells_change("Has a car")
        (True, False)
    """
    return bool(CHANGE.search(text)) or is_negated(text)


def only_retracts(text: str) -> bool:
    """Whether a text tells that something ended or is not so, and states nothing in its place.

    Example:
        >>> only_retracts("Sold the car"), only_retracts("Hates Chinese food")
        (True, False)
        >>> only_retracts("Sold the car and bought a bike")
        False
    """
    return _retracts(text) and not any(
        _STATING.intersection(tokens(clause)) and not _retracts(clause)
        for clause in _CLAUSE.split(text)
    )


def _retracts(text: str) -> bool:
    return bool(END.search(text)) or is_negated(AVERSION.sub(" ", text))
