"""Reading the live memories of scopes from a table."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from memorypipe.rank.memory import Memory
from memorypipe.rank.vector_rows import vector_matrix

__all__ = ["live_memories", "live_vectors"]


class _Scopes(Protocol):
    """What a table offers that is read by scope."""

    def read_scopes(
        self, scope_keys: Sequence[str], columns: Sequence[str], *, vectors_by: str | None = None
    ) -> pa.Table:
        """Read the live rows of many scopes in one pass."""
        ...


def live_memories(
    table: _Scopes, scope_keys: Sequence[str], *, with_metadata: bool = False
) -> dict[str, list[Memory]]:
    """Read the live memories of scopes in one pass.

    Args:
        table: A memory table, or a view of one.
        scope_keys: The scopes.
        with_metadata: Whether their metadata is read too.

    Returns:
        Scope key → memories, oldest first; scopes without any are left out.
    """
    columns = ["scope_key", "memory_id", "text", "context", "event_time", "updated_at"]
    columns += ["metadata"] * with_metadata
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
            metadata=row.get("metadata"),
        )
        found.setdefault(row["scope_key"], []).append(memory)
    return found


def live_vectors(
    table: _Scopes, scope_keys: Sequence[str], embedder: str
) -> dict[str, NDArray[np.float32]]:
    """Read the vectors of the live memories of scopes, by their texts.

    Args:
        table: A memory table, or a view of one.
        scope_keys: The scopes.
        embedder: Name of the embedder whose vectors are wanted; others are left out.
    """
    rows = table.read_scopes(scope_keys, ["text", "vector"], vectors_by=embedder)
    pairs = zip(rows["text"].to_pylist(), vector_matrix(rows["vector"]), strict=True)
    return {text: vector for text, vector in pairs if not np.isnan(vector[0])}
