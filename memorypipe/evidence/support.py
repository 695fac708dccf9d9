"""Which messages a fact rests on."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from memorypipe.evidence.figures import known_figures
from memorypipe.evidence.likeness import content_words

__all__ = ["Content", "best_sources", "content_of", "hits"]


class Content(NamedTuple):
    """A text, and what of it can be found again in another.

    Attributes:
        text: As given.
        words: Its content words.
        figures: The numbers that it can be read to hold.
    """

    text: str
    words: frozenset[str]
    figures: frozenset[str]


def content_of(text: str) -> Content:
    """Take a text apart, once for all that it is compared with."""
    words = frozenset(word for word in content_words(text) if not word.isdecimal())
    return Content(text, words, frozenset(known_figures(text)))


def hits(fact: Content, text: Content) -> int:
    """Count the content words and numbers of a fact that occur in a text.

    Example:
        >>> hits(content_of("Adopted two cats in Oslo"), content_of("We have adopted 2 cats!"))
        3
    """
    return len(fact.words & text.words) + len(fact.figures & text.figures)


def best_sources(fact: Content, texts: Mapping[str, Content]) -> Sequence[str]:
    """Find the messages that hold the most of a fact.

    Args:
        fact: What it says.
        texts: Message id to what the message says.

    Returns:
        Message ids in order, several where they hold equally much; all of them where none holds
        anything, as it came from one of them.

    Example:
        >>> texts = {"a": content_of("I own a cat"), "b": content_of("Nice!")}
        >>> best_sources(content_of("Owns a cat"), texts)
        ['a']
    """
    found = {message_id: hits(fact, text) for message_id, text in texts.items()}
    most = max(found.values(), default=0)
    return [message_id for message_id, count in found.items() if count == most]
