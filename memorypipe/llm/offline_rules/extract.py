"""The extraction rules: from a transcript to the facts that its users state about themselves."""

import re
from collections.abc import Hashable, Iterator, Sequence
from datetime import date, datetime
from typing import Any

from memorypipe.llm.offline_rules import sentences as split
from memorypipe.llm.offline_rules.asides import without_asides
from memorypipe.llm.offline_rules.compare import read
from memorypipe.llm.offline_rules.dates import event_date
from memorypipe.llm.offline_rules.introductions import introduced_name
from memorypipe.llm.offline_rules.lexicon import OWN_THINGS, RELATIONS, alternatives, words
from memorypipe.llm.offline_rules.other_languages import other_statements
from memorypipe.llm.offline_rules.rewrite import predicate, third_person_words
from memorypipe.llm.types import ExtractTask, Turn

__all__ = ["extract_facts", "statements"]

_LONGEST = 400  # characters: a longer "sentence" is pasted text, not a statement

_FIRST_PERSON = re.compile(r"\b(?:I|my|My|We|Our|we|our|[Cc]alls? me)\b")
_NOT_MEANT = re.compile(
    r"\b(?:if I|if we|imagine|suppose|what if|pretend|hypothetically|let's say|I wish|would have"
    r"|ignore (?:the|all|any|previous|above|everything)|disregard|delete (?:all|every|my)"
    r"|system prompt"
    r"|as an ai|you are now|save to memory|store:)\b",
    re.IGNORECASE,
)
_ADDRESSED = re.compile(
    r"\b(?:you|your|yours|you're|you've|you'll|you'd|u|ur|yourself)\b", re.IGNORECASE
)
_UNSURE = re.compile(
    r"^(?:maybe|perhaps|hopefully|possibly|if|unless|imagine|suppose)\b", re.IGNORECASE
)

_OPENING = re.compile(
    r"""(?:
      (?:hi|hey|hello|hiya|dear|good\ (?:morning|afternoon|evening)|greetings|howdy|sorry
      |thanks|thank\ you|cheers
        |congrats|congratulations|wow|nice|great|cool|awesome)\b [^,.!?:]{0,25} [,!:]
    | (?:yes|yeah|yep|yup|no|nope|nah|well|actually|also|so|ok|okay|of\ course|sure|certainly
    |definitely|absolutely|right
        |indeed|honestly|frankly|anyway|besides|plus|and|but|oh|ah|aw+|haha|lol|hmm+|um+|uh|man
        |btw|by\ the\ way|in\ fact
        |the\ (?:fact|truth)\ is|to\ be\ honest|as\ for\ me|for\ me|personally|in\ addition
        |moreover|additionally|however
        |(?:besides|apart\ from|other\ than|in\ addition\ to)\ [^,]{2,40}(?=,)|for\ example
        |then|anyways|unfortunately|fortunately|luckily|sadly|guess\ what|exciting\ news
        |good\ news|big\ news
        |fyi|just\ so\ you\ know|as\ you\ know|you\ know|(?:please\ )?(?:note|remember
        |know)(?:\ that)?
        |let\ me\ tell\ you|i\ mean|i\ (?:must|have\ to)\ (?:say|admit)|yes\ please|true
        |exactly|totally|agreed|me\ too|same\ here
        |in\ my\ (?:free|spare)\ time(?=,?\ I\ (?:also\ )?(?:like|love|enjoy)))\b
      \s*(?:[,!:.]|\s-|\u2014|(?=\s+(?:I|I'\w+|my|My|We|we|our|one|in|on|last|this|today|yesterday|recently)\b))
    )\s*-?\s*""",
    re.VERBOSE | re.IGNORECASE,
)
_TIME_LEAD = re.compile(
    r"""(?P<lead>(?:
      (?:today|yesterday|tonight|tomorrow|recently|lately|currently|nowadays|now|finally
      |sometimes|usually|these\ days
        |(?:last|this|next|every|each|the\ other|past)\ [\w-]+(?:\ (?:morning|afternoon|evening
        |night|day|ago))?
        |(?:a|an|one|two|three|four|five|six|\d+|a\ few|a\ couple\ of|several)\ (?:days?|weeks?
        |months?|years?)\ (?:ago|back|later)
        |(?:in|on|since|at|during|by|around|after|before)\ (?:the\ )?(?:last\ |this\ |early\
        |late\ |my\ )?(?:\d{1,4}(?:st|nd|rd|th|s)?
          |(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\w*|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|spring|summer|autumn
          |fall|winter|weekends?|mornings?|evenings?|afternoons?|college|university
          |high\ school|school|work|christmas|easter)
          (?:\ [\w-]+){0,3}
        |(?:in\ my\ (?:free|spare)\ time|on\ weekends|at\ the\ moment|as\ a\ (?:kid|child
        |teenager)|when\ I\ was\ [^,]{2,30})
      )))(?:\s*,\s*|\s+)(?=(?:I|We|we|I'\w+|my|My)\b)""",
    re.VERBOSE | re.IGNORECASE,
)
_OWN_SUBJECT = re.compile(
    rf"""(?:My|Our|my|our)\ (?P<noun>
      (?:(?:full|real|first|last|middle|nick|new|old|own|best|two|three|\d+|older|younger|elder|eldest|oldest|youngest|little|big
        |late|current|previous|dream|native|mother|middle|twin|beloved|pet|adopted|dear|close)[ -])*
      (?:{alternatives(RELATIONS)}|{alternatives(OWN_THINGS)}
      |(?:all-time\ )?favou?rite(?:\ (?!(?:was|is|were|are|when)\b)[\w'-]+){{1,4}}?
        |name)
      (?:'s\ [\w'-]+(?:\ [\w'-]+)??|\ (?:in\ law|number|number|job|plan))?
      (?:,?\ [A-Z][\w'-]+(?:\ [A-Z][\w'-]+)?,?)?
      (?:\ and\ (?:my\ )?[\w'-]+)?
    )\ (?P<verb>is|are|was|were|has|have|had|isn't|aren't|doesn't|don't|will\ be|lives?|works?
    |likes?|loves?|hates?|enjoys?
      |died|passed\ away|got|plays?|goes|speaks?|studies|study|moved|bought|gave|started
      |graduated|graduates|turned|turns
      |wants?|taught|teaches|owns?|runs|grew|came|comes|born|visited|adopted|married|divorced)\b(?P<rest>.*)""",
    re.VERBOSE | re.DOTALL,
)
_OWN_CONTRACTED = re.compile(
    r"^((?:My|Our|my|our) (?:[\w-]+ ){0,2}[\w-]+)'s (?=(?:a|an|the|[A-Z]|\d|called|named|from"
    r"|allergic)\b)"
    r"|^((?:My|my) (?:[\w-]+ )?name)'s (?=[A-Z])"
)
_EMPTY_REMAINDER = re.compile(
    r"\s*(?:always |really |so |very |pretty |just |also |been |such |quite )*(?:good|great"
    r"|fine|ok|okay|well|bad|terrible|busy|awesome"
    r"|amazing|right|happy|sad|tired|excited|proud|supportive|crazy|hectic|there|here|it|that"
    r"|this|them|like (?:that|this)|going"
    r"|coming (?:along|over|up)|in my corner|a blast|a (?:great|good|big) (?:time|help"
    r"|support)|so|everything|the best|my rock"
    r"|a mess|an inspiration|amazing|stoked|thrilled|to me|been)\b|\s*[.!,]*$",
    re.IGNORECASE,
)
# "My wife and I moved": two people in one subject, which no rule here can put into words.
_WITH_SPEAKER = re.compile(r"(?:My|Our|my|our) (?:[\w'-]+ ){1,5}and I ")
_IS_MY = re.compile(
    rf"(?P<subject>[A-Z\ue000][^,.!?]{{0,60}}?) (?P<verb>is|are|was) (?P<rest>(?:definitely "
    rf"|also |still )?(?:one of )?my "
    rf"(?:[\w-]+ )?(?:favou?rites?|{alternatives(RELATIONS)}|hobby|hobbies|passion|hometown"
    rf"|dream|goal)\b.*)",
    re.DOTALL,
)
_FAVOURITE = re.compile(
    r"(?P<subject>One of (?:my|our) (?:biggest |all-time )?(?:favou?rite |goals|dreams|hobbies"
    r"|passions|"
    r"strengths)[\w' -]{0,40}?) (?P<rest>(?:is|are|was) .+)",
    re.DOTALL,
)
_NO_SUBJECT = re.compile(
    r"^(?:it|that|this|these|those|he|she|they|you|what|who|which|there|here|all|everything|family|happiness)\b",
    re.IGNORECASE,
)
_WE = re.compile(
    r"We(?:'ve| have|'re| are)? (?:just |recently |finally |also |both "
    r"|all )?(?P<core>(?:been |going |planning )?(?P<verb>[a-z]+)\b.*)",
    re.DOTALL,
)
_SHORTEST_WE = 4  # words
_WE_PAST = words(
    """
    went visited moved bought adopted married met celebrated hiked camped travelled traveled
    flew watched attended built planted rescued toured opened launched live own hosted got
    """
)
_UNSPOKEN_I = re.compile(
    r"(?:(?:Just|Recently|Finally|Also|Just recently|Actually) )?(?:went to|went on|visited"
    r"|bought|got (?:a|an|my|married|engaged|promoted)"
    r"|started (?:a|an|my|learning|taking|working)|joined|signed up for|finished (?:my|a"
    r"|reading|writing)|moved (?:to|into|in)|adopted|"
    r"graduated|took (?:a|my)|lost my job|quit my job)\b",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"(?:,? (?:too|as well|now|though|by the way|btw|you know|haha|lol))+(?=[.!]*$)", re.IGNORECASE
)
_SIMPLE_WORDS = 14
_BRANCHED = re.compile(
    r"[,;:\u2014]|\s[-\u2013]|\b(?:and|but|because|when|which|that|so|while|where)\b"
)


def statements(
    text: str, *, name: str | None = None, speakers: Sequence[str] = ()
) -> Iterator[str]:
    """The memories that one turn of a user gives, in order.

    Args:
        text: What the user said.
        name: Who speaks; given, each memory begins with the name, so speakers do not mix.
        speakers: All names in the transcript; where one is addressed at a sentence's end it is cut.

    Yields:
        Memory texts.

    Example:
        >>> list(statements("Hi! I'm allergic to peanuts. Any ideas? My daughter Emma is 7."))
        ['Is allergic to peanuts', 'Daughter Emma is 7']
        >>> list(statements("I went to Rome.", name="Ann"))
        ['Ann went to Rome']
    """
    if not split.is_english(text):
        for statement in other_statements(text):
            yield f"{name}: {statement}" if name else statement
        return
    straight = split.straighten(text)
    if not _speaks(straight):
        return
    masked, spans = split.mask_quotes(straight)
    for sentence in split.sentences(masked):
        for said in _of_sentence(sentence, name, speakers):
            yield split.unmask(said, spans)


def _speaks(text: str) -> bool:
    """Whether the first person is in a text: quick to see, and most text has none."""
    return bool(_FIRST_PERSON.search(text) or _UNSPOKEN_I.search(text))


def _of_sentence(sentence: str, name: str | None, speakers: Sequence[str]) -> Iterator[str]:
    if not _speaks(sentence) or len(sentence) > _LONGEST:
        return
    said = without_asides(_without_openings(sentence))
    if "?" in said[-3:] or _NOT_MEANT.search(said):
        return
    for clause in split.clauses(said):
        core = _without_openings(clause)
        if _UNSURE.match(core):
            return
        told = _without_tail(core, speakers)
        introduced = introduced_name(told)
        if introduced:
            yield _prefixed_owner(f"name is {introduced}", "", name)
            continue
        if _ADDRESSED.search(core):
            continue
        memory = _memory(told, name)
        if memory:
            yield memory


def _without_openings(text: str) -> str:
    previous = None
    while previous != text:
        previous = text
        match = _OPENING.match(text)
        if match and match.end() < len(text):
            text = text[match.end() :]
    return text


def _without_tail(text: str, speakers: Sequence[str]) -> str:
    bare = text.rstrip(" !~\u2026")
    bare = bare if re.search(r"\b[A-Z]\.$", bare) else bare.rstrip(".! ")
    for speaker in speakers:
        bare = bare.removesuffix(f", {speaker}")
    return _TAIL.sub("", bare)


def _memory(clause: str, name: str | None) -> str | None:
    lead_match = _TIME_LEAD.match(clause)
    lead = lead_match["lead"] if lead_match else ""
    core = clause[lead_match.end() :] if lead_match else clause
    if core.startswith(("I ", "I'")):
        said = predicate(core)
        return None if said is None else _about_speaker(said, lead, name)
    owned = _own_subject(core)
    if owned:
        joint = _WITH_SPEAKER.match(core)
        return _verbatim(clause, name) if joint else _prefixed_owner(owned, lead, name)
    return _other_subject(core, name) or _without_i(clause, core, lead, name)


def _without_i(clause: str, core: str, lead: str, name: str | None) -> str | None:
    """What is left: "We …", and an "I" that was not spoken."""
    if core.startswith(("We ", "We'", "we ", "we'")):
        return _verbatim(clause, name) if _we(core[0].upper() + core[1:]) else None
    if not lead and _UNSPOKEN_I.match(core):
        said = predicate("I " + core[0].lower() + core[1:])
        return None if said is None else _about_speaker(said, "", name)
    return None


def _about_speaker(said: str, lead: str, name: str | None) -> str:
    said = said.strip()
    if not lead:
        return f"{name} {said}" if name else said[0].upper() + said[1:]
    lead = third_person_words(lead)
    if len(said.split()) <= _SIMPLE_WORDS and not _BRANCHED.search(said):
        moved = f"{said} {lead[0].lower()}{lead[1:]}" if not _keeps_case(lead) else f"{said} {lead}"
        return f"{name} {moved}" if name else moved[0].upper() + moved[1:]
    begin = lead[0].upper() + lead[1:]
    return f"{begin}, {name} {said}" if name else f"{begin}, {said}"


def _keeps_case(lead: str) -> bool:
    return lead[1:2].isupper() or lead[0].isdigit()


def _own_subject(core: str) -> str | None:
    """The rest of a "My …" statement, pronouns turned, without the "My"."""
    core = _OWN_CONTRACTED.sub(r"\1\2 is ", core)
    match = _OWN_SUBJECT.match(core)
    if match is None or _EMPTY_REMAINDER.match(match["rest"]):
        return None
    return third_person_words(core[3:].lstrip() if core[:2] in {"My", "my"} else core[4:].lstrip())


def _prefixed_owner(owned: str, lead: str, name: str | None) -> str:
    text = f"{name}'s {owned}" if name else owned[0].upper() + owned[1:]
    return f"{text} ({lead.lower()})" if lead else text


def _other_subject(core: str, name: str | None) -> str | None:
    """As in "Sushi is my favourite food", "One of my hobbies is chess"."""
    match = _FAVOURITE.match(core) or _IS_MY.match(core)
    if match is None or _NO_SUBJECT.match(match["subject"]):
        return None
    if name is not None:
        core = re.sub(r"\b(?:my|our)\b", f"{name}'s", core, count=1)
    return third_person_words(core)


def _we(core: str) -> bool:
    match = _WE.match(core)
    if match is None:
        return False
    verb = match["verb"]
    words = len(core.split())
    planned = match["core"].startswith(("planning ", "going to "))
    return (
        words >= _SHORTEST_WE
        and (verb in _WE_PAST or planned)
        and predicate("I " + verb + core[match.end("verb") :]) is not None
    )


def _verbatim(clause: str, name: str | None) -> str:
    capital = clause[0].upper() + clause[1:]
    return f"{name}: {capital}" if name else capital


_DATE_LINE = re.compile(r"^\s*Date:\s*(?P<date>.+?)\s*$", re.MULTILINE | re.IGNORECASE)
_DATE_FORMATS = ("%d %B %Y", "%d %B, %Y", "%B %d, %Y", "%B %d %Y", "%Y/%m/%d")


def _context_date(context: str | None) -> date | None:
    match = _DATE_LINE.search(context or "")
    return _day_of(match["date"]) if match else None


def _day_of(said: str) -> date | None:
    try:
        return date.fromisoformat(said[:10])
    except ValueError:
        pass
    for known in _DATE_FORMATS:
        try:
            return datetime.strptime(said, known).date()  # noqa: DTZ007  # a day has no zone
        except ValueError:
            continue
    return None


def _is_evidence(turn: Turn) -> bool:
    return turn.role == "user" and not turn.background


def extract_facts(task: ExtractTask) -> list[dict[str, Any]]:
    """The memories that a transcript gives, as items of an extraction reply.

    Only turns of the role ``user`` that are no background are read. A fact said twice is one item
    that names both turns.

    Args:
        task: The transcript and the text about it.

    Returns:
        Items with ``text``, and, where known, ``sources`` (turn ids) and ``event_time``: the date
        that the statement names, else that of the turn, else of the context's ``Date:`` line.
    """
    day = _context_date(task.context)
    speakers = _speaker_names(task.turns)
    found: dict[Hashable, dict[str, Any]] = {}
    for turn in task.turns:
        if not _is_evidence(turn):
            continue
        for text in statements(turn.content, name=turn.name or None, speakers=speakers):
            said_on = turn.timestamp.date() if turn.timestamp else day
            item = found.setdefault(_meaning(text), _item(text, said_on))
            if turn.id is not None and turn.id not in item.setdefault("sources", []):
                item["sources"].append(turn.id)
    return list(found.values())


# Of more names and numbers some could change places, and so the meaning: "lent Tom Ann's car".
_FEW_NAMES = 2


def _meaning(text: str) -> Hashable:
    """What two texts share that say the same: "has two cats", "really has 2 cats"."""
    said = read(text)
    if not said.verb or len(said.ordered) > _FEW_NAMES:
        return said.normal
    return (said.words, said.verb, said.subject, said.negated, said.past, said.replaced)


def _item(text: str, said_on: date | None) -> dict[str, Any]:
    event_time = event_date(text, said_on) or (said_on and said_on.isoformat())
    return {"text": text} if event_time is None else {"text": text, "event_time": event_time}


def _speaker_names(turns: Sequence[Turn]) -> tuple[str, ...]:
    names = {turn.name for turn in turns if turn.name}
    return tuple(sorted(names | {name.split()[0] for name in names if name.strip()}))
