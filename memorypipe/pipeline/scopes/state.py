"""What is known of one scope while its windows are decided: live memories plus actions so far."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from memorypipe import ids
from memorypipe.cells.metadata import applied_metadata, metadata_key
from memorypipe.evidence.claims import unfounded
from memorypipe.evidence.likeness import near_key
from memorypipe.id_key import NO_ID_KEY
from memorypipe.pipeline.scopes.decided import Decided, PipelineFact
from memorypipe.pipeline.scopes.verification import verified
from memorypipe.rank.lookup import Lookup, ScopeIndex
from memorypipe.rank.memory import Memory
from memorypipe.schema import RECORD_TYPE_MEMORY
from memorypipe.text import normalise

__all__ = ["ScopeState", "Stops"]


Stops = Callable[[Decided], bool]


class ScopeState:
    """Live memories of one scope, oldest first; changed by `accept`.

    Args:
        scope_key: The scope.
        memories: Its live memories when the run began, oldest first.
        vectors: Text to vector, for lookups that rank by them; may grow meanwhile.
        id_key: Of the table: what new ids are made with.
        stops: Tells which actions the commit will not take, as they would bring back what was
            forgotten: `accept` leaves them out. None: it takes all.
    """

    def __init__(
        self,
        scope_key: str,
        memories: Iterable[Memory] = (),
        vectors: Mapping[str, Any] | None = None,
        *,
        id_key: bytes = NO_ID_KEY,
        stops: Stops | None = None,
    ) -> None:
        self._id_key = id_key
        self._stops = stops
        self._scope_key = scope_key
        self._vectors = {} if vectors is None else vectors
        self._memories = {memory.id: memory for memory in memories}
        self._by_text = {_says(m.text): m.id for m in self._memories.values()}
        self._index: ScopeIndex | None = None  # made when a lookup ranks
        # Ids stay taken after their memory has gone or says something else.
        self._taken = {memory.id: normalise(memory.text) for memory in self._memories.values()}

    def unembedded(self, facts: Sequence[PipelineFact], settings: Lookup) -> list[str]:
        """Give the texts without a vector that the next `lookup` of these facts would rank."""
        if not settings.uses_vectors or len(self._memories) <= settings.top_k:
            return []
        texts = [*(fact.text for fact in facts), *self._indexed(settings).lacking()]
        return [text for text in dict.fromkeys(texts) if text not in self._vectors]

    def lookup(self, facts: Sequence[PipelineFact], settings: Lookup) -> list[dict[str, Any]]:
        """Give the memories that a decision about these facts sees, as an `existing` cell.

        All of the facts ask for the same metadata, if for any.
        """
        match = facts[0].carry.match if facts else None
        memories = list(self._memories.values())
        if match is not None:
            # The others are no candidates for a change, so nothing of them is shown.
            memories = [each for each in memories if metadata_key(each.metadata) == match]
        index = self._indexed(settings) if settings.ranks and match is None else None
        chosen = settings.choose([fact.text for fact in facts], memories, index)
        return [memory.to_cell() for memory in chosen]

    def _indexed(self, settings: Lookup) -> ScopeIndex:
        if self._index is None:
            self._index = ScopeIndex(settings, self._memories.values(), self._vectors)
        return self._index

    def find(self, memory_id: str | None) -> Memory | None:
        """Give a live memory; None where there is none."""
        return self._memories.get(memory_id or "")

    def settle(self, decided: Decided) -> Decided:
        """Bring a decision in line with everything that is known of the scope.

        Older evidence never changes a memory that rests on newer; what does not stand the checks
        of `verified` becomes a memory of its own; and a memory that says the same already, shown
        to the model or not, makes an ADD a NONE, and an UPDATE of another memory a DELETE.
        """
        if decided.event in {"UPDATE", "DELETE"} and self._is_late(decided):
            return replace(
                decided,
                event="NONE",
                memory_id=None,
                old_memory=None,
                text=decided.fact.text,
                rationale="late evidence: the memory rests on something said later",
                rests_on=self._memories.get(decided.memory_id or ""),
            )
        decided = verified(decided, self._memories.get(decided.memory_id or ""))
        if decided.event == "ADD":
            return self._settle_add(decided)
        if decided.event == "NONE" and decided.rests_on is None:
            # Whoever takes the memory that says so out of a plan has to know of this fact.
            known = self._by_text.get(_says(decided.text))
            return replace(decided, rests_on=self._memories.get(known or ""))
        return self._settle_update(decided) if decided.event == "UPDATE" else decided

    def _settle_add(self, decided: Decided) -> Decided:
        known = self._by_text.get(_says(decided.text))
        if known is None:
            return replace(decided, memory_id=self._mint(decided.text))
        own = decided.fact.text
        if decided.text != own and unfounded(own, [self._memories[known].text]):
            # The memory says what the model made of the fact, and not all of the fact.
            return self._settle_add(replace(decided, text=own))
        return replace(
            decided,
            event="NONE",
            memory_id=None,
            text=decided.fact.text,
            rationale=f"already known as {known}",
            rests_on=self._memories[known],
        )

    def _settle_update(self, decided: Decided) -> Decided:
        """Let a memory go that would come to say what another one says already."""
        known = self._by_text.get(_says(decided.text))
        if known in {None, decided.memory_id}:
            return decided
        return replace(
            decided,
            event="DELETE",
            text=decided.fact.text,
            rationale=f"what it would say is known as {known}",
            rests_on=self._memories[known],
        )

    def _is_late(self, decided: Decided) -> bool:
        """Whether a fact is older than its target; of two that are equally old the later counts.

        What nothing dates is not late, and dates nothing: the memory keeps its time.
        """
        memory = self._memories.get(decided.memory_id or "")
        said = decided.fact.event_time
        return bool(memory and memory.event_time and said and said < memory.event_time)

    def _mint(self, text: str) -> str:
        wanted, ordinal = normalise(text), 0
        while True:
            minted = ids.memory_id(
                RECORD_TYPE_MEMORY, self._scope_key, text, ordinal, key=self._id_key
            )
            if self._taken.get(minted, wanted) == wanted and minted not in self._memories:
                return minted
            ordinal += 1

    def stops(self, decided: Decided) -> bool:
        """Tell whether the commit will not take an action."""
        return decided.event in {"ADD", "UPDATE"} and bool(self._stops and self._stops(decided))

    def accept(self, decided: Decided) -> None:
        """Take an action over into the state; a changed memory counts as the newest."""
        if decided.event == "NONE" or decided.memory_id is None:
            return
        if self.stops(decided):
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
            metadata=applied_metadata(
                before.metadata if before else None, fact.carry.metadata, fact.carry.strategy
            ),
        )
        self._memories[after.id] = after
        if self._index is not None:
            self._index.add(after)
        self._by_text[_says(after.text)] = after.id
        self._taken.setdefault(after.id, normalise(after.text))

    def _forget(self, memory_id: str) -> Memory | None:
        memory = self._memories.pop(memory_id, None)
        if memory is None:
            return None
        if self._index is not None:
            self._index.remove(memory)
        if self._by_text.get(_says(memory.text)) == memory.id:
            del self._by_text[_says(memory.text)]
        return memory

    def holds(self, decided: Decided) -> bool:
        """Whether the action fits the state: all that it was decided on is as it was."""
        rests_on = decided.rests_on
        if rests_on is not None and self._memories.get(rests_on.id) != rests_on:
            return False
        if decided.event not in {"UPDATE", "DELETE"}:
            return True
        memory = self._memories.get(decided.memory_id or "")
        return memory is not None and memory.text == decided.old_memory


@lru_cache(maxsize=65_536)
def _says(text: str) -> str:
    """Give what a text says: equal for texts that are equal but for small matters of form."""
    return near_key(text) or normalise(text)
