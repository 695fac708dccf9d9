"""The memories of one scope, decided again: duplicates, and what later ones say of earlier ones.

The later memory of a pair is a fact against the earlier ones, and goes the way of all facts
through `memorypipe.pipeline.scopes.consolidate`. What comes of it is told in terms of the
memories: the earlier one of two that become one keeps its id, has the messages of both, and says
what holds.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memorypipe.evidence.claims import unfounded
from memorypipe.evidence.likeness import content_words, is_negated
from memorypipe.expressions.build_action import DecideWork
from memorypipe.ids import digest, text_hash
from memorypipe.llm.replies.reply import ReadActions
from memorypipe.llm.stage import Outcome
from memorypipe.pipeline.scopes.consolidate import (
    Decide,
    ScopeResult,
    WindowFacts,
    consolidate_scope,
)
from memorypipe.pipeline.scopes.decided import Decided, PipelineFact
from memorypipe.pipeline.scopes.pairs import Chosen, choose, related, same_groups
from memorypipe.pipeline.scopes.settings import ConsolidationSettings
from memorypipe.pipeline.scopes.state import Stops
from memorypipe.pipeline.scopes.text_vectors import TextVectors
from memorypipe.rank.memory import Memory

__all__ = ["Member", "ScopeWork", "decide_scope", "mark_of", "prepare_scope"]

_LATE = "late evidence"
_NO_LENGTH = np.float32(1e-9)


@dataclass(kw_only=True)
class Member:
    """One memory of the scope, as it is and as it becomes.

    Attributes:
        memory_id: Its id.
        text: What it says, in the end.
        before: What it said in the table.
        event_time: When it was said; of several that became one, the newest.
        written_at: When the table last changed it, which dates what nothing else does.
        context: Free text that goes with it.
        topics: Subject words.
        conversation_id: Where its newest evidence is from.
        source_ids: The messages of all that it became one with.
        rationale: Why it changed or went; None where it did not.
        gone: Whether it is deleted.
        rests_on: The memory that it became one with.
        flag: As of `memorypipe.pipeline.scopes.decided.Decided`.
        is_changed: Whether the table has to be told.
        decided_by: The memory whose comparison changed it last.
    """

    memory_id: str
    text: str
    before: str
    event_time: datetime | None
    written_at: datetime
    context: str | None = None
    topics: tuple[str, ...] = ()
    conversation_id: str | None = None
    source_ids: tuple[str, ...] = ()
    rationale: str | None = None
    gone: bool = False
    rests_on: str | None = None
    flag: str | None = None
    is_changed: bool = False
    decided_by: str | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Member":
        """Read a row of the table."""
        return cls(
            memory_id=row["memory_id"],
            text=row["text"],
            before=row["text"],
            event_time=row["event_time"],
            written_at=row["updated_at"],
            context=row["context"],
            topics=tuple(row["topics"] or ()),
            conversation_id=row["conversation_id"],
            source_ids=tuple(row["source_ids"] or ()),
        )

    @property
    def place(self) -> tuple[datetime, datetime, str]:
        """Its place in the order of time, as a sorting key."""
        return (self.event_time or self.written_at, self.written_at, self.memory_id)

    def memory(self) -> Memory:
        """Give it as decisions see it."""
        return Memory(
            id=self.memory_id, text=self.text, context=self.context, event_time=self.event_time
        )

    def absorb(self, other: "Member", why: str) -> None:
        """Become one with another memory, which goes; what this one says stays."""
        self.source_ids = tuple(dict.fromkeys((*self.source_ids, *other.source_ids)))
        self.topics = tuple(dict.fromkeys((*self.topics, *other.topics)))
        self.context = self.context or other.context
        if (other.event_time or other.written_at) >= (self.event_time or self.written_at):
            self.event_time = other.event_time or self.event_time
            self.conversation_id = other.conversation_id or self.conversation_id
        self.is_changed = True
        self.rationale = why
        self.decided_by = other.memory_id
        other.go(why, rests_on=self.memory_id, decided_by=other.memory_id)

    def go(self, why: str, *, decided_by: str, rests_on: str | None = None) -> None:
        """Be deleted."""
        self.gone, self.is_changed = True, True
        self.rationale, self.rests_on, self.decided_by = why, rests_on, decided_by


def mark_of(member: Member) -> str:
    """Name a memory as it is, for the record of what was compared; tells nothing of its text."""
    return "compared_" + digest(member.memory_id, text_hash(member.text)).hex()


@dataclass(kw_only=True)
class ScopeWork:
    """What is to be done in one scope, and what came of it.

    Attributes:
        scope: The scope, as Arrow gives it.
        scope_key: Its key.
        members: All its memories, in order of time.
        merged: Those that became one with another without a question.
        chosen: What a model is asked.
        kept: The members that `chosen` numbers.
        vectors: Known vectors by text.
        open: Memory id → why it has to be compared by the next run.
        outcomes: One per decision call.
    """

    scope: Any
    scope_key: str
    members: Sequence[Member]
    merged: Sequence[Member]
    chosen: Chosen
    kept: Sequence[Member]
    vectors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    open: Mapping[str, str] = field(default_factory=dict)
    outcomes: Sequence[Outcome[Any]] = ()

    @property
    def facts(self) -> list[Member]:
        """The memories that are decided again."""
        return [self.kept[place] for place in self.chosen.facts]

    @property
    def compared(self) -> list[Member]:
        """The memories that were looked at, deleted ones included."""
        places = sorted([*self.chosen.facts, *self.chosen.memories])
        return [*self.merged, *(self.kept[place] for place in places)]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be done."""
        return not (self.merged or self.chosen.facts)


def prepare_scope(
    scope: Any,
    scope_key: str,
    members: Sequence[Member],
    *,
    compared: Collection[str],
    vectors: Mapping[str, NDArray[np.float32]] | None = None,
) -> ScopeWork:
    """Merge what says the same, and choose what a model is asked.

    Args:
        scope: The scope.
        scope_key: Its key.
        members: Its live memories.
        compared: Marks of those that were compared before, as of `mark_of`.
        vectors: Vectors by text; None: there are none.
    """
    members = sorted(members, key=lambda each: each.place)
    merged: list[Member] = []
    for group in same_groups([member.text for member in members]):
        first, *others = (members[place] for place in group)
        merged.append(first)
        for other in others:
            first.absorb(other, f"says the same as {first.memory_id}")
            merged.append(other)
    kept = sorted((m for m in members if not m.gone), key=lambda each: each.place)
    known = {place for place, member in enumerate(kept) if mark_of(member) in compared}
    texts = [member.text for member in kept]
    pairs = related(texts, _matrix(texts, vectors))
    return ScopeWork(
        scope=scope,
        scope_key=scope_key,
        members=members,
        merged=merged,
        chosen=choose(pairs, known),
        kept=kept,
        vectors=vectors or {},
    )


def _matrix(
    texts: Sequence[str], vectors: Mapping[str, NDArray[np.float32]] | None
) -> NDArray[np.float32] | None:
    if not vectors:
        return None
    nothing = np.full_like(next(iter(vectors.values())), np.nan)
    matrix = np.stack([vectors.get(text, nothing) for text in texts])
    matrix /= np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), _NO_LENGTH)
    return matrix


async def decide_scope(
    work: ScopeWork,
    *,
    decide: Decide,
    settings: ConsolidationSettings,
    stops: Stops | None = None,
    vectors: TextVectors | None = None,
) -> None:
    """Decide again what was chosen of a scope; its members are changed accordingly.

    Args:
        work: The scope.
        decide: Makes one decision call.
        settings: How facts are grouped and memories are looked up.
        stops: Tells which texts were forgotten: no merge brings one back.
        vectors: As for `consolidate_scope`.
    """
    if not work.chosen.facts:
        return
    result = await consolidate_scope(
        work.scope_key,
        [_window(place, member) for place, member in enumerate(work.facts)],
        [work.kept[place].memory() for place in work.chosen.memories],
        decide=_as_they_are(decide),
        settings=replace(settings, commit_fallback=False),
        stops=None if stops is None else _only_updates(stops),
        vectors=vectors,
    )
    work.outcomes = result.outcomes
    work.open = dict(result.open_windows)
    _Retelling(work, stops).tell(result)


def _window(place: int, member: Member) -> WindowFacts:
    fact = PipelineFact(
        text=member.text,
        window=place,
        window_id=member.memory_id,
        conversation_id=member.conversation_id or "",
        event_time=member.event_time,
        source_ids=member.source_ids,
        context=member.context,
        topics=member.topics,
    )
    return WindowFacts(window_id=member.memory_id, facts=[fact])


def _as_they_are(decide: Decide) -> Decide:
    """Let a memory that stays keep its words, whatever the model would make of them."""

    async def ask(work: DecideWork) -> Outcome[ReadActions]:
        outcome = await decide(work)
        if outcome.value is None:
            return outcome
        said = outcome.value
        items = [{**i, "text": None} if i["event"] == "ADD" else i for i in said.items]
        plain = ReadActions(
            items=tuple(items),
            dropped_items=said.dropped_items,
            repaired=said.repaired,
            complete=said.complete,
            status=said.status,
            error=said.error,
        )
        return replace(outcome, value=plain)

    return ask


def _only_updates(stops: Stops) -> Stops:
    """A memory that is there is not brought back by being looked at."""

    def stop(decided: Decided) -> bool:
        return decided.event == "UPDATE" and stops(decided)

    return stop


class _Retelling:
    """Tells what was decided of facts in terms of the memories that they are."""

    def __init__(self, work: ScopeWork, stops: Stops | None) -> None:
        self._work = work
        self._facts = {member.memory_id: member for member in work.facts}
        # What stays has another id while its scope is decided: that of a new memory.
        self._members = {m.memory_id: m for m in work.kept}
        self._stops = stops

    def tell(self, result: ScopeResult) -> None:
        """Go through the decisions in their order."""
        for decided in result.actions:
            fact = self._facts[decided.fact.window_id]
            fact.flag = decided.flag
            if decided.event == "ADD":
                self._members[decided.memory_id or ""] = fact
            elif decided.event == "NONE":
                self._tell_none(decided, fact)
            elif decided.event == "UPDATE":
                self._tell_update(decided, fact)
            else:
                self._tell_delete(decided, fact)

    def _find(self, memory_id: str | None) -> Member | None:
        return self._members.get(memory_id or "")

    def _resting(self, decided: Decided) -> Member | None:
        return None if decided.rests_on is None else self._find(decided.rests_on.id)

    def _tell_none(self, decided: Decided, fact: Member) -> None:
        """Let a memory go that another one covers, if nothing is lost by it."""
        if (decided.rationale or "").startswith(_LATE):
            return
        other = self._resting(decided) or self._covering(fact)
        if other is not None and _holds_all(other, fact):
            other.absorb(fact, _why(decided, f"covered by {other.memory_id}"))

    def _covering(self, fact: Member) -> Member | None:
        """Find the newest memory that has all words of another: the model says that one has."""
        words = content_words(fact.text)
        found = [
            member
            for member in self._work.kept
            if member is not fact and not member.gone and words <= content_words(_shown(member))
        ]
        return max(found, key=lambda member: member.place, default=None)

    def _tell_update(self, decided: Decided, fact: Member) -> None:
        target = self._find(decided.memory_id)
        if target is None or (self._stops is not None and self._stops(decided)):
            return
        target.text = decided.text
        target.context = fact.context or target.context
        target.absorb(fact, _why(decided, "a later memory says more of it"))

    def _tell_delete(self, decided: Decided, fact: Member) -> None:
        target, other = self._find(decided.memory_id), self._resting(decided)
        if target is None:
            return
        if other is not None:
            other.absorb(target, _why(decided, f"covered by {other.memory_id}"))
            other.absorb(fact, _why(decided, f"covered by {other.memory_id}"))
            return
        target.go(
            _why(decided, "a later memory takes it back"),
            rests_on=fact.memory_id,
            decided_by=fact.memory_id,
        )


def _shown(member: Member) -> str:
    return f"{member.text}\n{member.context or ''}"


def _holds_all(other: Member, fact: Member) -> bool:
    """Whether a memory claims all that another one does."""
    lost = unfounded(fact.text, [_shown(other)])
    return not lost and is_negated(fact.text) == is_negated(other.text)


def _why(decided: Decided, otherwise: str) -> str:
    return decided.rationale or otherwise
