"""The decision rules: what each new fact does to the existing memories."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from memorypipe.llm.offline_rules.compare import Reading, read
from memorypipe.llm.offline_rules.relate import (
    Relation,
    kinds_of,
    merged_text,
    relation,
    retracted_object,
)
from memorypipe.llm.types import DecideTask, Fact

__all__ = ["decide"]

_STRENGTH = {kind: place for place, kind in enumerate(Relation)}


class _Memory:
    """One memory as it stands within this decision: an existing one, or one added just now."""

    __slots__ = ("added_by", "alias", "event_time", "reading", "text")

    def __init__(
        self, text: str, event_time: str | None, *, alias: int | None, added_by: int | None
    ) -> None:
        self.text = text
        self.event_time = event_time
        self.alias = alias
        self.added_by = added_by
        self.reading = read(text)


class _Pool:
    """The memories, found by the words, attributes and exact texts that they share with a fact.

    Args:
        asked: All words sought for the facts; memories are not indexed by any other.
    """

    def __init__(self, asked: frozenset[str]) -> None:
        self._asked = asked
        self._memories: list[_Memory | None] = []
        self._by_text: dict[str, int] = {}
        self._by_word: defaultdict[str, list[int]] = defaultdict(list)
        self._by_key: defaultdict[str, list[int]] = defaultdict(list)
        self._by_attribute: defaultdict[tuple[str, str], list[int]] = defaultdict(list)

    def add(self, memory: _Memory) -> None:
        place = len(self._memories)
        self._memories.append(memory)
        reading = memory.reading
        self._by_text[reading.normal] = place
        for word in reading.words & self._asked:
            self._by_word[word].append(place)
        if reading.key in self._asked:
            self._by_key[reading.key].append(place)
        for attribute in reading.attributes:
            self._by_attribute[attribute.kind, attribute.subject].append(place)

    def replace(self, memory: _Memory, text: str, event_time: str | None) -> None:
        """Let a memory say something else from now on."""
        self.remove(memory)
        self.add(_Memory(text, event_time, alias=memory.alias, added_by=memory.added_by))

    def remove(self, memory: _Memory) -> None:
        self._memories[self._memories.index(memory)] = None

    def same_text(self, reading: Reading) -> _Memory | None:
        place = self._by_text.get(reading.normal)
        return None if place is None else self._memories[place]

    def candidates(self, reading: Reading) -> Iterable[_Memory]:
        """Memories that could be related: by an attribute, or all words of one are in the other.

        A memory within the fact is found by its key, one of its words that the fact then has as
        well; a memory around the fact by the key of the fact.
        """
        places: set[int] = set()
        for attribute in reading.attributes:
            places.update(self._by_attribute.get((attribute.kind, attribute.subject), ()))
        for word in _sought(reading):
            places.update(self._by_key.get(word, ()))
        places.update(self._by_word.get(reading.key, ()))
        return [memory for place in sorted(places) if (memory := self._memories[place]) is not None]

    def sharing(self, words: frozenset[str]) -> list[_Memory]:
        """Memories that hold all of the words, in order."""
        if not words:
            return []
        found = (self._memories[place] for place in self._by_word.get(next(iter(words)), ()))
        return [memory for memory in found if memory is not None and words <= memory.reading.words]


def _sought(reading: Reading) -> frozenset[str]:
    """The words by which a memory may be related to a fact."""
    return reading.words | reading.replaced | kinds_of(reading.words)


def decide(task: DecideTask) -> list[dict[str, Any]]:
    """One action per fact, in order, as items of a decision reply.

    Aliases are places in ``task.existing``, as strings. A fact older than the memory that it would
    change is NONE. Where a later fact of the same call overtakes one that was about to be added,
    the earlier becomes NONE and the later is added.

    Args:
        task: The facts and the existing memories.

    Returns:
        Items with ``fact``, ``event``, ``target_id``, ``text`` and ``rationale``.

    Example:
        >>> from memorypipe.llm.types import Existing
        >>> known = [Existing(id="m1", text="Lives in Rome")]
        >>> [action] = decide(DecideTask(facts=[Fact(text="Moved to Berlin")], existing=known))
        >>> action["event"], action["target_id"], action["text"]
        ('UPDATE', '0', 'Moved to Berlin (before: Rome)')
    """
    pool = _Pool(frozenset().union(*(_sought(read(fact.text)) for fact in task.facts)))
    for alias, memory in enumerate(task.existing):
        pool.add(_Memory(memory.text, memory.event_time, alias=alias, added_by=None))
    actions: list[dict[str, Any]] = []
    for number, fact in enumerate(task.facts):
        actions.append(_decide_one(number, fact, pool, actions))
    return actions


def _decide_one(
    number: int, fact: Fact, pool: _Pool, before: list[dict[str, Any]]
) -> dict[str, Any]:
    reading = read(fact.text)
    found = _strongest(fact, reading, pool)
    if found is None:
        pool.add(_Memory(fact.text, fact.event_time, alias=None, added_by=number))
        return _action(number, "ADD", fact.text, "nothing like it is known")
    kind, memory = found
    if kind in {Relation.SAME, Relation.COVERED}:
        return _action(number, "NONE", fact.text, f"{kind.value}{_where(memory)}")
    if _is_older(fact.event_time, memory.event_time):
        return _action(
            number, "NONE", fact.text, f"older than the memory that it would change{_where(memory)}"
        )
    return _change(number, fact, found, pool, before)


def _strongest(fact: Fact, reading: Reading, pool: _Pool) -> tuple[Relation, _Memory] | None:
    same = pool.same_text(reading)
    if same is not None:
        return Relation.SAME, same
    retracted = _retracted(fact.text, reading, pool)
    if retracted is not None:
        return retracted
    related = [
        (kind, memory)
        for memory in pool.candidates(reading)
        if (kind := relation(reading, memory.reading, same_day=_same_day(fact, memory)))
    ]
    if not related:
        return None
    strongest = min(_STRENGTH[kind] for kind, _ in related)
    equal = [pair for pair in related if _STRENGTH[pair[0]] == strongest]
    return max(equal, key=lambda pair: pair[1].event_time or "")


def _retracted(text: str, reading: Reading, pool: _Pool) -> tuple[Relation, _Memory] | None:
    """The one memory that a retraction is about; None where there is none or more than one."""
    retraction = retracted_object(text)
    if retraction is None:
        return None
    kind, words = retraction
    wanted = read(words).words - {"anymor", "longer", "old", "use", "us"}
    near = pool.sharing(wanted)
    found = [memory for memory in near if _can_be_retracted(kind, wanted, reading, memory.reading)]
    if found:
        return (Relation.RETRACTED, found[0]) if len(found) == 1 else None
    if kind != "habit":
        return None
    verb = read(words.partition(" ")[0]).words
    parts = [memory for memory in near if _is_part(wanted, verb, reading, memory.reading)]
    return (Relation.PARTLY_RETRACTED, parts[0]) if len(parts) == 1 else None


_HELD = frozenset({"have", "buy", "get", "driv", "rid", "adopt", "own", "own's", "book", "order"})
# What says that one belongs to what is then left: "plays in the band", "is a member of the club".
_BELONGING = frozenset({"attend", "belong", "coach", "go", "join", "member", "play", "sing"})
# What is gone altogether once it is sold: "Car is a blue Skoda" holds no longer.
_OWNED = frozenset({"apartment", "bicycle", "boat", "car", "flat", "hous", "motorbik", "van"})


def _can_be_retracted(kind: str, wanted: frozenset[str], fact: Reading, memory: Reading) -> bool:
    if memory.negated:
        return False
    if kind == "thing" and memory.subject and memory.subject <= wanted & _OWNED:
        return memory.verb == "be"
    if fact.subject - wanted != memory.subject:
        return False
    if kind == "thing":
        several = any(word.isdigit() and word != "1" for word in memory.words)
        return memory.verb in _HELD and not several
    employed = any(attribute.kind == "employer" for attribute in memory.attributes)
    if kind == "employer" or (kind == "quit" and employed):
        return employed
    left = wanted | _BELONGING if kind == "quit" else wanted
    return not (memory.past or _is_preference(memory)) and wanted <= memory.words <= left


def _is_part(wanted: frozenset[str], verb: frozenset[str], fact: Reading, memory: Reading) -> bool:
    """Whether a habit is given up in part: the verb and some of its object, not the whole."""
    if memory.negated or memory.past or fact.subject - wanted != memory.subject:
        return False
    return verb == {memory.verb} and verb < wanted


def _is_preference(memory: Reading) -> bool:
    return memory.verb in {"like", "hate", "prefer"}


def _change(
    number: int,
    fact: Fact,
    found: tuple[Relation, _Memory],
    pool: _Pool,
    before: list[dict[str, Any]],
) -> dict[str, Any]:
    kind, memory = found
    reason = f"{kind.value}{_where(memory)}"
    text = fact.text
    if kind in {Relation.NEW_VALUE, Relation.REVERSED, Relation.PARTLY_RETRACTED}:
        text = merged_text(fact.text, read(fact.text), memory.text, memory.reading)
    if memory.added_by is not None:
        before[memory.added_by] |= {"event": "NONE", "rationale": f"overtaken by fact {number}"}
        pool.remove(memory)
        pool.add(_Memory(text, fact.event_time, alias=None, added_by=number))
        return _action(number, "ADD", text, reason)
    if kind is Relation.RETRACTED:
        pool.remove(memory)
        return _action(number, "DELETE", fact.text, reason, memory.alias)
    pool.replace(memory, text, fact.event_time or memory.event_time)
    return _action(number, "UPDATE", text, reason, memory.alias)


def _where(memory: _Memory) -> str:
    if memory.added_by is not None:
        return f" (fact {memory.added_by})"
    return f" (memory {memory.alias})"


def _action(
    number: int, event: str, text: str, rationale: str, alias: int | None = None
) -> dict[str, Any]:
    target = None if alias is None else str(alias)
    return {
        "fact": number,
        "event": event,
        "target_id": target,
        "text": text,
        "rationale": rationale,
    }


def _same_day(fact: Fact, memory: _Memory) -> bool:
    if not fact.event_time or not memory.event_time:
        return True
    return fact.event_time[:10] == memory.event_time[:10]


def _is_older(fact_time: str | None, memory_time: str | None) -> bool:
    """By the day where one of them has only a day, else by the moment."""
    if not fact_time or not memory_time:
        return False
    length = min(len(fact_time), len(memory_time))
    return fact_time[:length] < memory_time[:length]
