"""Which memories of a scope a decision gets to see.

Ranking uses the memories of that scope alone, so that a commit in another scope, or maintenance
of the table, changes no prompt.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from memorypipe.errors import InvalidArgumentError
from memorypipe.rank.fusion import by_turns, fused, fusion_depth
from memorypipe.rank.keyword import KeywordIndex
from memorypipe.rank.memory import Memory
from memorypipe.rank.vector import VectorIndex, unit_rows

__all__ = ["Embed", "Lookup", "ScopeIndex", "Strategy"]

Strategy = Literal["auto", "all", "recent", "keyword", "vector", "hybrid"]

Embed = Callable[[Sequence[str]], NDArray[np.float32]]
"""Gives the vectors of texts, none of them blank, one per row."""

_Item = TypeVar("_Item", str, int)
_Memory = TypeVar("_Memory")


@dataclass(frozen=True, kw_only=True)
class Lookup:
    """How memories are chosen for a decision.

    Attributes:
        strategy: ``"all"``: every memory, newest first. ``"recent"``: the `top_k` newest.
            ``"keyword"``: per fact the `top_k` best by BM25, united. ``"vector"``: likewise by
            cosine. ``"hybrid"``: likewise by both, fused by reciprocal rank. ``"auto"``:
            ``"hybrid"`` with an embedder, else ``"keyword"``.
        top_k: Memories per fact.
        max_memories: Memories in all; None for no bound.

    Raises:
        InvalidArgumentError: Where a value cannot work.
    """

    strategy: Strategy = "auto"
    top_k: int = 10
    max_memories: int | None = 40

    def __post_init__(self) -> None:
        if self.strategy not in get_args(Strategy):
            raise InvalidArgumentError(
                f"strategy must be one of {list(get_args(Strategy))!r}, got {self.strategy!r}."
            )
        for name, value in (("top_k", self.top_k), ("max_memories", self.max_memories)):
            good = isinstance(value, int) and not isinstance(value, bool) and value >= 1
            if not good and not (value is None and name == "max_memories"):
                raise InvalidArgumentError(
                    f"{name} must be an integer of at least 1, got {value!r}."
                )

    def settled(self, *, has_embedder: bool) -> "Lookup":
        """Give the lookup with ``"auto"`` decided.

        Raises:
            InvalidArgumentError: For a strategy that needs an embedder where there is none.
        """
        if self.strategy == "auto":
            return replace(self, strategy="hybrid" if has_embedder else "keyword")
        if self.uses_vectors and not has_embedder:
            raise InvalidArgumentError(
                f"strategy {self.strategy!r} needs an embedder, and the table has none; take "
                "'keyword', or give the table an embedder."
            )
        return self

    @property
    def ranks(self) -> bool:
        """Whether memories are ranked by what the facts say."""
        return self.strategy not in {"all", "recent"}

    @property
    def uses_words(self) -> bool:
        """Whether memories are ranked by words; ``"auto"`` counts as undecided: no vectors."""
        return self.strategy in {"auto", "keyword", "hybrid"}

    @property
    def uses_vectors(self) -> bool:
        """Whether memories are ranked by vectors."""
        return self.strategy in {"vector", "hybrid"}

    def newest(self, items: Sequence[_Memory]) -> list[_Memory]:
        """Choose among all memories of a scope, newest first, where nothing ranks them."""
        most = self.top_k if self.strategy == "recent" else None
        return list(items[:most][: self.max_memories])

    def unite(self, rankings: Sequence[Sequence[_Item]]) -> list[_Item]:
        """Choose from the best of each fact: the best of every one before the second of any."""
        return by_turns(rankings)[: self.max_memories]

    def merge(self, words: Sequence[_Item], vectors: Sequence[_Item]) -> list[_Item]:
        """Bring what was found by words and by vectors into one ranking.

        Args:
            words: The best by words, `depth` of them; empty where the strategy uses none.
            vectors: The best by vectors, likewise.
        """
        if self.strategy == "hybrid":
            return [item for item, _ in fused([words, vectors], self.top_k)]
        return list(vectors if self.strategy == "vector" else words)

    @property
    def depth(self) -> int:
        """How many of each ranking are needed."""
        return fusion_depth(self.top_k) if self.strategy == "hybrid" else self.top_k

    def choose(
        self, facts: Sequence[str], memories: Sequence[Memory], index: "ScopeIndex | None" = None
    ) -> list[Memory]:
        """Choose the memories that a decision about these facts sees.

        Args:
            facts: The texts of the facts.
            memories: The live memories of one scope, oldest first.
            index: The same memories, indexed; None makes one of their words where it is needed.

        Returns:
            At most `max_memories` of them; the best first where they are ranked, else the newest.
        """
        if not self.ranks or len(memories) <= self.top_k:
            return self.newest(memories[::-1])
        held = index or ScopeIndex(self, memories)
        by_id = {memory.id: memory for memory in memories}
        return [by_id[each] for each in self.unite(held.best(facts))]


class ScopeIndex:
    """The memories of one scope, indexed for a lookup and kept up as they change.

    Vectors are those that are given, by text; a memory or fact without one, so far, is found by its
    words alone.

    Args:
        lookup: How memories are chosen.
        memories: What it holds at first.
        vectors: Text to vector; may grow while the index is in use.
    """

    def __init__(
        self,
        lookup: Lookup,
        memories: Iterable[Memory] = (),
        vectors: Mapping[str, Sequence[float] | NDArray[Any]] | None = None,
    ) -> None:
        self._lookup = lookup
        self._vectors = {} if vectors is None else vectors
        self._words = KeywordIndex()
        self._nearest: VectorIndex | None = None  # made with the first vector
        self._lacking: dict[str, str] = {}  # id to text of what had no vector when last looked
        for memory in memories:
            self.add(memory)

    def add(self, memory: Memory) -> None:
        """Take a memory in; its id must not be held yet."""
        if self._lookup.uses_words:
            self._words.add(memory)
        if self._lookup.uses_vectors:
            self._lacking[memory.id] = memory.text

    def remove(self, memory: Memory) -> None:
        """Forget a memory, given as it was taken in."""
        if self._lookup.uses_words:
            self._words.remove(memory)
        self._lacking.pop(memory.id, None)
        if self._nearest is not None:
            self._nearest.remove(memory.id)

    def lacking(self) -> list[str]:
        """Give the texts of the memories that still have no vector."""
        self._take_vectors()
        return list(self._lacking.values())

    def best(self, facts: Sequence[str]) -> list[list[str]]:
        """Give for each fact the ids of the best memories, the best first, ties by id."""
        depth = self._lookup.depth
        words: list[list[str]] = [[] for _ in facts]
        if self._lookup.uses_words:
            words = [self._words.best(fact, depth) for fact in facts]
        nearest = self._near(facts, depth)
        return [self._lookup.merge(each, nearest.get(n, [])) for n, each in enumerate(words)]

    def _near(self, facts: Sequence[str], depth: int) -> dict[int, list[str]]:
        """Give by its place what is nearest to each fact that has a vector."""
        self._take_vectors()
        vectors = {
            n: vector
            for n, fact in enumerate(facts)
            if (vector := self._vectors.get(fact)) is not None
        }
        if self._nearest is None or not vectors:
            return {}
        queries = unit_rows(list(vectors.values()))
        return dict(zip(vectors, self._nearest.best(queries, depth), strict=True))

    def _take_vectors(self) -> None:
        """Take over the vectors that have come meanwhile."""
        come = {
            memory_id: vector
            for memory_id, text in self._lacking.items()
            if (vector := self._vectors.get(text)) is not None
        }
        for memory_id, vector in come.items():
            del self._lacking[memory_id]
            if self._nearest is None:
                self._nearest = VectorIndex(len(vector))
        if self._nearest is not None:
            self._nearest.add(come)
