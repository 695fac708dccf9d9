"""Whether a text says what is looked for: groups of keywords instead of exact words. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

from memorypipe.text import normalise

__all__ = ["Pattern", "plain", "spread_not"]

_NOT = re.compile(r"(?<=\w)(?:n't|n\u2019t)\b")
_NUMBERS = {
    word: str(number)
    for numbers in (
        "zero one two three four five six seven eight nine ten eleven twelve",
        "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
    )
    for number, word in enumerate(numbers.split())
}
_NUMBER_WORD = re.compile(r"\b(?:" + "|".join(_NUMBERS) + r")\b")
_KEYS = {"all", "none", "when"}
_LONGEST_WHOLE = 3  # letters: longer keywords are found at a word's beginning


def spread_not(text: str) -> str:
    """Make "n't" a word of its own.

    Example:
        >>> spread_not("Doesn't drive")
        'Does not drive'
    """
    return _NOT.sub(" not", text)


def plain(text: str) -> str:
    """Bring a text to the form in which keywords are looked for.

    Normalised, "n't" as a word of its own, number words as digits.

    Example:
        >>> plain("Doesn't own TWO cats")
        'does not own 2 cats'
    """
    spread = spread_not(normalise(text)).replace("cannot", "can not")
    return _NUMBER_WORD.sub(lambda match: _NUMBERS[match.group()], spread)


@lru_cache(maxsize=1 << 12)
def _finder(keyword: str) -> re.Pattern[str]:
    """Make the expression that finds a keyword in a plain text.

    Numbers are found whole, words of up to three letters whole or with a plural "s", longer ones
    at a word's beginning, and those with a leading ``*`` anywhere.
    """
    if keyword.startswith("*"):
        return re.compile(re.escape(plain(keyword[1:])))
    said = re.escape(plain(keyword))
    if keyword[0].isdigit():
        said = re.escape(keyword)
        return re.compile(rf"(?<![\w.,:]){said}(?!\d|[.,:]\d)")
    ending = r"s?(?!\w)" if len(keyword) <= _LONGEST_WHOLE else ""
    return re.compile(rf"(?<!\w){said}{ending}")


def _says(text: str, keyword: str) -> bool:
    return _finder(keyword).search(text) is not None


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """What a text must say to count as one statement.

    Attributes:
        every: Groups of keywords: of each group one at least must be there.
        none: Keywords of which none may be there.
        when: Beginnings of ISO dates, one of which the statement should carry; empty where no
            date is asked for.
    """

    every: tuple[tuple[str, ...], ...] = ()
    none: tuple[str, ...] = ()
    when: tuple[str, ...] = ()

    @classmethod
    def read(cls, value: object) -> Self:
        """Read a pattern as it stands in a case: ``{"all": [[…], …], "none": […]}``.

        Raises:
            ValueError: It has another shape, or asks for nothing.
        """
        if not isinstance(value, Mapping) or set(value) - _KEYS:
            raise ValueError(f"a pattern is an object with {sorted(_KEYS)!r}, got {value!r}")
        groups = value.get("all")
        if not isinstance(groups, list) or not groups:
            raise ValueError(f"a pattern needs a list of groups under 'all', got {groups!r}")
        return cls(
            every=tuple(_keywords(group) for group in groups),
            none=_keywords(value.get("none", []), empty=True),
            when=_keywords(value.get("when", []), empty=True),
        )

    def fits(self, text: str) -> bool:
        """Whether a text says it; dates are not looked at.

        Example:
            >>> tea = Pattern(every=(("tea",), ("likes", "loves")), none=("not",))
            >>> tea.fits("Loves green tea"), tea.fits("Doesn't love tea"), tea.fits("Loves teams")
            (True, False, False)
        """
        said = plain(text)
        if any(_says(said, keyword) for keyword in self.none):
            return False
        return all(any(_says(said, keyword) for keyword in group) for group in self.every)

    def is_dated(self, text: str, event_time: str | None) -> bool:
        """Whether the asked date is the statement's own, or stands in its text."""
        return any((event_time or "").startswith(day) or day in text for day in self.when)


def _keywords(value: Any, *, empty: bool = False) -> tuple[str, ...]:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    if not is_list or not (value or empty):
        raise ValueError(f"keywords are a list of strings, got {value!r}")
    for keyword in value:
        if not isinstance(keyword, str) or not keyword.strip("* "):
            raise ValueError(f"a keyword is a string that is not blank, got {keyword!r}")
    return tuple(value)
