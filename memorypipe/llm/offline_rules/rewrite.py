"""From a first-person clause to the text of a memory, or to nothing where it will not last.

A clause is taken only where a rule says that it tells something durable about the speaker. What a
rule changes is the grammatical person; numbers, names and negation pass through untouched.
"""

import re
from collections.abc import Callable

from memorypipe.llm.offline_rules import durable, life_events, objects
from memorypipe.llm.offline_rules.lexicon import (
    ADVERBS,
    DROPPED_ADVERBS,
    FREQUENCY,
    SAME_FORM_VERBS,
    alternatives,
    third_person,
)

__all__ = ["predicate", "third_person_words"]

_ADVERB_RUN = re.compile(rf"(?:(?:{alternatives(ADVERBS)})\s+)*")
_NOT = re.compile(r"(?:not|never|no longer)\s+")
_FREQUENCY = re.compile(rf"\b(?:{alternatives(FREQUENCY)})\b", re.IGNORECASE)


def _adverbs(rest: str) -> tuple[str, str]:
    """Split leading adverbs off, without those that say nothing."""
    match = _ADVERB_RUN.match(rest)
    run = match.group() if match else ""
    kept = " ".join(word for word in run.split() if word not in DROPPED_ADVERBS)
    return (kept + " " if kept else ""), rest[len(run) :]


def _being(rest: str) -> str | None:
    adverbs, rest = _adverbs(rest)
    negation = _NOT.match(rest)
    negated = negation.group() if negation else ""
    more, core = _adverbs(rest[len(negated) :])
    return f"is {adverbs}{negated}{more}{core}" if durable.state(core) else None


def _not_being(rest: str) -> str | None:
    adverbs, core = _adverbs(rest)
    return f"isn't {adverbs}{core}" if durable.state(core) else None


def _was(rest: str) -> str | None:
    adverbs, core = _adverbs(rest)
    return f"was {adverbs}{core}" if life_events.past_state(core) else None


def _perfect(rest: str) -> str | None:
    """After "I've": a perfect tense, or "have got"."""
    adverbs, core = _adverbs(rest)
    negation = _NOT.match(core)
    negated = negation.group() if negation else ""
    core = core[len(negated) :]
    if core.startswith("got ") and durable.possession(core[4:]):
        return f"has {adverbs}{negated}{core}"
    return f"has {adverbs}{negated}{core}" if life_events.perfect(core) else None


def _having(rest: str) -> str | None:
    """After "I have": a possession, else a perfect tense."""
    adverbs, core = _adverbs(rest)
    if durable.possession(core):
        return f"has {adverbs}{core}"
    return _perfect(rest)


def _not_perfect(rest: str) -> str | None:
    adverbs, core = _adverbs(rest)
    return f"hasn't {adverbs}{core}" if life_events.perfect(core) else None


def _not_doing(auxiliary: str) -> Callable[[str], str | None]:
    def rule(rest: str) -> str | None:
        adverbs, core = _adverbs(rest)
        verb, _, tail = core.partition(" ")
        kept = durable.possession(tail) if verb == "have" else durable.habit(verb, tail)
        return f"{auxiliary} {adverbs}{core}" if kept else None

    return rule


def _able(auxiliary: str) -> Callable[[str], str | None]:
    def rule(rest: str) -> str | None:
        adverbs, core = _adverbs(rest)
        return f"{auxiliary} {adverbs}{core}" if durable.ability(core, auxiliary) else None

    return rule


def _future(auxiliary: str) -> Callable[[str], str | None]:
    def rule(rest: str) -> str | None:
        adverbs, core = _adverbs(rest)
        return f"{auxiliary} {adverbs}{core}" if durable.future(core) else None

    return rule


def _used_to(rest: str) -> str | None:
    verb, _, tail = rest.partition(" ")
    kept = durable.habit(verb, tail) or durable.possession(tail) or durable.state(tail)
    return f"used to {rest}" if kept else None


def _had(rest: str) -> str | None:
    adverbs, core = _adverbs(rest)
    return f"had {adverbs}{core}" if life_events.past_possession(core) else None


def _plain_verb(rest: str) -> str | None:
    """A verb right after "I": conjugated where it is surely present, kept where surely past."""
    adverbs, core = _adverbs(rest)
    negated = ""
    if core.startswith("no longer "):
        negated, core = "no longer ", core[len("no longer ") :]
    verb, _, tail = core.partition(" ")
    verb = verb.rstrip(".,!")
    if verb in SAME_FORM_VERBS and _FREQUENCY.search(adverbs + tail):
        return f"{adverbs}{negated}{third_person(verb)} {tail}" if objects.object_of(tail) else None
    if life_events.event(verb, tail):
        return f"{adverbs}{negated}{verb} {tail}"
    if durable.habit(verb, tail):
        return f"{adverbs}{negated}{third_person(verb)} {tail}"
    return None


_RULES: tuple[tuple[re.Pattern[str], Callable[[str], str | None]], ...] = tuple(
    (re.compile(pattern + r"\s+"), rule)
    for pattern, rule in (
        (r"(?:am not|'m not)", lambda rest: _being("not " + rest)),
        (r"ain't", _not_being),
        (r"(?:'m|\s*am)", _being),
        (r"(?:wasn't|was not)", lambda rest: _was("not " + rest)),
        (r"was", _was),
        (r"(?:haven't|have not|'ve not)", _not_perfect),
        (r"'ve", _perfect),
        (r"have", _having),
        (r"(?:don't|do not)", _not_doing("doesn't")),
        (r"(?:didn't|did not)", _not_doing("didn't")),
        (r"used to", _used_to),
        (r"(?:can't|cannot|can not)", _able("can't")),
        (r"can", _able("can")),
        (r"(?:'ll|will)", _future("will")),
        (r"(?:won't|will not)", _future("won't")),
        (r"(?:had)", _had),
        (
            r"(?:would|could|should|might|may|must|shall|ought|wouldn't|couldn't|'d)\b",
            lambda _: None,
        ),
    )
)


def predicate(clause: str) -> str | None:
    """What a clause that begins with "I" says of the speaker, in the third person.

    Args:
        clause: The clause, its quoted spans masked, beginning with ``I``.

    Returns:
        The predicate without a subject, or None where the clause says nothing that lasts.

    Example:
        >>> predicate("I live in Rome"), predicate("I don't eat meat"), predicate("I'm tired")
        ('lives in Rome', "doesn't eat meat", None)
    """
    rest = clause[1:].lstrip()
    adverbs = ""
    if rest[:1].isalpha():
        # "I really can't swim": adverbs stand before the auxiliary, too.
        adverbs, after = _adverbs(rest)
        if after != rest and _auxiliary(after) is None:
            adverbs = ""
        else:
            rest = after
    found = _auxiliary(rest)
    if found is None:
        said = _plain_verb(rest)
    else:
        rule, tail = found
        said = rule(tail)
    return None if said is None else third_person_words(_agreeing(adverbs + said))


def _auxiliary(rest: str) -> tuple[Callable[[str], str | None], str] | None:
    for pattern, rule in _RULES:
        match = pattern.match(rest)
        if match:
            return rule, rest[match.end() :]
    return None


# A second verb that shares the subject: "is into cars and love(s) to race".
_SECOND_VERB = re.compile(
    r"(?<=\band )(?P<adverb>(?:also|really|always|still|just) )?(?P<verb>love|like|enjoy|hate"
    r"|prefer|live|work|eat|drink|go|play|cook|take|write|have|haven't|don't|am)"
    r"(?= (?:been|an?|the|to|in|at|as|my|two|no|gone|like|want|have|\w+ing)\b)"
    r"|(?<=\bbut )(?P<but>haven't|don't|have|am)(?= )"
)
_AGREED = {"haven't": "hasn't", "don't": "doesn't", "am": "is"}


def _agreeing(said: str) -> str:
    def agree(match: re.Match[str]) -> str:
        if " to " in said[: match.start()]:
            return match.group()  # "likes to sing and play the drums": it may hang on "to"
        verb = match["verb"] or match["but"]
        return (match["adverb"] or "") + (_AGREED.get(verb) or third_person(verb))

    return _SECOND_VERB.sub(agree, said)


_FIRST_PERSON = re.compile(
    r"(?:\b(?P<before>[A-Z]\w*)\s+)?\b(?P<i>I'm|I am|I was|I)(?='|\b)(?!\.)"
    r"|\b(?P<other>my|mine|me|myself|our|ours)\b"
)
# Beside these "our" is whose "we" says it is.
_PLURAL = re.compile(r"\b(?:[Ww]e|us)\b")
_CONJUNCTIONS = frozenset({"After", "As", "Before", "Since", "When", "While"})
_THIRD_PERSON = {
    "I'm": "they're", "I am": "they are", "I was": "they were", "I": "they",
    "my": "their", "mine": "theirs", "me": "them", "myself": "themselves",
    "our": "their", "ours": "theirs",
}  # fmt: skip


def third_person_words(text: str) -> str:
    """Put the speaker's pronouns into the third person; verbs fit, as "they" takes base forms.

    Example:
        >>> third_person_words("moved because I was tired of my job in World War I studies")
        'moved because they were tired of their job in World War I studies'
    """
    plural = _PLURAL.search(text) is not None

    def turn(match: re.Match[str]) -> str:
        if match["other"]:
            if plural and match["other"].startswith("our"):
                return match["other"]
            return _THIRD_PERSON[match["other"]]
        before = match["before"]
        if before and before not in _CONJUNCTIONS:
            return match.group()  # "World War I", "Elizabeth I"
        return (before + " " if before else "") + _THIRD_PERSON[match["i"]]

    return _FIRST_PERSON.sub(turn, text)
