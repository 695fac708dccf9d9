"""The live memories of many scopes as columns, and the choice among those of each.

A scope's choice is to the letter that of `Lookup.choose`, without an object per memory.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memorypipe.rank.fusion import best_places, fused_scores
from memorypipe.rank.id_order import places_by_scope
from memorypipe.rank.keyword import keyword_scores
from memorypipe.rank.lookup import Lookup
from memorypipe.rank.memory import memory_cell
from memorypipe.rank.vector import MISSING, unit_rows
from memorypipe.rank.vector_rows import VectorRows

__all__ = ["Request", "ScopedRows"]

_COLUMNS = ("scope_key", "memory_id", "text", "context", "event_time", "updated_at")

# Scores held at once: 32 MB a matrix.
_CELLS = 1 << 22


@dataclass(frozen=True)
class Request:
    """Facts of one scope that memories are wanted for.

    Attributes:
        scope_key: The scope.
        facts: Their texts.
    """

    scope_key: str
    facts: Sequence[str]


class ScopedRows:
    """Live memories of many scopes.

    Args:
        rows: With the columns that `columns` names.
    """

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        self._vectors = VectorRows(rows["vector"]) if "vector" in rows.column_names else None
        self._places = places_by_scope(rows["scope_key"], rows["memory_id"])

    @staticmethod
    def columns(lookup: Lookup) -> list[str]:
        """Name the columns that a lookup needs."""
        return [*_COLUMNS, *(["vector"] if lookup.uses_vectors else [])]

    def ranked(self, requests: Iterable[Request], lookup: Lookup) -> list[Request]:
        """Give the requests whose answer depends on how the memories rank."""
        if not lookup.ranks:
            return []
        return [each for each in requests if len(self._in(each.scope_key)) > lookup.top_k]

    def lacking(self, scope_keys: Iterable[str]) -> dict[str, list[int]]:
        """Find the memories of some scopes that have no vector: their texts, and their places."""
        found: dict[str, list[int]] = {}
        if self._vectors is None or not self._rows["vector"].null_count:
            return found
        for key in dict.fromkeys(scope_keys):
            places = self._in(key)
            for place in places[self._vectors.lacks(places)].tolist():
                found.setdefault(self._texts[place], []).append(place)
        return found

    def fill(self, vectors: Mapping[str, Any], places: Mapping[str, Sequence[int]]) -> None:
        """Give memories that had none the vectors of their texts."""
        if self._vectors is not None and vectors:
            # Those of another embedder, and another width, came as null: none is lost.
            given = {place: vectors[text] for text in vectors for place in places[text]}
            self._vectors.fill(given)

    def choose(
        self, requests: Sequence[Request], lookup: Lookup, vectors: Mapping[str, Any]
    ) -> list[list[int]]:
        """Choose memories for many requests.

        Args:
            requests: What is wanted.
            lookup: With its strategy settled.
            vectors: Text of a fact to its vector; a fact without one is ranked by words alone.

        Returns:
            Per request the places of what was chosen, as `Lookup.choose` orders it.
        """
        rankings = self._rankings(self.ranked(requests, lookup), lookup, vectors)
        chosen = []
        for each in requests:
            places = self._in(each.scope_key)
            if lookup.ranks and len(places) > lookup.top_k:
                chosen.append(lookup.unite(next(rankings)))
            else:
                chosen.append(lookup.newest(self._newest(places)))
        return chosen

    def cells(self, places: Sequence[int]) -> list[dict[str, Any]]:
        """Give memories as items of `existing` cells."""
        names = ["memory_id", "text", "context", "event_time"]
        taken = self._rows.select(names).take(pa.array(places, pa.int64()))
        columns = (column.to_pylist() for column in taken.columns)
        return list(map(memory_cell, *columns))

    @cached_property
    def _texts(self) -> list[str]:
        texts: list[str] = self._rows["text"].to_pylist()
        return texts

    def _in(self, scope_key: str) -> NDArray[np.int64]:
        """Give the places of a scope's memories, in the order of their ids."""
        return self._places.get(scope_key, _NOWHERE)

    def _newest(self, places: NDArray[np.int64]) -> list[int]:
        updated = self._rows["updated_at"].take(pa.array(places))
        # What nothing dates is as old as its last change.
        said = pc.coalesce(self._rows["event_time"].take(pa.array(places)), updated)
        order = np.lexsort([np.asarray(times.cast(pa.int64())) for times in (updated, said)])
        newest: list[int] = places[order[::-1]].tolist()
        return newest

    def _rankings(
        self, requests: Sequence[Request], lookup: Lookup, vectors: Mapping[str, Any]
    ) -> Iterator[list[list[int]]]:
        """Give, per request and fact, the places of the best, the best first, ties by id."""
        for chunk in self._chunks(requests):
            scopes = list(dict.fromkeys(each.scope_key for each in chunk))
            places = [self._in(key) for key in scopes]
            slot = {key: number for number, key in enumerate(scopes)}
            facts = [fact for each in chunk for fact in each.facts]
            slots = [slot[each.scope_key] for each in chunk for _ in each.facts]
            best = self._best(places, facts, slots, lookup, vectors)
            ranked = iter(zip(slots, best, strict=True))
            for each in chunk:
                yield [
                    places[number][row].tolist() for number, row in islice(ranked, len(each.facts))
                ]

    def _chunks(self, requests: Sequence[Request]) -> Iterator[list[Request]]:
        """Cut requests so that their scores fit into memory."""
        chunk: list[Request] = []
        width = facts = 0
        for each in requests:
            width = max(width, len(self._in(each.scope_key)))
            facts += len(each.facts)
            if chunk and width * facts > _CELLS:
                yield chunk
                chunk, width, facts = [], len(self._in(each.scope_key)), len(each.facts)
            chunk.append(each)
        if chunk:
            yield chunk

    def _best(
        self,
        places: Sequence[NDArray[np.int64]],
        facts: Sequence[str],
        slots: Sequence[int],
        lookup: Lookup,
        vectors: Mapping[str, Any],
    ) -> list[list[int]]:
        """Rank scopes' memories; as numbers within each fact's scope."""
        if lookup.strategy == "keyword":
            words = self._word_scores(places, facts, slots)
            return best_places(words, lookup.top_k, above=0.0)
        likeness = self._likeness(places, facts, slots, vectors)
        if lookup.strategy == "vector":
            return best_places(likeness, lookup.top_k, above=MISSING)
        words = self._word_scores(places, facts, slots)
        scores = fused_scores(words, likeness, lookup.top_k)
        return best_places(scores, lookup.top_k, above=0.0)

    def _word_scores(
        self, places: Sequence[NDArray[np.int64]], facts: Sequence[str], slots: Sequence[int]
    ) -> NDArray[np.float64]:
        starts = np.concatenate([[0], np.cumsum([len(each) for each in places])])
        # Large strings: all together may have more than two gigabytes.
        texts = self._rows["text"].cast(pa.large_string()).take(pa.array(np.concatenate(places)))
        return keyword_scores(texts, starts, facts, np.array(slots, np.int64))

    def _likeness(
        self,
        places: Sequence[NDArray[np.int64]],
        facts: Sequence[str],
        slots: Sequence[int],
        vectors: Mapping[str, Any],
    ) -> NDArray[np.float64]:
        """Give the cosines of each fact's scope; `MISSING` where there is no vector."""
        width = max(map(len, places), default=0)
        scores = np.full((len(facts), width), MISSING)
        asking: dict[int, list[int]] = {}
        for number, (fact, slot) in enumerate(zip(facts, slots, strict=True)):
            if fact in vectors:
                asking.setdefault(slot, []).append(number)
        if self._vectors is None or not asking:
            return scores
        queries = unit_rows([vectors[facts[n]] for each in asking.values() for n in each])
        start = 0
        for slot, numbers in asking.items():
            asked = queries[start : start + len(numbers)]
            start += len(numbers)
            held = places[slot]
            scores[numbers, : len(held)] = self._vectors.cosines(asked, held)
        return scores


_NOWHERE = np.empty(0, np.int64)
