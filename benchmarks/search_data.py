"""The table that the benchmarks of lookups and searches read: texts and vectors that resemble."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memorypipe import ids
from memorypipe.schema import SCOPE, table_schema
from memorypipe.table.records import Head, Settings, head_row

__all__ = ["DIM", "Corpus", "KnownVectors", "make_corpus", "memory_id", "write_table"]

SEED = 7
DIM = 256
START = datetime(2024, 5, 1, tzinfo=UTC)

_WORDS = 20_000
_WORDS_PER_TEXT = 9
_TOPICS = 2_000
_NOISE = 0.8  # beside a topic of length 1: two texts of one topic have a cosine of about 0.6


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Memories, scope after scope.

    Attributes:
        texts: Nine words each, frequent and rare ones as in a language.
        vectors: ``float32[memories, DIM]``, each about one of some topics.
        scopes: Of each memory, by number.
    """

    texts: list[str]
    vectors: NDArray[np.float32]
    scopes: NDArray[np.int64]

    def scope(self, number: int) -> dict[str, str]:
        """Give a scope by its number."""
        return {"user_id": f"user-{number}"}


def memory_id(number: int) -> str:
    """Give a memory's id; ids come in another order than the memories."""
    return f"mem_{number * 2654435761 % 2**32:08x}"


class KnownVectors:
    """An embedder that knows the vectors of its texts; embedding is not what is measured."""

    name = "benchmark/known"
    dim = DIM
    max_chars = None

    def __init__(self, vectors: dict[str, NDArray[np.float32]]) -> None:
        self._vectors = vectors

    def embed(self, texts: Any) -> NDArray[np.float32]:
        """Look the vectors of texts up."""
        return np.array([self._vectors[text] for text in texts])


def make_corpus(rows: int, per_scope: int) -> Corpus:
    """Make memories; the same ones for the same numbers."""
    rng = np.random.default_rng(SEED)
    ranks = np.arange(1, _WORDS + 1)
    chances = 1 / ranks**0.9
    lengths = rng.integers(2, 9, _WORDS)
    words = np.array([f"{'abcdefghi'[:size]}{n}" for n, size in enumerate(lengths.tolist())])
    picked = rng.choice(_WORDS, (rows, _WORDS_PER_TEXT), p=chances / chances.sum())
    topics = rng.standard_normal((_TOPICS, DIM)).astype(np.float32)
    vectors = topics[rng.integers(0, _TOPICS, rows)]
    vectors += np.float32(_NOISE) * rng.standard_normal((rows, DIM), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return Corpus(
        texts=[" ".join(row) for row in words[picked].tolist()],
        vectors=vectors,
        scopes=np.arange(rows) // per_scope,
    )


def write_table(uri: Path, corpus: Corpus, *, live: NDArray[np.bool_] | None = None) -> None:
    """Write memories as a table that was optimised: by scope, the scopes indexed.

    Args:
        uri: Where.
        corpus: The memories.
        live: Which of them are live; the others are history. None: all.
    """
    live = np.ones(len(corpus.texts), np.bool_) if live is None else live
    names = [f"user-{number}" for number in range(int(corpus.scopes.max()) + 1)]
    scopes = [{"user_id": name} for name in names]
    keys = np.array([ids.scope_key(scope) for scope in scopes])
    order = np.lexsort([np.arange(len(live)), keys[corpus.scopes], ~live])
    place, alive = pa.array(corpus.scopes[order]), pa.array(live[order])
    texts = pa.array(corpus.texts).take(pa.array(order))
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array(corpus.vectors[order].ravel()), DIM, mask=pc.invert(alive)
    )
    values: dict[str, Any] = {
        "record_type": "memory",
        "memory_id": pa.array([memory_id(number) for number in order.tolist()]),
        "revision": 1,
        "is_current": alive,
        "event": "ADD",
        "scope": pa.array([list(scope.items()) for scope in scopes], SCOPE).take(place),
        "scope_key": pa.array(keys.tolist()).take(place),
        "user_id": pa.array(names).take(place),
        "text": texts,
        "created_at": START,
        "updated_at": START,
        "valid_from": START,
        "deleted": False,
        "status": "valid",
        "is_live": alive,
        "run_id": "seed",
        "search_text": pc.if_else(alive, texts, None),
        "vector": vectors,
    }
    schema = table_schema(DIM)
    zeros = pa.array(np.zeros(len(live), np.int32))
    columns = []
    for field in schema:
        value = values.get(field.name)
        if not isinstance(value, pa.Array):
            value = pa.array([value], field.type).take(zeros)
        columns.append(value)
    dataset = str(uri / "memories.lance")
    lance.write_dataset(pa.table(columns, schema=schema), dataset, data_storage_version="2.2")
    settings = Settings(embedder=KnownVectors.name)
    head = Head(number=0, committed_at=START, created_at=START, vector_dim=DIM, settings=settings)
    lance.write_dataset(head_row(head), dataset, mode="append")
    lance.dataset(dataset).create_scalar_index("scope_key", "BTREE")
