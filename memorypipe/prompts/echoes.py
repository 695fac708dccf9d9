"""Telling a model's answer from its echo of the prompt: weak models give examples and rules back.

What an echo says is said by nobody, so it is no fact; and a reply of nothing else answers nothing.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from memorypipe.evidence.likeness import content_words
from memorypipe.evidence.names import knows_name, proper_names
from memorypipe.prompts.common import Example, Field
from memorypipe.text import normalise

__all__ = ["OwnWords", "own_words", "quotes_empty_list"]

_WORD = re.compile(r"[^\W_]+")
_EMPTY_LIST = re.compile(r"\[\s*\]")
_LONGEST_EMPTY_ANSWER = len('{"memories": []}') + 4

# Of a text that the data says too at least this share of the words is found there.
_SUPPORTED_SHARE = 0.5

# What a model fills a schema with that it was to fill with something.
_PLACEHOLDERS = frozenset({"string", "str", "text", "null", "none", "array", "object", "integer"})


@dataclass(frozen=True, kw_only=True)
class OwnWords:
    """What a prompt says itself.

    Attributes:
        text: The system message in normalised words.
        names: The proper names of its examples, normalised.
        fillers: Words that are no text of an item: types, and names of fields.
    """

    text: str
    names: frozenset[str]
    fillers: frozenset[str]

    def are_echoed(self, text: str, data: Iterable[str]) -> bool:
        """Whether a text is the prompt's own and nothing that the data says.

        Args:
            text: Of an item of a reply.
            data: What the prompt was about; looked at only where the text may be an echo.
        """
        plain = normalise(text)
        words = _WORD.findall(plain)
        named = [name for name in self.names if name in plain and knows_name(name, text)]
        is_filler = len(words) == 1 and words[0] in self.fillers
        if not (named or is_filler or (words and f" {' '.join(words)} " in self.text)):
            return False
        said = "\n".join(data)
        if named and not any(knows_name(name, said) for name in named):
            return True
        meant = content_words(text)
        supported = len(meant & content_words(said))
        return bool(meant) and supported < _SUPPORTED_SHARE * len(meant)


def own_words(system: str, examples: Sequence[Example], fields: Sequence[Field]) -> OwnWords:
    """Gather what a prompt says itself.

    Args:
        system: The system message, with the caller's hint.
        examples: That stand in it.
        fields: Of an item.
    """
    texts = [value for example in examples for item in example.items for value in _texts(item)]
    names = {name for text in texts for name in proper_names(text)}
    return OwnWords(
        text=f" {' '.join(_WORD.findall(normalise(system)))} ",
        names=frozenset(normalise(name) for name in names),
        fillers=_PLACEHOLDERS | {word for field in fields for word in field.name.split("_")},
    )


def _texts(item: Any) -> Iterable[str]:
    return (value for key, value in item.items() if key == "text" and value)


def quotes_empty_list(reply: str, data: Iterable[str]) -> bool:
    """Whether a line of the data that holds an empty list stands in a reply, with more around it.

    A model that repeats the data seems to answer with what somebody wrote there.

    Example:
        >>> said = 'The API returns {"facts": []} to me'
        >>> quotes_empty_list(f"#1 [user]: {said}", [said])
        True
    """
    lines = (line.strip() for text in data if "[" in text for line in text.splitlines())
    return any(
        len(line) > _LONGEST_EMPTY_ANSWER and _EMPTY_LIST.search(line) and line in reply
        for line in lines
    )
