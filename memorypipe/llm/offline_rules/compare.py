"""What a memory's text says, in a form in which two memories can be compared."""

import re
from dataclasses import dataclass
from functools import lru_cache

from memorypipe.llm.offline_rules.attributes import Attribute, attributes_of
from memorypipe.llm.offline_rules.german import counted, in_english_form
from memorypipe.llm.offline_rules.lexicon import (
    NUMBER_WORDS,
    OWN_THINGS,
    RELATIONS,
    third_person,
    words,
)
from memorypipe.text import normalise

__all__ = ["Reading", "read"]

_EARLIER = re.compile(r"\s*\(before: (?P<values>.*)\)\s*$", re.DOTALL)
_TOKEN = re.compile(r"[^\W_]+(?:['\u2019.-][^\W_]+)*|[\u3040-\u30ff\u3400-\u9fff]")
_CONTRACTED_NOT = re.compile(
    r"\b(?:(?P<verb>is|are|was|were|do|does|did|has|have|had|would|could)n['\u2019]t"
    r"|can(?:['\u2019]t|not))\b"
)
# "…, not Tuesday", "… instead of Tuesday": what the text says is wrong.
_REPLACED = re.compile(
    r"(?P<said>.+?)(?:,\s+(?:and\s+|but\s+|und\s+)?(?:not|nicht)|,?\s+instead\s+of"
    r"|,?\s+rather\s+than|,?\s+(?:an)?statt)\s+(?P<wrong>[^,;]+)$",
    re.IGNORECASE | re.DOTALL,
)
# Other languages are not read, but what denies must never pass for what affirms.
_NEGATION = words(
    """
    not never no nor neither without hardly
    nicht kein keine keinen keinem keiner nie niemals ohne pas jamais aucun aucune sans nunca jamás
    ningún ninguna tampoco non mai senza nessun nessuna não sem niet geen nooit zonder
    не нет никогда без 不 没 沒 无 無 未
    """
)
_SMALL = words(
    """
    a an the user user's i my me mine their theirs they them his her our we us it its to of in
    on at by for as and be is are am been being do does did really very so much also just now
    currently actually truly quite still too that this these those who which there has have
    """
)


def _by_member(classes: dict[str, str]) -> dict[str, str]:
    return {member: name for name, members in classes.items() for member in members.split()}


_NO_CONTENT = _SMALL | _NEGATION | {"longer", "mehr"}
_SYNONYMS = _by_member(
    {
        "like": "loves love enjoys enjoy adores likes fond loved like",
        "hate": "hate hates dislike dislikes detests loathes",
        "have": "owns owning possesses got",
        "mother": "mum mom mommy",
        "father": "dad daddy",
        "child": "kid kids children",
        "favourite": "favorite",
        "color": "colour",
        "film": "movies movie",
        "live": "residing resides",
        "bicycle": "bike",
        "car": "car",
        "job": "job",
        "want": "wants",
        "allergic": "allergy allergies",
        "diabetic": "diabetes",
        "asthmatic": "asthma",
        "epileptic": "epilepsy",
    }
)
_VERB_CLASSES = _by_member(
    {
        "like": "likes loves enjoys adores loved",
        "hate": "hates dislikes detests loathes",
        "prefer": "prefers",
        "have": "has owns have hasn't haven't",
        "be": "is are am isn't",
        "was": "was were",
        "live": "lives resides",
        "work": "works",
        "buy": "bought",
        "get": "got",
        "sell": "sold",
        "do": "doesn't don't does do",
        "can": "can",
        "will": "will won't",
        "used": "used",
        "did": "didn't did",
        "want": "wants",
    }
)
_PAST_IRREGULAR = words(
    """
    was were went bought sold got became began broke built chose came drew drove ate fell flew
    gave grew had left lost made met ran read rode sang saw spent swam taught took won wrote
    did used
    """
)
_PLAIN_S = re.compile(r"[a-z]{2,}[^s]s$")
_TIME_WORDS = words(
    """
    today yesterday recently lately last next week month year weekend night finally usually
    often always never sometimes no longer now currently since
    """
)
# An opposite has another of these, so no memory is looked for by one.
_TASTES = frozenset({"like", "hate", "prefer"})
_SUBJECT_WORDS = 5
_SHORTEST_STEM = 4


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One memory's text, read.

    Attributes:
        normal: The normalised text.
        subject: Who or what it is about: empty for the user, else content words such as
            ``("daughter", "emma")``.
        verb: The class of its main verb; empty where none was found.
        words: Its content words, stemmed.
        key: One telling word of them, to find it by; empty where it has no words.
        ordered: The capitalised words and numbers among them, in order of appearance.
        negated: Whether it denies something.
        past: Whether its main verb is in the past.
        attributes: The single-valued attributes that it states.
        earlier: The values that an update noted as former ones.
        replaced: Words of what the text itself says is wrong ("…, not Tuesday").
    """

    normal: str
    subject: frozenset[str]
    verb: str
    words: frozenset[str]
    key: str
    ordered: tuple[str, ...]
    negated: bool
    past: bool
    attributes: tuple[Attribute, ...]
    earlier: tuple[str, ...]
    replaced: frozenset[str]


def _stem(word: str) -> str:
    """Undo the commonest endings; wrong stems are harmless as long as equal words stay equal."""
    if word in NUMBER_WORDS:
        return NUMBER_WORDS[word]
    if word in _SYNONYMS:
        return _SYNONYMS[word]
    word = word.removesuffix("'s").removesuffix("\u2019s")
    if word in _SYNONYMS:
        return _SYNONYMS[word]
    if word[-1:].isdigit() or len(word) < _SHORTEST_STEM:
        return word
    for ending, replacement in (
        ("ies", "y"),
        ("sses", "ss"),
        ("ing", ""),
        ("ed", ""),
        ("es", ""),
        ("s", ""),
    ):
        if (
            word.endswith(ending)
            and len(word) - len(ending) >= len("the")
            and not word.endswith("ss")
        ):
            return _undoubled(word[: -len(ending)] + replacement).rstrip("e")
    return word.rstrip("e")


def _undoubled(stem: str) -> str:
    """The stem without the letter that an ending doubled: "running" is of "run"."""
    doubled = len(stem) >= _SHORTEST_STEM and stem[-1] == stem[-2] and stem[-1] in "bdgmnprt"
    return stem[:-1] if doubled else stem


def _main_verb(tokens: list[str]) -> int | None:
    """The place of the main verb among the first words, None where there seems to be none."""
    if tokens[:1] == ["i"]:
        return next((place for place, token in enumerate(tokens) if token not in _SMALL), None)
    for place, token in enumerate(tokens[: _SUBJECT_WORDS + 1]):
        if token.endswith(("'s", "\u2019s")):
            continue
        if token in _VERB_CLASSES or _is_past(token):
            return place
        known = token in RELATIONS or token in OWN_THINGS or token in _SMALL
        if not known and _PLAIN_S.match(token) and token not in _TIME_WORDS:
            return place
    return None


def _meant_verb(tokens: list[str], verb: int | None) -> str:
    """The verb that carries the meaning: "eat" of "does not eat", "has" of "no longer has"."""
    if verb is None:
        return ""
    if tokens[verb] in {"do", "does"} and tokens[verb + 1 : verb + 2] == ["not"]:
        return "".join(tokens[verb + 2 : verb + 3])
    return tokens[verb]


def _verb_class(verb: str) -> str:
    """The class of a verb, which also stands in its base form: "does not own"."""
    if not verb:
        return ""
    return _VERB_CLASSES.get(verb) or _VERB_CLASSES.get(third_person(verb)) or _stem(verb)


def _is_past(verb: str) -> bool:
    return verb in _PAST_IRREGULAR or (verb.endswith("ed") and len(verb) > _SHORTEST_STEM)


def _subject(tokens: list[str], verb: int | None) -> frozenset[str]:
    before = tokens[: verb or 0]
    return frozenset(
        _stem(token) for token in before if token not in _SMALL and token not in _TIME_WORDS
    ) - {"really", "user"}


@lru_cache(maxsize=1 << 14)
def read(text: str) -> Reading:
    """Read one memory's text; results are kept, as a memory is compared with many facts.

    Example:
        >>> found = read("Daughter Emma is seven")
        >>> sorted(found.subject), found.attributes[0].kind, found.attributes[0].value
        (['daughter', 'emma'], 'age', 'seven')
    """
    earlier = _EARLIER.search(text)
    core = text[: earlier.start()] if earlier else text
    correction = _REPLACED.match(core.rstrip(" .!"))
    core = in_english_form(correction["said"] if correction else core)
    tokens = _tokens(core)
    verb = _main_verb(tokens)
    said_verb = _meant_verb(tokens, verb)
    content = _content(tokens)
    return Reading(
        normal=normalise(text),
        subject=_subject(tokens, verb),
        verb=_verb_class(said_verb),
        words=content,
        key=max(content - _TASTES or content, key=lambda word: (len(word), word), default=""),
        ordered=_names_and_numbers(core),
        negated=not _NEGATION.isdisjoint(tokens),
        past=_is_past(said_verb),
        attributes=attributes_of(core),
        earlier=tuple(earlier["values"].split("; ")) if earlier else (),
        replaced=_content(_tokens(counted(correction["wrong"]))) if correction else frozenset(),
    )


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(_CONTRACTED_NOT.sub(_spread_not, normalise(text)))


def _spread_not(match: re.Match[str]) -> str:
    return f"{match['verb'] or 'can'} not"


def _content(tokens: list[str]) -> frozenset[str]:
    return frozenset(_stem(token) for token in tokens if token not in _NO_CONTENT)


def _names_and_numbers(text: str) -> tuple[str, ...]:
    found = []
    for word in _TOKEN.findall(text):
        lower = word.lower()
        if lower in _SMALL:
            continue
        # A first word has a capital anyway, but it may be a name: "Tom lent Anna a book".
        if word[0].isdigit() or lower in NUMBER_WORDS or word[0].isupper():
            found.append(_stem(lower))
    return tuple(found)
