"""Which memories of a scope a decision gets to see.

Ranking uses the memories of that scope alone, so that a commit in another scope, or maintenance
of the table, changes no prompt.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, Protocol, get_args

import pyarrow as pa

from memorypipe.errors import InvalidArgumentError
from memorypipe.text import normalise

__all__ = ["Lookup", "Memory", "Strategy", "keyword_scores", "live_memories", "tokens"]

Strategy = Literal["auto", "all", "recent", "keyword"]

# BM25's usual constants: how fast repetition saturates, how much length counts.
_K1 = 1.2
_B = 0.75

_UNDATED = datetime.min.replace(tzinfo=UTC)

_WORD = re.compile(r"[^\W_]+")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af]+")


@dataclass(frozen=True, kw_only=True)
class Memory:
    """One live memory, as a lookup gives it.

    Attributes:
        id: Its id.
        text: What it says.
        context: Free text that goes with it.
        event_time: When it was said (UTC); None where nothing tells.
    """

    id: str
    text: str
    context: str | None = None
    event_time: datetime | None = None

    def to_cell(self) -> dict[str, Any]:
        """Give the memory as an item of an `existing` cell; what is not known is left out."""
        cell = {"id": self.id, "text": self.text, "context": self.context}
        if self.event_time is not None:
            cell["event_time"] = self.event_time.isoformat()
        return {key: value for key, value in cell.items() if value is not None}


@lru_cache(maxsize=65_536)
def tokens(text: str) -> tuple[str, ...]:
    """Cut a text into words, and scripts without spaces into pairs of characters.

    Example:
        >>> tokens("Likes tea, 喜欢喝茶")
        ('likes', 'tea', '喜欢', '欢喝', '喝茶')
    """
    found: list[str] = []
    for word in _WORD.findall(normalise(text)):
        rest = word
        for run in _CJK.findall(word):
            before, _, rest = rest.partition(run)
            found += [before] if before else []
            found += [run[i : i + 2] for i in range(max(len(run) - 1, 1))]
        found += [rest] if rest else []
    return tuple(found)


def keyword_scores(query: str, texts: Sequence[str]) -> list[float]:
    """Score texts against a query by BM25, statistics taken from these texts alone.

    Args:
        query: A fact.
        texts: The texts of one scope.

    Returns:
        One score per text, 0 where no word is shared.

    Example:
        >>> scores = keyword_scores("likes green tea", ["Likes tea", "Owns a cat"])
        >>> scores[0] > scores[1] == 0.0
        True
    """
    return _Bm25([tokens(text) for text in texts]).scores(tokens(query))


class _Bm25:
    """BM25 over the texts of one scope."""

    def __init__(self, texts: Sequence[Sequence[str]]) -> None:
        self._counts = [Counter(text) for text in texts]
        self._lengths = [len(text) for text in texts]
        self._mean_length = sum(self._lengths) / len(texts) if texts else 0.0
        self._holders: dict[str, list[int]] = {}
        for place, counts in enumerate(self._counts):
            for word in counts:
                self._holders.setdefault(word, []).append(place)

    def scores(self, query: Sequence[str]) -> list[float]:
        scores = [0.0] * len(self._counts)
        # Sorted, so that the sum, and with it a tie, comes out the same in every process.
        for word in sorted(set(query)):
            holders = self._holders.get(word, ())
            rarity = math.log(1 + (len(scores) - len(holders) + 0.5) / (len(holders) + 0.5))
            for place in holders:
                count = self._counts[place][word]
                length = self._lengths[place] / self._mean_length
                scores[place] += rarity * count * (_K1 + 1) / (count + _K1 * (1 - _B + _B * length))
        return scores


@dataclass(frozen=True, kw_only=True)
class Lookup:
    """How memories are chosen for a decision.

    Attributes:
        strategy: ``"all"``: every memory, newest first. ``"recent"``: the `top_k` newest.
            ``"keyword"``: per fact the `top_k` best by BM25, united. ``"auto"``: ``"keyword"``.
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

    def choose(self, facts: Sequence[str], memories: Sequence[Memory]) -> list[Memory]:
        """Choose the memories that a decision about these facts sees.

        Args:
            facts: The texts of the facts.
            memories: The live memories of one scope, oldest first.

        Returns:
            At most `max_memories` of them; the best first where they are ranked, else the newest.
        """
        newest = list(reversed(memories))
        if self.strategy == "all":
            return newest[: self.max_memories]
        if self.strategy == "recent":
            return newest[: min(self.top_k, self.max_memories or self.top_k)]
        if len(memories) <= self.top_k:
            return newest[: self.max_memories]
        return self._ranked(facts, memories)[: self.max_memories]

    def _ranked(self, facts: Sequence[str], memories: Sequence[Memory]) -> list[Memory]:
        """Unite the best of each fact: the first of every fact, then the second of every fact."""
        index = _Bm25([tokens(memory.text) for memory in memories])
        best = []
        for fact in facts:
            scored = zip(index.scores(tokens(fact)), memories, strict=True)
            hits = sorted((-score, memory.id) for score, memory in scored if score > 0)
            best.append([memory_id for _, memory_id in hits[: self.top_k]])
        by_id = {memory.id: memory for memory in memories}
        deepest = max((len(hits) for hits in best), default=0)
        united = dict.fromkeys(
            hits[rank] for rank in range(deepest) for hits in best if rank < len(hits)
        )
        return [by_id[memory_id] for memory_id in united]


class _Scopes(Protocol):
    """What a table offers that is read by scope."""

    def read_scopes(self, scope_keys: Sequence[str], columns: Sequence[str]) -> pa.Table:
        """Read the live rows of many scopes in one pass."""
        ...


def live_memories(table: _Scopes, scope_keys: Sequence[str]) -> dict[str, list[Memory]]:
    """Read the live memories of scopes in one pass.

    Args:
        table: A memory table, or a view of one.
        scope_keys: The scopes.

    Returns:
        Scope key → memories, oldest first; scopes without any are left out.
    """
    columns = ["scope_key", "memory_id", "text", "context", "event_time"]
    found: dict[str, list[Memory]] = {}
    for row in table.read_scopes(scope_keys, columns).to_pylist():
        memory = Memory(
            id=row["memory_id"],
            text=row["text"],
            context=row["context"],
            event_time=row["event_time"],
        )
        found.setdefault(row["scope_key"], []).append(memory)
    for memories in found.values():
        memories.sort(key=lambda memory: (memory.event_time or _UNDATED, memory.id))
    return found
