"""Which messages a fact rests on."""

from collections.abc import Mapping, Sequence

from memorypipe.evidence.figures import known_figures
from memorypipe.evidence.likeness import content_words

__all__ = ["best_sources", "hits"]


def hits(fact: str, text: str) -> int:
    """Count the content words and numbers of a fact that occur in a text.

    Example:
        >>> hits("Adopted two cats in Oslo", "We have adopted 2 cats!")
        3
    """
    words = content_words(text) & content_words(fact)
    figures = known_figures(fact) & known_figures(text)
    return len({word for word in words if not word.isdecimal()}) + len(figures)


def best_sources(fact: str, texts: Mapping[str, str]) -> Sequence[str]:
    """Find the messages that hold the most of a fact.

    Args:
        fact: Its text.
        texts: Message id to text.

    Returns:
        Message ids in order, several where they hold equally much; all of them where none holds
        anything, as it came from one of them.

    Example:
        >>> best_sources("Owns a cat", {"a": "I own a cat", "b": "Nice!"})
        ['a']
    """
    found = {message_id: hits(fact, text) for message_id, text in texts.items()}
    most = max(found.values(), default=0)
    return [message_id for message_id, count in found.items() if count == most]
