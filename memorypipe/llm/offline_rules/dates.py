"""When something happened, by the words of a statement: the date that it names, or counts back to.

A date is as exact as the words are: a day, a month or a year. Words that count from a day say
nothing where nobody knows that day.
"""

import re
from collections.abc import Callable
from datetime import date, timedelta

__all__ = ["event_date"]

_MONTH_NAMES = (
    ("january", "jan", "januar", "jänner"),
    ("february", "feb", "februar"),
    ("march", "mar", "märz"),
    ("april", "apr"),
    ("may", "mai"),
    ("june", "jun", "juni"),
    ("july", "jul", "juli"),
    ("august", "aug"),
    ("september", "sep", "sept"),
    ("october", "oct", "oktober", "okt"),
    ("november", "nov"),
    ("december", "dec", "dezember", "dez"),
)
_MONTHS = {name: month for month, names in enumerate(_MONTH_NAMES, 1) for name in names}
_WEEKDAY_NAMES = (
    ("monday", "montag"),
    ("tuesday", "dienstag"),
    ("wednesday", "mittwoch"),
    ("thursday", "donnerstag"),
    ("friday", "freitag"),
    ("saturday", "samstag", "sonnabend"),
    ("sunday", "sonntag"),
)
_WEEKDAYS = {name: day for day, names in enumerate(_WEEKDAY_NAMES) for name in names}
_NUMBERS = {
    **dict.fromkeys(("a", "an", "one", "einem", "einer", "ein", "eine"), 1),
    **dict.fromkeys(("two", "zwei", "a couple of"), 2),
    **dict.fromkeys(("three", "drei"), 3),
    **dict.fromkeys(("four", "vier"), 4),
    **dict.fromkeys(("five", "fünf"), 5),
    **dict.fromkeys(("six", "sechs"), 6),
    **dict.fromkeys(("seven", "sieben"), 7),
    **dict.fromkeys(("eight", "acht"), 8),
    **dict.fromkeys(("nine", "neun"), 9),
    **dict.fromkeys(("ten", "zehn"), 10),
}
_UNITS = {
    **dict.fromkeys(("day", "days", "tag", "tage", "tagen"), "day"),
    **dict.fromkeys(("week", "weeks", "woche", "wochen"), "week"),
    **dict.fromkeys(("month", "months", "monat", "monate", "monaten"), "month"),
    **dict.fromkeys(("year", "years", "jahr", "jahre", "jahren"), "year"),
}
_DAYS = {
    **dict.fromkeys(("today", "tonight", "this morning", "heute"), 0),
    **dict.fromkeys(("yesterday", "last night", "gestern"), -1),
    **dict.fromkeys(("tomorrow", "morgen"), 1),
    **dict.fromkeys(("the day before yesterday", "vorgestern"), -2),
    **dict.fromkeys(("the day after tomorrow", "übermorgen"), 2),
}


def _any(words: dict[str, int] | dict[str, str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


_MONTH, _NUMBER, _UNIT = _any(_MONTHS), rf"\d{{1,3}}|{_any(_NUMBERS)}", _any(_UNITS)
_YEAR = r"(?:19|20)\d\d"

Read = Callable[["re.Match[str]", date | None], str | None]


def _day(year: int, month: int, day: int) -> str | None:
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return None


def _iso(match: re.Match[str], _today: date | None) -> str | None:
    return _day(int(match[1]), int(match[2]), int(match[3]))


def _european(match: re.Match[str], _today: date | None) -> str | None:
    return _day(int(match[3]), int(match[2]), int(match[1]))


def _named_day(match: re.Match[str], today: date | None) -> str | None:
    """A day of a month; without a year it is the nearest one."""
    month, day = _MONTHS[match["month"]], int(match["day"])
    if match["year"]:
        return _day(int(match["year"]), month, day)
    if today is None:
        return None
    near = [_day(today.year + shift, month, day) for shift in (-1, 0, 1)]
    days = [date.fromisoformat(each) for each in near if each]
    return min(days, key=lambda each: abs(each - today)).isoformat() if days else None


def _named_month(match: re.Match[str], _today: date | None) -> str:
    return f"{match['year']}-{_MONTHS[match['month']]:02}"


def _named_year(match: re.Match[str], _today: date | None) -> str:
    return match["year"]


def _by_word(match: re.Match[str], today: date | None) -> str | None:
    return None if today is None else (today + timedelta(_DAYS[match[1]])).isoformat()


def _ago(match: re.Match[str], today: date | None) -> str | None:
    return _moved(match, today, -1)


def _ahead(match: re.Match[str], today: date | None) -> str | None:
    return _moved(match, today, 1)


def _moved(match: re.Match[str], today: date | None, way: int) -> str | None:
    said = match["number"]
    count = int(said) if said.isdecimal() else _NUMBERS[said]
    return None if today is None else _shifted(today, way * count, _UNITS[match["unit"]])


def _beside(match: re.Match[str], today: date | None) -> str | None:
    """Last, this or next week, month or year."""
    ways = {"l": -1, "n": 1, "v": -1, "k": 1}
    way = ways.get(match["which"][0], 0)
    return None if today is None else _shifted(today, way, _UNITS[match["unit"]])


def _shifted(today: date, count: int, unit: str) -> str | None:
    if unit in {"day", "week"}:
        days = count * (7 if unit == "week" else 1)
        return (today + timedelta(days)).isoformat()
    if unit == "year":
        return f"{today.year + count:04}"
    months = today.year * 12 + today.month - 1 + count
    return f"{months // 12:04}-{months % 12 + 1:02}"


def _weekday(match: re.Match[str], today: date | None) -> str | None:
    if today is None:
        return None
    away = (_WEEKDAYS[match["weekday"]] - today.weekday()) % 7
    if match["which"][0] in "lv":
        away = away - 7 if away else -7
    return (today + timedelta(away or 7)).isoformat()


_LAST_NEXT = r"(?P<which>last|next|letzte[nrs]?|nächste[nrs]?|vorige[nrs]?|kommende[nrs]?)"

# The more exact come first: what one has read, no other reads again.
_READERS: tuple[tuple[re.Pattern[str], Read], ...] = tuple(
    (re.compile(rf"(?<!\w){pattern}(?!\w)", re.IGNORECASE), read)
    for pattern, read in (
        (rf"({_YEAR})-(\d\d)-(\d\d)", _iso),
        (rf"(\d{{1,2}})\.(\d{{1,2}})\.({_YEAR})", _european),
        (
            (
                rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.)? (?:of )?(?P<month>{_MONTH})\.?,?"
                rf"(?: (?P<year>{_YEAR}))?"
            ),
            _named_day,
        ),
        (
            (
                rf"(?P<month>{_MONTH})\.? (?:the )?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?"
                rf"(?!\d)(?:,? (?P<year>{_YEAR}))?"
            ),
            _named_day,
        ),
        (rf"(?P<month>{_MONTH})\.?,? (?:of )?(?P<year>{_YEAR})", _named_month),
        # In German the morning has the same name as tomorrow.
        (rf"(?<!jeden )(?<!am )(?<!guten )(?<!heute )({_any(_DAYS)})", _by_word),
        (rf"(?P<number>{_NUMBER}) (?P<unit>{_UNIT}) (?:ago|back)", _ago),
        (rf"vor (?P<number>{_NUMBER}) (?P<unit>{_UNIT})", _ago),
        (rf"in (?P<number>{_NUMBER}) (?P<unit>{_UNIT})", _ahead),
        (
            rf"(?P<which>last|this|next|letzte[nrs]?|diese[nrs]?|nächste[nrs]?) (?P<unit>{_UNIT})",
            _beside,
        ),
        (rf"{_LAST_NEXT} (?P<weekday>{_any(_WEEKDAYS)})", _weekday),
        (rf"(?:in|since|seit|im Jahr|im Jahre|around|by|until|bis) (?P<year>{_YEAR})", _named_year),
    )
)


def event_date(text: str, today: date | None) -> str | None:
    """Give the date that a statement names, as exact as its words are.

    Args:
        text: The statement, English or German.
        today: The day on which it was said; None where nobody knows.

    Returns:
        ``YYYY-MM-DD``, ``YYYY-MM`` or ``YYYY``; None where it names no date, or counts from a
        day that is not known. Of several dates the first of the most exact kind.

    Example:
        >>> event_date("Broke an arm two days ago", date(2024, 5, 20))
        '2024-05-18'
        >>> event_date("Moved to Hull in 2016", None), event_date("Moved yesterday", None)
        ('2016', None)
    """
    low = text.lower()
    for pattern, read in _READERS:
        for match in pattern.finditer(low):
            if found := read(match, today):
                return found
    return None
