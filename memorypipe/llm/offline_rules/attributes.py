"""Attributes that a person has once: a new value of one takes the place of the old value."""

import re
from dataclasses import dataclass

from memorypipe.llm.offline_rules.lexicon import JOBS, NUMBER_WORDS, alternatives, words

__all__ = ["Attribute", "attributes_of"]


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """One single-valued attribute.

    Attributes:
        kind: Which, e.g. ``"residence"``, ``"favourite color"``.
        subject: Whose: empty for the user, else normalised words such as ``"daughter emma"``.
        value: The value as written.
        words: The value's words, for comparing.
    """

    kind: str
    subject: str
    value: str
    words: frozenset[str]


_SUBJECT = (
    r"^(?P<subject>(?:[\w'\u2019.-]+ ){0,5}?)"
    r"(?:(?:now|currently|recently|just|finally|has|have|also|is now|has just) )*"
)
_JOBS = alternatives(JOBS)
_DIETS = r"vegetarian|vegan|pescatarian|omnivore|flexitarian|carnivore|meat eater"
_WEDLOCK = r"married|single|divorced|engaged|widowed|separated"
_PLACE = (
    r"(?!(?:my|the|an?|their|with|it|this|that|love|(?-i:new)|different|another)\b)"
    r"(?P<value>[^\W\d_].*)"
)
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(_SUBJECT + pattern, re.IGNORECASE))
    for kind, pattern in (
        (
            "residence",
            r"(?:lives?|living|is living|resides?|is based|based|is located) (?:in|near) " + _PLACE,
        ),
        (
            "residence",
            r"(?:moved|relocated)(?: back| away| over| house)?(?: from [\w .,'\u2019-]+?)? to "
            + _PLACE,
        ),
        (
            "employer",
            (
                r"(?:works?|is working|is employed|started working|started (?:a |their )?new job"
                r"|got (?:a )?(?:new )?job"
                r"|has (?:a )?(?:new )?job|took (?:a )?(?:new )?job)(?: full-time"
                r"| part-time)?(?: as (?:an? )?[\w -]+?)? (?:at|for|with) "
                r"(?!home\b|the moment|(?:a|one|two|three|\d+) \w*\s*(?:years|months)|night"
                r"|weekends|my\b|their\b)(?P<value>.+)"
            ),
        ),
        (
            "job",
            (
                r"(?:works?|is working|is employed|started working|started a new job"
                r"|got a job) as (?:an? )?(?P<value>.+)"
            ),
        ),
        ("job", rf"(?:is|became|has become) an? (?P<value>(?:[\w-]+ ){{0,3}}?(?:{_JOBS})\b.*)"),
        ("name", r"(?:(?:full |real |first )?name is|is (?:called|named)|goes by) (?P<value>.+)"),
        (
            "age",
            (
                r"(?:is|turned|just turned|age is) (?P<value>(?:\d{1,3}"
                r"|[a-z]+(?:-[a-z]+)?) years? old\b.*|\d{1,3}(?: now)?$"
                r"|(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen"
                r"|(?:twen|thir|for|fif|six|seven|eigh|nine)ty(?:-\w+)?)$)"
            ),
        ),
        (
            "wedlock",
            (
                rf"(?:is|got|became|just got)(?: recently| newly| happily| finally"
                rf"| now)? (?P<value>(?:{_WEDLOCK})\b.*)"
            ),
        ),
        (
            "diet",
            rf"(?:is|became|went|turned)(?: now)?(?: an?)?(?: strict)? (?P<value>(?:{_DIETS})\b.*)",
        ),
        ("phone", r"(?:(?:phone|mobile|cell|telephone)(?: number)?) is (?P<value>.+)"),
        ("email", r"e-?mail(?: address)? is (?P<value>.+)"),
        ("address", r"(?:home )?address is (?P<value>.+)"),
        (
            "birthday",
            (
                r"(?:birthday is|was born) (?:on |the )?(?P<value>(?:\d|January|February|March"
                r"|April|May|June|July|August"
                r"|September|October|November|December).*)"
            ),
        ),
        ("origin", r"is (?:originally )?from (?P<value>[^\W\d_].*)"),
        ("school", r"(?:studies|goes to school|is studying) at (?P<value>.+)"),
        ("major", r"(?:majors|is majoring) in (?P<value>.+)"),
        ("weight", r"weighs (?P<value>\d.*)"),
        ("height", r"is (?P<value>\d+(?:\.\d+)? ?(?:cm|m|feet|ft)\b.*)"),
    )
)
# Nothing of the kind can be said without one of these; looking for them is much faster.
_TRIGGERS = {
    kind: re.compile(words)
    for kind, words in {
        "residence": r"liv|resid|based|moved|relocated",
        "employer": r"work|employed|job",
        "job": rf"work|employed|job|\b(?:{_JOBS})\b",
        "name": r"name|called|goes by",
        "age": r"\d|year| turned | is (?:one|t|f|s|e|nine)",
        "wedlock": _WEDLOCK,
        "diet": _DIETS,
        "phone": r"phone|mobile|cell",
        "email": r"mail",
        "address": r"address",
        "birthday": r"birthday|born",
        "origin": r"from",
        "school": r"stud|school",
        "major": r"major",
        "weight": r"weighs",
        "height": r"\d",
    }.items()
}
_FAVOURITE = re.compile(
    r"^(?P<subject>(?:(?!one\b)[\w'\u2019.-]+ ){0,4}?)(?:all-time )?favou?rite (?P<what>[\w "
    r"-]{2,40}?) (?:is|are) (?:now )?(?P<value>.+)$",
    re.IGNORECASE,
)
_VALUE_END = re.compile(
    r"\s*(?:[,;(\u2014]|\s-|\.\s|\b(?:now|since|for|because|and|but|with|where|which|who|when|while|so|after|before|last|this|next"
    r"|yesterday|today|recently|currently|these days|at the moment|ago|in (?:\d{4}|january"
    r"|february|march|april|may|june|july"
    r"|august|september|october|november|december)|as an?|a (?:year|month|week|few)|two|three"
    r"|\d+ (?:years?|months?|weeks?))\b).*$",
    re.IGNORECASE | re.DOTALL,
)
_VALUE_ENDS_BEFORE = {"job": "at|for|in", "residence": "from"}
_WHOLE_VALUES = frozenset({"age", "birthday", "phone", "email", "address", "weight", "height"})
_USER = re.compile(
    r"\b(?:the user's|the user|user's|user|my|their|his|her|i)\b|['\u2019]s\b|[^\w' -]"
)
_SUBJECT_FILLER = words("really now currently just today yesterday recently lately is has")
_MANY = re.compile(
    r"\b(?:daughter|son|brother|sister|child|kid|friend|dog|cat|pet|cousin|uncle|aunt|niece|nephew|twins|colleague"
    r"|puppy|kitten|horse|rabbit|fish|parrot)s?$"
)
# That a value holds now says nothing about the value.
_NOW = re.compile(r"\s+(?:now|currently|these days|at the moment|nowadays)\b", re.IGNORECASE)
_NOT_STATED = re.compile(
    r"\b(?:not|never|no longer|used to|will|going to|planning|wants|hopes|might|if)\b|n't\b"
    r"|n\u2019t\b",
    re.IGNORECASE,
)


def _subject_of(words: str) -> str:
    plain = _USER.sub(" ", words.casefold()).split()
    return " ".join(word for word in plain if word not in _SUBJECT_FILLER)


def _attribute(kind: str, subject: str, value: str) -> Attribute | None:
    short = value.strip() if kind in _WHOLE_VALUES else _VALUE_END.sub("", value).strip()
    short = short.rstrip(" .!")
    if not short:
        return None
    if kind in _VALUE_ENDS_BEFORE:
        short = re.split(rf"\s+(?:{_VALUE_ENDS_BEFORE[kind]})\s+", short)[0]
    if kind == "age":
        number = short.split()[0].casefold()
        return Attribute(
            kind=kind,
            subject=subject,
            value=short,
            words=frozenset({NUMBER_WORDS.get(number, number)}),
        )
    if kind in _WHOLE_VALUES:
        return Attribute(
            kind=kind, subject=subject, value=short, words=frozenset({short.casefold()})
        )
    tokens = frozenset(re.findall(r"[^\W_]+(?:['.-][^\W_]+)*", short.casefold())) - {
        "the",
        "a",
        "an",
        "of",
    }
    return Attribute(kind=kind, subject=subject, value=short, words=tokens)


def attributes_of(text: str) -> tuple[Attribute, ...]:
    """The single-valued attributes that a memory states as holding.

    A person has several daughters or dogs, so "daughter's name" is none; wishes, plans and denials
    state no value.

    Example:
        >>> [moved] = attributes_of("Brother Jack moved to Rome last May")
        >>> moved.kind, moved.subject, moved.value
        ('residence', 'brother jack', 'Rome')
        >>> attributes_of("Used to live in Rome")
        ()
    """
    if _NOT_STATED.search(text):
        return ()
    text = _NOW.sub("", text)
    found: dict[str, Attribute] = {}
    favourite = _FAVOURITE.match(text) if "avo" in text else None
    if favourite:
        kind = f"favourite {favourite['what'].casefold().replace('colour', 'color')}"
        _note(found, _attribute(kind, _subject_of(favourite["subject"]), favourite["value"]))
    lower = text.lower()
    for kind, pattern in _PATTERNS:
        match = pattern.match(text) if _TRIGGERS[kind].search(lower) else None
        if not match:
            continue
        subject = _subject_of(match["subject"])
        if kind == "name" and _MANY.search(subject):
            continue
        _note(found, _attribute(kind, subject, match["value"]))
    return tuple(found.values())


def _note(found: dict[str, Attribute], attribute: Attribute | None) -> None:
    if attribute is not None:
        found.setdefault(attribute.kind, attribute)
