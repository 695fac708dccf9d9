"""Which statements about the past tell an event of a life."""

import re

from memorypipe.llm.offline_rules.durable import state, wish
from memorypipe.llm.offline_rules.lexicon import (
    ILLNESSES,
    PAST_VERBS,
    RELATIONS,
    SAME_FORM_VERBS,
    alternatives,
    words,
)
from memorypipe.llm.offline_rules.objects import is_passing, object_of

__all__ = ["event", "past_possession", "past_state", "perfect"]

_HAD = re.compile(
    rf"(?:(?:an? |my |the |our )?(?:\w+ ){{0,2}}(?:surgery|operation|accident|interview|baby|stroke"
    rf"|heart attack|miscarriage|wedding|appointment|check-up|checkup|audition|exam|performance"
    rf"|concert|exhibition|injury|meeting with|fight with|argument with|(?:dinner|lunch|breakfast"
    rf"|picnic|barbecue|party|reunion|sleepover|date) (?:with|at|for|in)"
    rf"|{alternatives(ILLNESSES)})\b"
    rf"|(?:an? |two |three )(?:\w+ )?(?:{alternatives(RELATIONS)})\b)",
    re.IGNORECASE,
)


def past_possession(text: str) -> bool:
    """Whether what follows "had" is an event or a possession worth keeping."""
    return bool(_HAD.match(text)) and not is_passing(text)


_PAST_STATE = re.compile(
    r"(?:not )?(?:born|raised|diagnosed|promoted|hired|fired|laid off|accepted|admitted"
    r"|married|engaged|"
    r"divorced|elected|awarded|selected|chosen|invited|hospitali[sz]ed|adopted|nominated|injured"
    r"|transferred|offered|in (?:the (?:army|navy|military|hospital)|hospital"
    r"|a (?:car )?(?:accident|crash|band))"
    r"|an? (?:\w+ )?(?:\w*(?:er|or|ist|ian|ant|ent)|nurse|chef|soldier|marine|coach|child|kid"
    r"|member)\b"
    r"|volunteering|working (?:as|at|for)|living in|studying)\b",
    re.IGNORECASE,
)


def past_state(text: str) -> bool:
    """Whether what follows "was" is an event of a life."""
    return bool(_PAST_STATE.match(text))


_BEEN = re.compile(r"been (?P<rest>.+)", re.DOTALL)

_BEEN_STATE = re.compile(
    r"(?:to (?:[A-Z]|the [A-Z])|married|single|divorced|vegetarian|vegan|diagnosed|promoted|hired"
    r"|accepted|offered|invited|selected|a (?:\w+ )?(?:member|fan|teacher|nurse|vegetarian|vegan)"
    r"|in (?:[A-Z]|a relationship|the (?:army|navy))|with (?:my|the company)|playing|dancing"
    r"|singing"
    r"|into [a-z]|interested in [a-z]|sober|friends)\b",
)

_BEEN_TALK = re.compile(
    r"(?:thinking|feeling|wondering|meaning|trying|doing|having|getting|going|looking|hoping|really"
    r"|keeping|seeing|taking|making|enjoying|experiencing|struggling|dealing|focus\w+)\b"
)

_PARTICIPLES = (
    PAST_VERBS
    | SAME_FORM_VERBS
    | words(
        """
    done written gone taken given driven flown become begun sung swum ridden fallen grown
    gotten owned known loved hated broken chosen drawn eaten had
    """
    )
)


def perfect(text: str) -> bool:
    """Whether what follows "have" as an auxiliary (no "not") is worth keeping."""
    been = _BEEN.match(text)
    if been:
        rest = been["rest"]
        if _BEEN_STATE.match(rest):
            return True
        return not _BEEN_TALK.match(rest) and rest.partition(" ")[0].endswith("ing") and state(rest)
    verb, _, tail = text.partition(" ")
    if verb in {
        "known",
        "loved",
        "hated",
        "had",
        "done",
        "gone",
        "taken",
        "made",
        "given",
        "got",
        "gotten",
    }:
        return (
            object_of(tail)
            and bool(re.match(r"(?:an?|my|\w+ing|to [A-Z]|[A-Z])\b", tail))
            and not (is_passing(tail))
        )
    return verb in _PARTICIPLES and _event_object(verb, tail)


_GOT = re.compile(
    r"(?:(?:recently |just |finally )?(?:married|engaged|divorced|promoted|hired|fired"
    r"|laid off|accepted"
    r"|admitted|pregnant|diagnosed|certified|back from|into (?:\w+ing|[A-Z]|a|the)|tickets)\b"
    r"|(?:an?|my|our|two|three|some new|new|the (?:\w+ )?(?:job|offer|promotion|role|lead|part)) "
    r"(?!lot|bit|chance|feeling|question|kick|break|moment|taste|few|great|good|sense|glimpse|hang"
    r"|better|really|call|text|message|mind|head|eye|little|thank|hands|act|point))"
)

_TOOK = re.compile(
    r"(?:(?:an?|my|our|the|some|\w+) (?:[\w'-]+ ){0,3}?(?:trip|class|classes|course|courses"
    r"|lessons?|"
    r"workshop|exam|test|job|train|flight|vacation|holiday|road ?trip|kids?|dogs?|family|week off|"
    r"year off|tour)\b|up [a-z]|part in|over (?:the|my|a))",
)

_CONCRETE = re.compile(
    r"(?:(?:my|our) (?:[\w'-]+ ){0,3}?(?:name|job|jobs|career|major|diet|school|university"
    r"|phone|number"
    r"|hair|mother|mom|mum|father|dad|dog|cat|wallet|keys|weight|flight|wife|husband|grand\w+|friend|"
    r"house|leg|arm|ankle|wrist|recipe|film|album|game|app|team)\b|jobs\b|schools\b|majors\b|\d|"
    r"(?:an?|the|our|my|two|three|second|first|third|some) (?!lot|decision|difference|mistake"
    r"|point|"
    r"good|great|few|bit|effort|choice|really|big difference|plan\b|promise|try|change\b|shot"
    r"|chance|"
    r"speech about|friends)\w|up (?:meat|smoking|drinking|alcohol|coffee|sugar|dairy|gluten)"
    r"|[A-Z]|into a)"
)


# What must follow a verb, and what must not, for it to tell of more than the conversation.
_MUST_FOLLOW = {
    "got": _GOT,
    "took": _TOOK,
    "signed": re.compile("up for "),
    "decided": re.compile("to "),
    "came": re.compile("(?:from|out as|back from) "),
    "saw": re.compile(
        r"(?:an?|the) (?:\w+ ){0,2}(?:movie|film|play|concert|show|exhibition|doctor|musical|band"
        r"|therapist|specialist)\b"
    ),
    **dict.fromkeys(
        words("changed made gave found served turned lost won chose missed"), _CONCRETE
    ),
    **dict.fromkeys(
        words("loved hated preferred enjoyed"),
        re.compile(r"(?:[A-Z]|playing|\w+ing [a-z]+ (?:as|when)|\ue000)"),
    ),
}
_MUST_NOT_FOLLOW = {
    "went": re.compile(r"(?:through (?!a )|for it|well|ahead|on and|over)"),
    **dict.fromkeys(
        words("learned learnt tried spent discovered watched practiced practised"),
        re.compile(
            r"(?:so|a lot|to (?!\w+ (?:a|the|my|how))|that|how (?:important|much)|the importance"
            r"|about(?: (?:the importance|myself))?\b|my best|some (?:of|more)|valuable)"
        ),
    ),
    **dict.fromkeys(
        words("stopped started began"),
        re.compile(
            r"(?:to (?:feel|think|realize|understand|see|get|be|wonder)|by\b|feeling|thinking|off\b"
            r"|noticing|doing (?:it|that)|\w+ing\s*(?:,|$))"
        ),
    ),
    **dict.fromkeys(
        words("worked ran grew fell left moved passed broke played"),
        re.compile(
            r"(?:hard|out\b(?! of)|on (?:it|that|this)|so\b|into (?:a|some|trouble)|apart|behind"
            r"|for it|on\b(?! a| the| my)|down|it\b|that\b)"
        ),
    ),
}

_TOLD = PAST_VERBS | _MUST_FOLLOW.keys()


def _event_object(verb: str, tail: str) -> bool:
    must, must_not = _MUST_FOLLOW.get(verb), _MUST_NOT_FOLLOW.get(verb)
    if must is not None and not must.match(tail):
        return False
    if must_not is not None and must_not.match(tail):
        return False
    return object_of(tail.removeprefix("up ") if verb == "signed" else tail) or verb == "moved"


def event(verb: str, tail: str) -> bool:
    """Whether a past verb and what follows it tell an event of a life.

    Example:
        >>> event("bought", "a piano"), event("bought", "it"), event("thought", "of Rome")
        (True, False, False)
    """
    if verb == "decided":
        return wish(tail)
    return verb in _TOLD and _event_object(verb, tail)
