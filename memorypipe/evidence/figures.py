"""The numbers of a text, however they are written."""

import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal

__all__ = ["figures", "known_figures"]

_FIGURE = re.compile(r"\d+(?:[.,:/-]\d+)*")
_GROUPED = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
_DECIMAL = re.compile(r"\d+[.,]\d+")
_TIME = re.compile(r"\d{1,2}:\d{2}(?::\d{2})?")
_WORD = re.compile(r"[^\W\d_]+")

_ENGLISH = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
)
_NUMBER_WORDS = {word: str(number) for number, word in enumerate(_ENGLISH.split(), start=2)} | {
    "thirty": "30",
    "forty": "40",
    "fifty": "50",
    "sixty": "60",
    "seventy": "70",
    "eighty": "80",
    "ninety": "90",
}

# Understood where they are given, but no claim of their own: each is another word elsewhere.
_FOREIGN = (
    "zwei deux dos dois due два",
    "drei trois tres três tre три",
    "vier quatre cuatro quatro quattro четыре",
    "fünf cinq cinco cinque пять",
    "sechs seis sei шесть",
    "sieben sept siete sete sette семь",
    "acht huit ocho oito otto восемь",
    "neun neuf nueve nove девять",
    "zehn dix diez dez dieci десять",
)
_FOREIGN_WORDS = {
    word: str(number) for number, words in enumerate(_FOREIGN, start=2) for word in words.split()
}

_MONTHS = (
    "january jan januar janvier enero janeiro gennaio января",
    "february feb februar février febrero fevereiro febbraio февраля",
    "march mar märz mars marzo março марта",
    "april apr avril abril aprile апреля",
    "may mai mayo maio maggio мая",
    "june jun juni juin junio junho giugno июня",
    "july jul juli juillet julio julho luglio июля",
    "august aug août agosto августа",
    "september sep sept septembre septiembre setembro settembre сентября",
    "october oct oktober octobre octubre outubro ottobre октября",
    "november nov novembre noviembre novembro ноября",
    "december dec dezember décembre diciembre dezembro dicembre декабря",
)
_MONTH_WORDS = {
    word: str(number) for number, words in enumerate(_MONTHS, start=1) for word in words.split()
}
# The first of each line; those that are everyday words as well only with a capital letter.
_MONTH_CLAIMS = {words.split()[0]: str(number) for number, words in enumerate(_MONTHS, start=1)}
_EVERYDAY = frozenset({"march", "may"})

_HAN_DIGITS = {char: value for value, char in enumerate("零一二三四五六七八九")} | {
    "〇": 0,  # noqa: RUF001  # the numeral
    "两": 2,
}
_HAN_UNITS = {"十": 10, "百": 100}
_HAN_NUMBER = re.compile("[零〇一二两三四五六七八九十百]+")

_NAMING_FIGURES = frozenset({*_NUMBER_WORDS, *_FOREIGN_WORDS, *_MONTH_WORDS})

Readings = frozenset[str]


def figures(text: str) -> dict[str, Readings]:
    """Give the numbers that a text claims, as they are written, each with how it can be read.

    Dates, phone numbers and ranges are cut into their parts, so that another way of writing a
    date is the same claim. Months count as numbers.

    Example:
        >>> sorted(figures("Paid 1,200 on 2019-04-02"))
        ['02', '04', '1,200', '2019']
    """
    found = dict(_written(text))
    for match in _WORD.finditer(text):
        word, folded = match[0], match[0].casefold()
        if folded in _NUMBER_WORDS:
            found[word] = frozenset({_NUMBER_WORDS[folded]})
        elif folded in _MONTH_CLAIMS and not (folded in _EVERYDAY and word == folded):
            found[word] = frozenset({_MONTH_CLAIMS[folded]})
    for match in _HAN_NUMBER.finditer(text):
        if match[0] != "一":  # part of countless words
            found[match[0]] = frozenset({str(_han(match[0]))})
    return found


def known_figures(text: str) -> set[str]:
    """Give every number that a text can be read to hold.

    Example:
        >>> sorted(known_figures("Two cats since April"))
        ['2', '4']
    """
    if _names_no_figure(text):
        return set()
    known = {reading for readings in figures(text).values() for reading in readings}
    for match in _TIME.finditer(_plain(text)):
        known.update(_whole(part) for part in match[0].split(":"))
    words = [word.casefold() for word in _WORD.findall(text)]
    for named in (_FOREIGN_WORDS, _MONTH_WORDS):
        known.update(named[word] for word in words if word in named)
    return known


def _names_no_figure(text: str) -> bool:
    """Tell of a plain English text without a number, as most are, that there is none; quick."""
    if not text.isascii() or _FIGURE.search(text):
        return False
    return _NAMING_FIGURES.isdisjoint(_WORD.findall(text.lower()))


def _plain(text: str) -> str:
    """The text with digits of every script as ASCII."""
    if text.isascii():
        return text
    folded = unicodedata.normalize("NFKC", text)
    return "".join(str(unicodedata.digit(c)) if c.isdecimal() else c for c in folded)


def _written(text: str) -> Iterator[tuple[str, Readings]]:
    for match in _FIGURE.finditer(_plain(text)):
        for part in _parts(match[0]):
            yield part, _read(part)


def _parts(figure: str) -> list[str]:
    """Cut dates, ranges and the like; times and fractions stay whole."""
    if _TIME.fullmatch(figure):
        return [figure]
    parts: list[str] = []
    for part in re.split("[-/:]", figure):
        whole = _GROUPED.fullmatch(part) or _DECIMAL.fullmatch(part)
        parts += [part] if whole else re.split("[.,]", part)
    return parts


def _read(part: str) -> Readings:
    if ":" in part:
        return frozenset({":".join(_whole(each) for each in part.split(":"))})
    readings = set()
    if _GROUPED.fullmatch(part):
        readings.add(_whole(re.sub("[.,]", "", part)))
    if _DECIMAL.fullmatch(part):
        readings.add(f"{Decimal(part.replace(',', '.')).normalize():f}")
    return frozenset(readings or {_whole(part)})


def _whole(digits: str) -> str:
    return digits.lstrip("0") or "0"


def _han(run: str) -> int:
    """Read a Chinese numeral: with units, or digit by digit as years are."""
    if not _HAN_UNITS.keys() & set(run):
        return int("".join(str(_HAN_DIGITS[char]) for char in run))
    total, digit = 0, 0
    for char in run:
        if char in _HAN_UNITS:
            total += (digit or 1) * _HAN_UNITS[char]
            digit = 0
        else:
            digit = _HAN_DIGITS[char]
    return total + digit
