"""Which memories of a scope a decision gets to see.

Ranking uses the memories of that scope alone, so that a commit in another scope, or maintenance
of the table, changes no prompt.
"""

import heapq
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, Protocol, get_args

import pyarrow as pa

from memorypipe.errors import InvalidArgumentError
from memorypipe.text import normalise

__all__ = ["KeywordIndex", "Lookup", "Memory", "Strategy", "live_memories", "tokens"]

Strategy = Literal["auto", "all", "recent", "keyword"]

# BM25's usual constants: how fast repetition saturates, how much length counts.
_K1 = 1.2
_B = 0.75

# So few memories that half of them may well share a word that counts.
_FEW = 10

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


class KeywordIndex:
    """BM25 over the memories of one scope, kept up as they change.

    A word that more than half of the memories hold tells nothing and is passed over.

    Args:
        memories: What it holds at first.

    Example:
        >>> tea, cat = Memory(id="m1", text="Likes tea"), Memory(id="m2", text="Owns a cat")
        >>> KeywordIndex([tea, cat]).best("likes green tea", 5)
        ['m1']
    """

    def __init__(self, memories: Iterable[Memory] = ()) -> None:
        self._lengths: dict[str, int] = {}
        self._total_length = 0
        self._holders: dict[str, dict[str, int]] = {}
        self._dampings: dict[str, float] = {}  # as of the last change; empty: to be made
        for memory in memories:
            self.add(memory)

    def add(self, memory: Memory) -> None:
        """Take a memory in; its id must not be held yet."""
        self._dampings = {}
        words = tokens(memory.text)
        self._lengths[memory.id] = len(words)
        self._total_length += len(words)
        for word, count in Counter(words).items():
            self._holders.setdefault(word, {})[memory.id] = count

    def remove(self, memory: Memory) -> None:
        """Forget a memory, given as it was taken in."""
        self._dampings = {}
        self._total_length -= self._lengths.pop(memory.id)
        for word in set(tokens(memory.text)):
            del self._holders[word][memory.id]

    def best(self, query: str, k: int) -> list[str]:
        """Give the ids of the `k` best memories that share a word, the best first, ties by id."""
        scores: defaultdict[str, float] = defaultdict(float)
        count_all = len(self._lengths)
        dampings = self._length_dampings()
        # Sorted, so that the sum, and with it a tie, comes out the same in every process.
        for word in sorted(set(tokens(query))):
            holders = self._holders.get(word, {})
            if count_all > _FEW and 2 * len(holders) > count_all:
                continue
            rarity = math.log1p((count_all - len(holders) + 0.5) / (len(holders) + 0.5))
            for memory_id, count in holders.items():
                scores[memory_id] += rarity * count * (_K1 + 1) / (count + dampings[memory_id])
        best = heapq.nsmallest(k, ((-score, memory_id) for memory_id, score in scores.items()))
        return [memory_id for _, memory_id in best]

    def _length_dampings(self) -> dict[str, float]:
        """Say per memory how much its length takes off a word's weight."""
        if not self._dampings and self._lengths:
            slope = _K1 * _B * len(self._lengths) / max(self._total_length, 1)
            base = _K1 * (1 - _B)
            self._dampings = {name: base + slope * n for name, n in self._lengths.items()}
        return self._dampings


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

    @property
    def ranks(self) -> bool:
        """Whether memories are ranked, so that an index of them is of use."""
        return self.strategy in {"auto", "keyword"}

    def choose(
        self, facts: Sequence[str], memories: Sequence[Memory], index: KeywordIndex | None = None
    ) -> list[Memory]:
        """Choose the memories that a decision about these facts sees.

        Args:
            facts: The texts of the facts.
            memories: The live memories of one scope, oldest first.
            index: The same memories, indexed; None makes one where it is needed.

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
        best = [(index or KeywordIndex(memories)).best(fact, self.top_k) for fact in facts]
        by_id = {memory.id: memory for memory in memories}
        return [by_id[memory_id] for memory_id in _by_turns(best)[: self.max_memories]]


def _by_turns(rankings: Sequence[Sequence[str]]) -> list[str]:
    """Unite rankings: the first of each, then the second of each, and so on, each id once."""
    deepest = max(map(len, rankings), default=0)
    turns = (ids[rank] for rank in range(deepest) for ids in rankings if rank < len(ids))
    return list(dict.fromkeys(turns))


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
    columns = ["scope_key", "memory_id", "text", "context", "event_time", "updated_at"]
    rows = table.read_scopes(scope_keys, columns).to_pylist()
    # What nothing dates is as old as its last change.
    rows.sort(key=lambda r: (r["event_time"] or r["updated_at"], r["updated_at"], r["memory_id"]))
    found: dict[str, list[Memory]] = {}
    for row in rows:
        memory = Memory(
            id=row["memory_id"],
            text=row["text"],
            context=row["context"],
            event_time=row["event_time"],
        )
        found.setdefault(row["scope_key"], []).append(memory)
    return found
