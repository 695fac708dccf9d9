"""German memories put into the English forms that the decision rules read.

Only the frame of a sentence is put over, where it begins as memories do: who lives, works, owns,
likes. What it is about keeps its words, so that equal things stay equal.
"""

import re

__all__ = ["counted", "in_english_form"]

_WHO = (
    r"(?P<who>(?:(?:Bruder|Schwester|Mutter|Vater|Sohn|Tochter|Frau|Mann|Freund|Freundin|Partner|"
    r"Partnerin|Oma|Opa|Onkel|Tante|Cousin|Cousine|Chef|Chefin|Nachbar|Nachbarin)"
    r"(?: [A-ZÄÖÜ][\w-]+)? )?)"
)
_RELATIONS = {
    "Bruder": "Brother",
    "Schwester": "Sister",
    "Mutter": "Mother",
    "Vater": "Father",
    "Sohn": "Son",
    "Tochter": "Daughter",
    "Frau": "Wife",
    "Mann": "Husband",
    "Freund": "Friend",
    "Freundin": "Girlfriend",
    "Partner": "Partner",
    "Partnerin": "Partner",
    "Oma": "Grandmother",
    "Opa": "Grandfather",
    "Onkel": "Uncle",
    "Tante": "Aunt",
    "Cousin": "Cousin",
    "Cousine": "Cousin",
    "Chef": "Boss",
    "Chefin": "Boss",
    "Nachbar": "Neighbour",
    "Nachbarin": "Neighbour",
}
_NUMBERS = {
    "zwei": "2",
    "drei": "3",
    "vier": "4",
    "fünf": "5",
    "sechs": "6",
    "sieben": "7",
    "acht": "8",
    "neun": "9",
    "zehn": "10",
}
_NOW = r"(?:jetzt |nun |inzwischen |seit kurzem )?"
_ARTICLE = r"(?:das|den|die|dem|sein\w*|ihr\w*|mein\w*|ein\w*) "

# The first frame that fits counts; the more exact stand first.
_FRAMES = tuple(
    (re.compile(rf"{_WHO}{frame}$"), english)
    for frame, english in (
        (r"(?:wohnt|lebt) nicht mehr in (?P<a>.+)", r"no longer lives in {a}"),
        (rf"(?:wohnt|lebt) {_NOW}in (?P<a>.+)", "lives in {a}"),
        (r"ist (?:.{1,30} )?(?:nach|in) (?P<a>[A-ZÄÖÜ][\w -]*?) (?:um)?gezogen", "moved to {a}"),
        (r"arbeitet nicht mehr (?:bei|für|als) (?P<a>.+)", "no longer works at {a}"),
        (rf"arbeitet {_NOW}(?:bei|für) (?P<a>.+)", "works at {a}"),
        (rf"arbeitet {_NOW}als (?P<a>.+)", "works as {a}"),
        (rf"ist {_NOW}(?P<a>\d+) Jahre alt", "is {a} years old"),
        (r"ist ledig", "is single"),
        (rf"ist {_NOW}geschieden", "is divorced"),
        (rf"ist {_NOW}mit (?P<a>[A-ZÄÖÜ]\w+) verheiratet", "is married to {a}"),
        (rf"ist {_NOW}mit (?P<a>[A-ZÄÖÜ]\w+) verlobt", "is engaged to {a}"),
        (r"hat (?P<a>[A-ZÄÖÜ]\w+)(?: (?:im|am|in) [\w. ]+?)? geheiratet", "is married to {a}"),
        (
            rf"hat {_ARTICLE}(?P<a>[A-ZÄÖÜ][\w -]*?) (?:verkauft|verschenkt|verloren)",
            "no longer has {a}",
        ),
        (r"hat (?:mit dem |das )(?P<a>Rauchen|Trinken) aufgehört", "no longer {a}"),
        (r"raucht", "rauchen"),
        (r"hat kein\w* (?P<a>.+) mehr", "no longer has {a}"),
        (rf"hat {_NOW}ein\w* (?P<a>.+)", "has a {a}"),
        (rf"hat {_NOW}(?P<a>(?:\d+|{'|'.join(_NUMBERS)}) .+)", "has {a}"),
        (r"(?:liebt|mag) (?:kein\w*|nicht) (?P<a>.+)", "does not like {a}"),
        (r"(?:liebt|mag) (?P<a>.+) nicht", "does not like {a}"),
        (r"(?:liebt|mag) (?P<a>.+)", "likes {a}"),
        (r"hasst (?P<a>.+)", "hates {a}"),
    )
)


def in_english_form(text: str) -> str:
    """Give a German memory in the English form; anything else as it is.

    Example:
        >>> in_english_form("Bruder Jan ist nach Halle gezogen")
        'Brother Jan moved to Halle'
        >>> in_english_form("Lives in Halle")
        'Lives in Halle'
    """
    bare = text.strip().rstrip(".")
    low = bare[:1].lower() + bare[1:]
    for said in (low, bare):
        for pattern, english in _FRAMES:
            if match := pattern.match(said):
                about = match.groupdict().get("a", "")
                return _sentence(match["who"] or "", english.replace("{a}", counted(about)))
    return text


def _sentence(who: str, predicate: str) -> str:
    if not who:
        return predicate[0].upper() + predicate[1:]
    relation, _, name = who.partition(" ")
    return f"{_RELATIONS[relation]} {name}{predicate}"


def counted(about: str) -> str:
    """Give a text with the number word that it begins with as digits.

    Example:
        >>> counted("drei Katzen")
        '3 Katzen'
    """
    number, _, rest = about.partition(" ")
    about = f"{_NUMBERS[number]} {rest}".strip() if number in _NUMBERS else about
    return about.replace(" namens ", " named ")
