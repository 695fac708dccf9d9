"""What a new text claims that none of its sources does."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from memorypipe.evidence.figures import figures, known_figures
from memorypipe.evidence.likeness import is_negated, tells_change
from memorypipe.evidence.names import knows_name, new_runs, proper_names

__all__ = ["unfounded"]

# Not from `strftime`: its names depend on the machine's language.
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August"),
    *("September", "October", "November", "December"),
)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def unfounded(
    text: str, sources: Sequence[str], *, times: Sequence[datetime] = ()
) -> tuple[str, ...]:
    """Give the numbers, dates and proper names of a text that occur in none of its sources.

    A negation that no source has, and a denial that the text drops while every source has it,
    are unfounded too.

    Args:
        text: A merged, changed or new memory.
        sources: What it was made of: the memory before, the fact, and what goes with them.
        times: When those were said; their dates may be named too.

    Returns:
        What is unfounded, as written; empty where everything rests on something.

    Example:
        >>> unfounded("Has 3 cats and lives with Eve", ["Has 2 cats", "Now has 3 cats"])
        ('Eve',)
    """
    for time in times:
        # Taken out, not added to the sources: the 2nd of April is no evidence of two cats.
        text = _named(time).sub(" ", text)
    given = "\n".join(sources)
    known = known_figures(given)
    made_up = [written for written, readings in figures(text).items() if not readings & known]
    names = proper_names(text, beside=given)
    made_up += [name for name in names if not knows_name(name, given)]
    made_up += new_runs(text, given)
    if is_negated(text) and not is_negated(given):
        made_up.append("not")
    elif sources and all(map(is_negated, sources)) and not tells_change(text):
        made_up.append("a denial turned round")
    return tuple(dict.fromkeys(made_up))


def _named(time: datetime) -> re.Pattern[str]:
    """How a moment can be named: as a whole, and by its year, month, weekday or hour."""
    ways = sorted(_ways(time), key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(ways)})(?!\w)", re.IGNORECASE)


def _ways(time: datetime) -> Iterator[str]:
    year, month, day = str(time.year), f"0?{time.month}", f"0?{time.day}"
    full = _MONTHS[time.month - 1]
    name = f"(?:{full}|{full[:3]})"
    nth = rf"{day}(?:st|nd|rd|th|\.)?"
    # Days first and months first are both usual.
    for before, after in ((year, f"{month}[-/.]{day}"), (f"{day}[-/.]{month}", year)):
        yield f"{before}[-/.]{after}"
    yield f"{month}[-/.]{day}[-/.]{year}"
    for written in (f"{nth} (?:of )?{name}", f"{name} (?:the )?{nth}"):
        yield f"{written},? {year}"
        yield written
    yield f"{name},? {year}"
    yield f"{year}年{month}月(?:{day}日)?"
    yield f"{month}月{day}日"
    yield from (year, _WEEKDAYS[time.weekday()], full, f"0?{time.hour}:{time.minute:02}")
