"""How a new fact stands to one existing memory: the rules for a single pair."""

import re
from enum import Enum

from memorypipe.llm.offline_rules.attributes import Attribute
from memorypipe.llm.offline_rules.compare import Reading
from memorypipe.llm.offline_rules.lexicon import RELATIONS

__all__ = [
    "Relation",
    "changed_attribute",
    "kinds_of",
    "merged_text",
    "relation",
    "retracted_object",
]


class Relation(Enum):
    """What a fact is to a memory, the strongest first."""

    SAME = "says the same"
    COVERED = "is covered by it"
    RICHER = "says the same and more"
    CORRECTED = "corrects it"
    CARRIED_OUT = "tells that the plan is carried out"
    NEW_VALUE = "gives a new value"
    REVERSED = "says the opposite"
    RETRACTED = "takes it back"
    PARTLY_RETRACTED = "takes a part of it back"


_PREFERENCES = frozenset({"like", "hate", "prefer", "love"})
_AVERSIONS = frozenset({"hate"})
_PLANS = frozenset({"want", "plan", "hop", "intend"})
_HAVING = frozenset({"have", "own", "buy", "get", "adopt"})
# What counts as one of a kind that a memory denies, as words are stemmed in a `Reading`.
_KINDS = {
    "sibling": frozenset({"brother", "sister", "twin"}),
    "child": frozenset({"son", "daughter", "baby", "twin"}),
    "pet": frozenset({"dog", "cat", "rabbit", "hamster", "parrot", "hors", "puppy", "kitten"}),
}
_CONDITIONS = frozenset({"allergic", "diabetic", "asthmatic", "epileptic"})
_RICHER_BY = 8  # words; a text with more than that says something else as well
_LEAST_SHARED = 2

_RETRACTION = re.compile(
    r"^(?P<subject>(?:[\w'\u2019.-]+ ){0,3}?)(?:(?:recently|just|finally|has|have|had|also) )*(?:"
    r"(?P<gone>sold|gave away|got rid of|cancell?ed|lost|no longer (?:has|have|owns|own)"
    r"|(?:doesn['\u2019]t|don['\u2019]t|does not|do not)"
    r" (?:have|own)) (?P<thing>.+?)(?P<more> any ?more| any longer)?"
    r"|(?P<quit>quit|left|resigned from|(?:was|got) (?:fired|laid off) from"
    r"|no longer (?:works?|working) (?:at|for)"
    r"|(?:doesn['\u2019]t|does not) work (?:at|for)|stopped working (?:at|for)) (?:(?:the|a"
    r"|their|my) )?(?:job (?:at|with) )?(?P<employer>.+?)"
    r"(?: any ?more| any longer)?"
    r"|(?P<stop>no longer|stopped|quit|gave up|(?:doesn['\u2019]t"
    r"|does not)) (?P<habit>.+?)(?P<again> any ?more| any longer)?"
    r")[.!]*$",
    re.IGNORECASE,
)
# When it ended says nothing about what ended. Weekdays stay: "no longer runs on Thursdays".
_WHEN = re.compile(
    r"\s+(?:(?:last|this|earlier this) (?:week|weekend|month|year|spring|summer|autumn|fall|winter"
    r"|morning|night|\w+day)|yesterday|today|recently|lately"
    r"|(?:in|since) (?:\d{4}|January|February|March|April|May|June|July|August|September|October"
    r"|November|December)"
    r"|(?:an?|two|three|several|\d+|a few|a couple of) \w+ ago)$"
)
# One leaves an employer, and a band or a club as well.
_LEAVING = frozenset({"quit", "left", "resigned from"})
_MORE_THAN_A_RETRACTION = re.compile(
    r"\b(?:and|but|because|to buy|so|instead|for a new)\b|[,;]", re.IGNORECASE
)


def retracted_object(text: str) -> tuple[str, str] | None:
    """What kind of thing a fact takes back ("thing", "employer", "habit"), and its words.

    Example:
        >>> retracted_object("Sold the red car"), retracted_object("Likes tea")
        (('thing', 'the red car'), None)
    """
    match = _RETRACTION.match(_WHEN.sub("", text.rstrip(".!")))
    if match is None or _MORE_THAN_A_RETRACTION.search(text):
        return None
    if match["thing"]:
        denial = "n" in match["gone"].casefold() and not match["gone"].casefold().startswith(
            ("no longer", "gave")
        )
        plain_denial = denial and match["gone"].casefold().startswith("do")
        return None if plain_denial and not match["more"] else ("thing", match["thing"])
    if match["employer"] and match["quit"].casefold() not in _LEAVING:
        return ("employer", match["employer"])
    if match["quit"]:
        return ("quit", match["employer"])
    plain = match["stop"].casefold().startswith("do") and not match["again"]
    return None if plain else ("habit", match["habit"])


def relation(fact: Reading, memory: Reading, *, same_day: bool = True) -> Relation | None:
    """What a fact is to a memory, or None where they are about different things.

    Args:
        fact: The new fact, read.
        memory: The existing memory, read.
        same_day: False where both are dated, differently: then two alike events are two events.

    Example:
        >>> from memorypipe.llm.offline_rules.compare import read
        >>> relation(read("Moved to Berlin"), read("Lives in Rome"))
        <Relation.NEW_VALUE: 'gives a new value'>
    """
    if fact.normal == memory.normal:
        return Relation.SAME
    if _corrected(fact, memory):
        return Relation.CORRECTED
    by_attribute = _by_attribute(fact, memory)
    if by_attribute is not None:
        return by_attribute
    turned = _turned(fact, memory)
    if turned is not None:
        return turned
    if fact.negated != memory.negated or fact.past != memory.past or fact.verb != memory.verb:
        return None
    return _by_words(fact, memory, same_day=same_day or not fact.past)


def _turned(fact: Reading, memory: Reading) -> Relation | None:
    """One statement in other words: its opposite, its plan, another name of a condition."""
    if _reversed(fact, memory) or _had_after_all(fact, memory):
        return Relation.REVERSED
    if _carried_out(fact, memory):
        return Relation.CARRIED_OUT
    return Relation.SAME if _one_condition(fact, memory) else None


def kinds_of(words: frozenset[str]) -> frozenset[str]:
    """The kinds that the things of a text are of, as far as they matter here.

    Example:
        >>> sorted(kinds_of(frozenset({"brother", "dog"})))
        ['pet', 'sibling']
    """
    return frozenset(kind for kind, members in _KINDS.items() if not members.isdisjoint(words))


def changed_attribute(fact: Reading, memory: Reading) -> tuple[Attribute, Attribute] | None:
    """The first attribute of which the fact gives another value than the memory."""
    for new in fact.attributes:
        for old in memory.attributes:
            if (new.kind, new.subject) != (old.kind, old.subject):
                continue
            if not (new.words <= old.words or old.words <= new.words):
                return new, old
    return None


def _by_attribute(fact: Reading, memory: Reading) -> Relation | None:
    if changed_attribute(fact, memory) is not None:
        return Relation.NEW_VALUE
    for new in fact.attributes:
        for old in memory.attributes:
            if (new.kind, new.subject) == (old.kind, old.subject):
                return _same_attribute(fact, memory, new, old)
    return None


def _same_attribute(fact: Reading, memory: Reading, new: Attribute, old: Attribute) -> Relation:
    """One attribute, one value: richer where the fact says more about it than the memory."""
    extra = fact.words - memory.words - {fact.verb}
    more = new.words > old.words or (new.words == old.words and len(extra) > 1)
    if more and memory.words - fact.words <= {memory.verb, "liv", "work"}:
        return Relation.RICHER
    return Relation.COVERED


def _corrected(fact: Reading, memory: Reading) -> bool:
    """Whether the memory says what the fact calls wrong, and nothing that the fact leaves out."""
    if not fact.replaced or fact.subject != memory.subject - fact.replaced:
        return False
    same_verb = fact.verb == memory.verb or memory.verb in fact.replaced
    return same_verb and fact.replaced <= memory.words <= fact.words | fact.replaced


def _carried_out(fact: Reading, memory: Reading) -> bool:
    """Whether a wish or a plan has become a fact."""
    if memory.verb not in _PLANS or fact.verb in _PLANS or fact.subject != memory.subject:
        return False
    planned = memory.words - _PLANS
    return not (fact.negated or memory.negated) and bool(planned) and planned <= fact.words


def _had_after_all(fact: Reading, memory: Reading) -> bool:
    """Whether the fact gives the user what the memory denies: the thing, or one of its kind."""
    if memory.verb != "have" or not memory.negated or fact.negated or fact.subject:
        return False
    if memory.subject or fact.verb not in _HAVING:
        return False
    denied = memory.words - _HAVING
    return bool(denied) and denied <= fact.words | kinds_of(fact.words)


def _one_condition(fact: Reading, memory: Reading) -> bool:
    """Whether one says "has asthma" and the other "is asthmatic"."""
    if {fact.verb, memory.verb} != {"be", "have"} or fact.negated or memory.negated:
        return False
    told = fact.words == memory.words and fact.subject == memory.subject
    return told and not fact.words.isdisjoint(_CONDITIONS)


def _reversed(fact: Reading, memory: Reading) -> bool:
    """Liking against disliking one thing, or one statement with and without its negation."""
    if fact.subject != memory.subject:
        return False
    if fact.verb in _PREFERENCES and memory.verb in _PREFERENCES:
        return _attitude(fact) != _attitude(memory) and _liked(fact) == _liked(memory)
    if "used" in fact.words and "used" not in memory.words:
        return _bare(fact) == _bare(memory)
    if fact.negated == memory.negated or fact.past != memory.past:
        return False
    return _bare(fact) == _bare(memory) and bool(_bare(fact))


def _attitude(reading: Reading) -> bool:
    return (reading.verb in _AVERSIONS) == reading.negated


def _liked(reading: Reading) -> frozenset[str]:
    return reading.words - _PREFERENCES - {"hat", "stand", "prefer", "lik"}


def _bare(reading: Reading) -> frozenset[str]:
    return reading.words - {"used"}


def _by_words(fact: Reading, memory: Reading, *, same_day: bool) -> Relation | None:
    if not same_day or not _one_order(fact.ordered, memory.ordered):
        return None
    if not fact.verb and fact.normal.split()[0] != memory.normal.split()[0]:
        return None  # not understood: then other first words may be another subject
    if fact.words == memory.words:
        return Relation.SAME if fact.subject == memory.subject else None
    if memory.words < fact.words:
        fits = _says_enough(memory) and len(fact.words - memory.words) <= _RICHER_BY
        return Relation.RICHER if fits and _one_subject(memory.subject, fact.subject) else None
    if fact.words < memory.words and _says_enough(fact):
        return Relation.COVERED if _one_subject(fact.subject, memory.subject) else None
    return None


def _says_enough(reading: Reading) -> bool:
    """Whether so few words can be found again in another text: two, or "has a dog"."""
    if len(reading.words) >= _LEAST_SHARED:
        return True
    return reading.verb == "have" and bool(reading.words) and reading.words <= RELATIONS


def _one_subject(lesser: frozenset[str], greater: frozenset[str]) -> bool:
    """The same subject, or a relation that the other text names as well ("daughter (Emma)")."""
    return lesser == greater or (bool(lesser) and lesser < greater)


def _one_order(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    """Whether the names and numbers that both texts have stand in the same order."""
    shared = set(left) & set(right)
    return [word for word in left if word in shared] == [word for word in right if word in shared]


def merged_text(text: str, fact: Reading, memory_text: str, memory: Reading) -> str:
    """The text of an update: the new statement, and in brackets what held before.

    Example:
        >>> from memorypipe.llm.offline_rules.compare import read
        >>> old = "Lives in Milan (before: Rome)"
        >>> merged_text("Lives in Berlin", read("Lives in Berlin"), old, read(old))
        'Lives in Berlin (before: Milan; Rome)'
    """
    changed = changed_attribute(fact, memory)
    core = re.sub(r"\s*\(before: .*\)\s*$", "", memory_text, flags=re.DOTALL)
    former = changed[1].value if changed and len(memory.attributes) == 1 else core
    now = {text.casefold()} | {attribute.value.casefold() for attribute in fact.attributes}
    values = [value for value in (former, *memory.earlier) if value.casefold() not in now]
    return f"{text} (before: {'; '.join(dict.fromkeys(values))})" if values else text
