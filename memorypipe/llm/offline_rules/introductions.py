"""How people say their name: "I'm Priya", "Call me Pri"."""

import re

from memorypipe.llm.offline_rules.lexicon import (
    ADVERBS,
    ILLNESSES,
    JOBS,
    PROGRESSIVE_VERBS,
    RELATIONS,
    words,
)

__all__ = ["introduced_name"]

_NAME = r"(?P<name>[^\W\d_a-z][\w'\u2019-]*(?: [^\W\d_a-z][\w'\u2019-]*){0,2})"
_NAMED = re.compile(
    r"(?:I'm called|I am called|I'm named|I am named|I go by"
    r"|(?:(?:[Ee]veryone|[Ee]verybody) calls|(?:(?:[Mm]y|[Mm]ost) )?(?:[Pp]eople|[Ff]riends) call"
    r"|(?:[Pp]lease |[Yy]ou (?:can|may) )?(?:[Jj]ust )?[Cc]all) me) " + _NAME + r"$"
)
_AM = re.compile(r"(?:I'm|I am) " + _NAME + r"(?:$|, (?=(?:an?|the|\d+|from)\b))")
_AM_BUT_NOT = words(
    """
    african afghan american arab argentine asian belarusian brazilian british chilean colombian
    cuban czech danish dutch egyptian english european filipino finnish french german greek hispanic
    icelandic indian iraqi irish israeli kiwi korean kurdish latina latino latvian lebanese mexican
    moroccan native nepali norwegian pakistani peruvian portuguese russian saudi scots scottish
    south spanish swede swedish swiss thai turkish uk us welsh
    north west east northern southern western eastern

    agnostic anglican atheist baptist buddhist catholic christian hindu jain jewish lutheran
    methodist mormon muslim orthodox pagan protestant quaker shia sikh sunni

    aquarius aries capricorn gemini libra pisces sagittarius scorpio taurus virgo
    monday tuesday wednesday thursday friday saturday sunday january february march october
    november december

    assistant associate board captain chair chief corporal deputy dr executive head intern junior
    lead lieutenant major mr mrs ms officer owner partner president private product prof sales
    senior sergeant sir team type vice

    able afraid alone amazed angry anxious awake aware back bored busy calm certain cold confused
    curious disabled dizzy done excited exhausted fine free full glad good great grateful happy
    here home hungry ill in late lonely lost lucky mad married nervous new not ok okay old on out
    over pregnant proud ready retired sad scared sick single sorry stressed stuck sure there
    thirsty tired upset vegan vegetarian well worried young a an the my your no yes all both so
    too very just from into at by for with gay lesbian bisexual trans queer deaf blind autistic
    diabetic asthmatic generation gen millennial boomer democrat republican
    """
)
_KNOWN = _AM_BUT_NOT | ADVERBS | ILLNESSES | JOBS | PROGRESSIVE_VERBS | RELATIONS
# "Italian", "Japanese", "Polish": all but these are no names.
_DEMONYM = re.compile(r"(?:ian|ese|ish|ean)$")
_NAMES_LIKE_DEMONYMS = words(
    """
    adrian aidan alan bastian brian bryan damian dorian fabian florian gillian hamish ian julian
    jean kilian killian lillian manish marian octavian reese sean sebastian trish vivian dean
    """
)


def introduced_name(clause: str) -> str | None:
    """The name by which a clause introduces its speaker, None where it does not.

    Example:
        >>> introduced_name("I'm Priya"), introduced_name("Call me Pri")
        ('Priya', 'Pri')
        >>> introduced_name("I'm Italian"), introduced_name("I'm Head of Sales")
        (None, None)
    """
    match = _NAMED.match(clause) or _AM.match(clause)
    if match is None or any(not _can_name(word) for word in match["name"].split()):
        return None
    return match["name"]


def _can_name(word: str) -> bool:
    lower = word.casefold()
    if len(word) > 1 and word.isupper():
        return False  # "CEO", "OK", "INFJ"
    if any(part in _KNOWN for part in re.split(r"[-'\u2019]", lower)):
        return False
    return lower in _NAMES_LIKE_DEMONYMS or not _DEMONYM.search(lower)
