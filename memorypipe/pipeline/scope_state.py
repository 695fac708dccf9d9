"""What is known of one scope while its windows are decided: live memories plus actions so far."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from memorypipe import ids
from memorypipe.rank import KeywordIndex, Lookup, Memory
from memorypipe.schema import RECORD_TYPE_MEMORY
from memorypipe.text import normalise

__all__ = ["Decided", "PipelineFact", "ScopeState"]


@dataclass(frozen=True, kw_only=True)
class PipelineFact:
    """One extracted fact on its way to a decision.

    Attributes:
        text: What it says.
        window: Place of its window in the scope's time order, from 0.
        window_id: The window's id.
        conversation_id: Where it was said.
        event_time: When it was said (UTC); None where nothing tells.
        source_ids: Messages that support it.
        context: Free text that goes with it.
        topics: Subject words.
    """

    text: str
    window: int
    window_id: str
    conversation_id: str
    event_time: datetime | None = None
    source_ids: tuple[str, ...] = ()
    context: str | None = None
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Decided:
    """One decided action, with the fact that it came from.

    Attributes:
        fact: The fact.
        event: ``ADD``, ``UPDATE``, ``DELETE`` or ``NONE``.
        memory_id: The memory that it makes or changes; None for NONE.
        text: The new text; of a DELETE or NONE the fact's own.
        old_memory: The memory's text before, verbatim.
        rationale: Why.
    """

    fact: PipelineFact
    event: str
    memory_id: str | None
    text: str
    old_memory: str | None
    rationale: str | None


class ScopeState:
    """Live memories of one scope, oldest first; changed by `accept`.

    Args:
        scope_key: The scope.
        memories: Its live memories when the run began, oldest first.
    """

    def __init__(self, scope_key: str, memories: Iterable[Memory] = ()) -> None:
        self._scope_key = scope_key
        self._memories = {memory.id: memory for memory in memories}
        self._by_text = {normalise(m.text): m.id for m in self._memories.values()}
        self._index: KeywordIndex | None = None  # made when a lookup ranks
        # Ids stay taken after their memory has gone or says something else.
        self._taken = {memory.id: normalise(memory.text) for memory in self._memories.values()}

    def lookup(self, facts: Sequence[PipelineFact], settings: Lookup) -> list[dict[str, Any]]:
        """Give the memories that a decision about these facts sees, as an `existing` cell."""
        memories = list(self._memories.values())
        if self._index is None and settings.ranks:
            self._index = KeywordIndex(memories)
        chosen = settings.choose([fact.text for fact in facts], memories, self._index)
        return [memory.to_cell() for memory in chosen]

    def settle(self, decided: Decided) -> Decided:
        """Bring a decision in line with everything that is known of the scope.

        A memory that says the same already, shown to the model or not, makes an ADD a NONE, and
        older evidence never changes a memory that rests on newer.
        """
        if decided.event == "ADD":
            return self._settle_add(decided)
        if decided.event in {"UPDATE", "DELETE"} and self._is_late(decided):
            return replace(
                decided,
                event="NONE",
                memory_id=None,
                old_memory=None,
                text=decided.fact.text,
                rationale="late evidence: the memory rests on something said later",
            )
        return decided

    def _settle_add(self, decided: Decided) -> Decided:
        known = self._by_text.get(normalise(decided.text))
        if known is None:
            return replace(decided, memory_id=self._mint(decided.text))
        return replace(decided, event="NONE", memory_id=None, rationale=f"already known as {known}")

    def _is_late(self, decided: Decided) -> bool:
        memory = self._memories.get(decided.memory_id or "")
        said = decided.fact.event_time
        return bool(memory and memory.event_time and said and said < memory.event_time)

    def _mint(self, text: str) -> str:
        wanted, ordinal = normalise(text), 0
        while True:
            minted = ids.memory_id(RECORD_TYPE_MEMORY, self._scope_key, text, ordinal)
            if self._taken.get(minted, wanted) == wanted and minted not in self._memories:
                return minted
            ordinal += 1

    def accept(self, decided: Decided) -> None:
        """Take an action over into the state; a changed memory counts as the newest."""
        if decided.event == "NONE" or decided.memory_id is None:
            return
        before = self._forget(decided.memory_id)
        if decided.event == "DELETE":
            return
        fact = decided.fact
        after = Memory(
            id=decided.memory_id,
            text=decided.text,
            context=fact.context or (before.context if before else None),
            event_time=fact.event_time or (before.event_time if before else None),
        )
        self._memories[after.id] = after
        if self._index is not None:
            self._index.add(after)
        self._by_text[normalise(after.text)] = after.id
        self._taken.setdefault(after.id, normalise(after.text))

    def _forget(self, memory_id: str) -> Memory | None:
        memory = self._memories.pop(memory_id, None)
        if memory is None:
            return None
        if self._index is not None:
            self._index.remove(memory)
        if self._by_text.get(normalise(memory.text)) == memory.id:
            del self._by_text[normalise(memory.text)]
        return memory

    def holds(self, decided: Decided) -> bool:
        """Whether the action fits the state: its target stands and says what was decided on."""
        if decided.event not in {"UPDATE", "DELETE"}:
            return True
        memory = self._memories.get(decided.memory_id or "")
        return memory is not None and memory.text == decided.old_memory
