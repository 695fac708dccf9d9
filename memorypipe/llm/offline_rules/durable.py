"""Which statements about the present and the future last: who someone is, has, likes, plans."""

import re

from memorypipe.llm.offline_rules.lexicon import (
    CHAT_VERBS,
    GOAL_VERBS,
    HABIT_VERBS,
    ILLNESSES,
    PREFERENCE_VERBS,
    PROGRESSIVE_VERBS,
    RELATIONS,
    alternatives,
    words,
)
from memorypipe.llm.offline_rules.objects import is_passing, object_of, points

__all__ = ["ability", "future", "habit", "possession", "state", "wish"]

_DISLIKED_OBJECT = re.compile(
    r"(?:(?:their|our (?:talk|chat|conversation|friendship)s?|the (?:way|idea|sound|look|color"
    r"|colour|fact|thought|vibe|energy|way)|hearing"
    r"|being able|to (?:hear|see|know|think|believe|ask|say|tell|share|help|give|call)|talking"
    r"|chatting"
    r"|getting to|sharing|when|working with|every|each|any|being|connecting|giving|bringing"
    r"|watching (?:them|him|her|it|the)|helping out|making (?:an?|the|people|others|things|sure))\b"
    # "the colours" of a picture just shown; places, seasons and titles are meant in general.
    r"|the (?!outdoors|ocean|sea\b|beach|mountains|rain|snow|countryside|piano|guitar|violin|cello"
    r"|gym|theatre|theater|cinema|movies|winter|summer|spring|autumn|smell of|taste of|water"
    r"|cold|heat"
    r"|book|novel|series|film|movie|show|band|color|colour|[A-Z\ue000]))",
)

_FREQUENT = re.compile(
    r"\b(?:every|daily|weekly|monthly|each|usually|often|always|on (?:\w+days|weekends)|in the"
    r" (?:mornings?|evenings?|afternoons?)|twice|times|once|hours?|minutes)\b",
    re.IGNORECASE,
)

_WISH = re.compile(
    rf"(?:to\s+)?(?:become|be an?|have (?:a|my own|kids|children)|own|get (?:a|an|my|married|into)"
    rf"|take (?:a|an|up|part|my)|go (?:(?:on|for) a trip|to [A-Z]|back to (?:school|college"
    rf"|university))|lose weight"
    rf"|{alternatives(GOAL_VERBS)})\b(?P<tail>.*)",
    re.DOTALL,
)


def wish(text: str) -> bool:
    """Whether an infinitive names a goal: to become, to own, to move, to learn something."""
    match = _WISH.match(text)
    return match is not None and object_of(text) and not points(match["tail"].strip())


def habit(verb: str, tail: str) -> bool:
    """Whether a base verb and what follows it tell a habit, a taste or a lasting wish."""
    if verb in PREFERENCE_VERBS:
        return object_of(tail) and not _DISLIKED_OBJECT.match(tail)
    if verb in {"want", "hope", "intend", "aim", "dream", "wish"}:
        return tail.startswith(("to ", "of becoming", "of owning", "of opening")) and (
            wish(tail) or tail.startswith("of ")
        )
    if verb == "plan":
        return object_of(tail) and not _chat(tail.removeprefix("to ").removeprefix("on "))
    if verb in {"go", "do", "make", "share", "walk", "watch", "draw", "wake", "take", "support"}:
        return object_of(tail) and bool(_FREQUENT.search(tail) or verb in {"walk", "draw", "wake"})
    if verb in {"work", "come", "live"}:
        return object_of(tail) and not re.match(r"(?:hard|on (?:it|that|this)|up|across)\b", tail)
    return verb in HABIT_VERBS and object_of(tail)


def _chat(text: str) -> bool:
    return text.partition(" ")[0].rstrip(".,!?") in CHAT_VERBS


_OWNED = re.compile(
    rf"(?:an? |no |\d|two |three |four |five |six |seven |eight |nine |ten |some |several |many"
    rf"|(?:lots|plenty|a couple|a lot|tons) of (?:\w+ )?(?:{alternatives(RELATIONS)}|books|plants)"
    rf"|my (?:own|first)|(?:\w+ )?(?:{alternatives(RELATIONS)})\b"
    rf"|(?:\w+ )?(?:{alternatives(ILLNESSES)})\b"
    rf"|high (?:blood|cholesterol)|low blood|type [12]\b|(?:blue|brown|green|curly|short|long|red"
    rf"|blond|blonde|black|dark) (?:hair|eyes))",
    re.IGNORECASE,
)


def possession(text: str) -> bool:
    """Whether what follows "have" is owned, a relation or an illness."""
    return bool(_OWNED.match(text)) and not is_passing(text) and not points(text)


_STATE = re.compile(
    r"""(?:originally\ )?(?:
      from\ (?:[A-Z]|a\ |the\ )
    | based\ in\b | fluent\ in\b | bilingual\b | native\ to\b
    | (?:happily\ |newly\ |already\ )?(?:married|single|divorced|engaged|widowed
    |separated)\b(?!\ (?:out|from\ the))
    | (?:\w+\ (?:weeks|months)\ )?pregnant\b | retired\b | unemployed\b | self-employed\b
    | employed\b
    | between\ jobs\b | adopted\b | an\ only\ child\b
    | (?:a\ |an\ )?(?:strict\ |lifelong\ )?(?:vegetarian|vegan|pescatarian|omnivore
    |teetotal(?:er)?)\b
    | (?:mildly\ |severely\ )?(?:allergic|intolerant|sensitive)\ to\ | lactose | gluten
    | diabetic\b | asthmatic\b
    | dyslexic\b | autistic\b | colou?r[- ]?blind\b | deaf\b | blind\b | left-handed\b
    | right-handed\b
    | gay\b | lesbian\b | bisexual\b | trans(?:gender)?\b | queer\b | non-?binary\b
    | (?:afraid|scared|terrified)\ of\ (?!you|that|it|what|making|losing|saying|not|being
    |failing|doing)
    | (?:passionate|crazy|enthusiastic)\ about\ | obsessed\ with\ | addicted\ to\ | fond\ of\
    | keen\ on\ | good\ at\ | bad\ at\
    | interested\ in\ | (?:a\ )?(?:huge|big|massive|great)\ (?:fan|lover)\ of\ | a\ fan\ of\
    | into\s
    | (?:born|raised)\ (?:in|on)\b
    | (?:about\ |around\ |almost\ |over\ )?\d{1,3}(?:\ (?:years?|y\.?o)\b|\b(?!\s*%))
    | (?:twenty|thirty|forty|fifty|sixty|seventy)(?:-\w+)?(?:\ years\ old|\s*[.,!]|$) | turning\ \d
    | \d(?:\.\d+)?\ ?(?:cm|m|kg|feet|ft)\b
    | (?:christian|catholic|muslim|jewish|buddhist|hindu|atheist|agnostic|protestant|sikh)\b
    | (?:american|british|italian|german|french|spanish|chinese|japanese|korean|indian|canadian
    |irish
        |mexican|brazilian|australian|russian|polish|dutch|swedish|portuguese|turkish|african)\b
    | the\ (?:\w+\ )?(?:youngest|oldest|eldest|owner|founder|co-founder|ceo|cto|head|director
    |manager
        |captain|president|mother|father|author|lead\w*)\b
    | (?:proud\ )?(?:owner|mother|father|parent)\ of\ | trained\ as\ | currently\ reading\
    | on\ (?:a\ diet|medication|maternity|parental)
    )""",
    re.VERBOSE | re.IGNORECASE,
)

_ROLE = re.compile(r"(?:an?) (?P<role>(?:[\w'-]+\s?){1,5})", re.IGNORECASE)

_NO_ROLE = re.compile(
    r"\b(?:bit|little|tad|mess|wreck|fool|idiot|loss|lot|failure|good|great|huge|big|believer|sucker|better"
    r"|happy|lucky|work in progress|pro|couple|similar|hurry|bad mood|good mood|mood|place"
    r"|beginner|newbie"
    r"|step|position|way|creative person|curious)\b",
    re.IGNORECASE,
)

_GOING_TO = re.compile(
    r"(?:going to|gonna|about to|planning to|planning on|hoping to|aiming to)\s+"
)

_STUDYING_CHAT = re.compile(
    r"(?:[,.!]|$|as usual|lately\b|a lot\b|mostly\b|so\b|really\b|well\b|better\b|great\b|hard\b)"
)


def state(text: str) -> bool:
    """Whether what follows "am" lasts: identity, health, taste, or something under way."""
    if _STATE.match(text):
        return object_of(text) and not re.search(r"\bdepends\b", text)
    role = _ROLE.match(text)
    if role:
        return not _NO_ROLE.search(role["role"]) and object_of(text)
    plan = _GOING_TO.match(text)
    if plan:
        rest = text[plan.end() :]
        return _planned(rest, broad=text.startswith("planning"))
    verb, _, tail = text.partition(" ")
    if verb not in PROGRESSIVE_VERBS or _STUDYING_CHAT.match(tail) or not object_of(tail):
        return False
    if verb in {"getting", "going", "doing", "seeing", "trying", "watching", "taking", "having"}:
        return bool(_SOME_PROGRESSIVES.match(text))
    return True


_SOME_PROGRESSIVES = re.compile(
    r"getting (?:married|engaged|divorced|promoted|an?\b|my\b)|going (?:to (?!try|be|do"
    r"|see)[A-Z]\w+"
    r"|to (?:a|an|the) \w+|on (?:a|an|vacation|holiday)|through (?:a|my) divorce|back to (?:school"
    r"|college|university))|doing (?:a|an|my) (?:degree|phd|master\w*|internship|course|thesis"
    r"|residency)"
    r"|seeing a (?:\w+ )?(?:therapist|doctor|counsell?or|specialist|psychologist)|trying to (?:lose"
    r"|quit|learn|become|eat less|cut down|save|get pregnant|find a (?:new )?job|stop)"
    r"|taking (?:an?|my|some|part|\w+ (?:classes|lessons|courses?|medication)"
    r"|\w+ for)\b(?! break| look| step)",
)


def _planned(rest: str, *, broad: bool) -> bool:
    if wish(rest):
        return True
    return broad and object_of(rest) and not _chat(rest)


_FUTURE_VERBS = words(
    "adopt attend become fly graduate host join launch marry move quit relocate retire travel turn"
)


def future(text: str) -> bool:
    """Whether what follows "will" is a plan for a life rather than a promise in a chat."""
    match = re.match(r"(?:be (?P<being>.+)|(?P<plan>.+))", text, re.DOTALL)
    if match is None:
        return False
    if match["being"]:
        verb = match["being"].partition(" ")[0]
        return (verb in PROGRESSIVE_VERBS and state(match["being"])) or bool(
            re.match(r"\d", match["being"])
        )
    verb, _, tail = text.partition(" ")
    return verb in _FUTURE_VERBS and object_of(tail)


_CAN = re.compile(
    r"(?:speak|play|swim|drive|cook|code|read|write|ride|ski|sew|dance|sing|juggle|program"
    r"|surf) \w|"
    r"(?:swim|drive|cook|code|ski|sew|juggle|program|sing)\b[.!]?$"
)

_CANNOT = re.compile(
    r"(?:eat|drink|digest|tolerate|stand|drive|swim|ride|cook|speak|have (?:children|kids"
    r"|dairy|gluten)"
    r"|sleep without|hear out|walk without|smell|ski|play|read music|live without)\b(?P<tail>.*)",
    re.DOTALL,
)


def ability(text: str, auxiliary: str) -> bool:
    """Whether what follows "can" or "can't" is an ability, an intolerance or an aversion."""
    if auxiliary == "can":
        return bool(_CAN.match(text)) and not points(text.partition(" ")[2])
    match = _CANNOT.match(text)
    return match is not None and not points(match["tail"].strip())
