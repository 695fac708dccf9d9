"""What is ranked in bulk is ranked to the bit as what is ranked one by one."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from memorypipe.rank.fusion import best_places, fused, fused_scores
from memorypipe.rank.keyword import KeywordIndex, keyword_scores
from memorypipe.rank.lookup import Lookup, ScopeIndex
from memorypipe.rank.memory import Memory
from memorypipe.rank.scope_rows import Request, ScopedRows
from memorypipe.schema import TIME

WORDS = (
    "tea",
    "Tea",
    "café",
    "cafe\u0301",
    "ΣΑΣ",
    "straße",
    "喝茶",
    "我喜欢",
    "x_y",
    "a" * 20,
    "'",
)
SAME_ENDS = ("abcdefgh-1", "abcdefghMIDDLE12345678", "abcdefghmuddle12345678")
sentences = st.lists(st.sampled_from((*WORDS, *SAME_ENDS)), max_size=6).map(" ".join)
texts = st.one_of(sentences, st.text(max_size=30))
START = datetime(2025, 1, 1, tzinfo=UTC)


@given(
    st.lists(st.lists(texts, max_size=15), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), texts), min_size=1, max_size=4),
)
def test_bm25_in_bulk_ranks_as_an_index_of_each_scope_does(held: Any, asked: Any) -> None:
    asked = [(scope % len(held), text) for scope, text in asked]
    starts = np.cumsum([0, *map(len, held)])
    scopes = np.array([scope for scope, _ in asked])
    flat = pa.chunked_array([[text for each in held for text in each]], pa.string())
    scores = keyword_scores(flat, starts, [text for _, text in asked], scopes)
    indexes = [
        KeywordIndex(Memory(id=f"m{n:02d}", text=text) for n, text in enumerate(each))
        for each in held
    ]
    places = best_places(scores, 10, above=0.0)
    found = [[f"m{n:02d}" for n in each] for each in places]
    assert found == [indexes[scope].best(text, 10) for scope, text in asked]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=70),
    st.integers(1, 60),
)
def test_rankings_fused_in_bulk_are_fused_as_one_by_one(pairs: Any, k: int) -> None:
    words = np.array([[float(pair[0]) for pair in pairs]])
    likeness = np.array([[float(pair[1]) - 1 if pair[1] else -np.inf for pair in pairs]])
    rankings = [
        best_places(scores, len(pairs), above=above)[0]
        for scores, above in ((words, 0.0), (likeness, -np.inf))
    ]
    places = best_places(fused_scores(words, likeness, k), k, above=0.0)[0]
    assert places == [place for place, _ in fused(rankings, k)]


@settings(max_examples=60)
@given(
    st.lists(st.tuples(sentences, st.integers(0, 2)), max_size=25),
    st.lists(sentences, max_size=3),
    st.sampled_from(["all", "recent", "keyword", "vector", "hybrid"]),
    st.sampled_from([1, 3, 10]),
)
def test_a_lookup_over_columns_chooses_as_one_over_memories(
    rows: list[tuple[str, int]], facts: list[str], strategy: Any, top_k: int
) -> None:
    lookup = Lookup(strategy=strategy, top_k=top_k, max_memories=12)
    times = [START + timedelta(days=day) for _, day in rows]
    vectors = {text: _vector(text) for text in [*(text for text, _ in rows), *facts] if text}
    memories = [
        Memory(id=f"m{(n * 7) % 31:02d}", text=text, event_time=time)
        for n, ((text, _), time) in enumerate(zip(rows, times, strict=True))
    ]
    oldest = sorted(memories, key=lambda memory: (memory.event_time, memory.id))
    chosen = lookup.choose(facts, oldest, ScopeIndex(lookup, oldest, vectors))
    scoped = ScopedRows(_table(memories, vectors))
    places = scoped.choose([Request("s", facts), Request("none", facts)], lookup, vectors)
    assert places[1] == []
    assert scoped.cells(places[0]) == [memory.to_cell() for memory in chosen]


def _vector(text: str) -> Any:
    """Make a vector of small whole numbers, so that many cosines tie."""
    return np.array([text.count("t") + 1, text.count("a"), len(text) % 3], np.float32)


def _table(memories: list[Memory], vectors: dict[str, Any]) -> pa.Table:
    given = [
        vectors[memory.text].tolist() if memory.text in vectors else None for memory in memories
    ]
    return pa.table(
        {
            "scope_key": pa.array(["s"] * len(memories), pa.string()),
            "memory_id": pa.array([memory.id for memory in memories], pa.string()),
            "text": pa.array([memory.text for memory in memories], pa.string()),
            "context": pa.nulls(len(memories), pa.string()),
            "event_time": pa.array([memory.event_time for memory in memories], TIME),
            "updated_at": pa.array([START] * len(memories), TIME),
            "vector": pa.array(given, pa.list_(pa.float32(), 3)),
        }
    )
