"""Rows of large tables, for the benchmarks that commit to them."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from memorypipe import ids
from memorypipe.schema import ACTIONS, SCOPE, table_schema

SEED = 7
MEMORIES_PER_SCOPE = 100
START = datetime(2024, 5, 1, tzinfo=UTC)


def scope_columns(users: Any) -> dict[str, pa.Array]:
    """Make the scope columns of rows that belong to user numbers."""
    names = [f"user-{number}" for number in range(int(users.max()) + 1)]
    scopes = [{"user_id": name} for name in names]
    place = pa.array(users)
    return {
        "scope": pa.array([list(scope.items()) for scope in scopes], SCOPE).take(place),
        "scope_key": pa.array([ids.scope_key(scope) for scope in scopes]).take(place),
        "user_id": pa.array(names).take(place),
    }


def fill(columns: dict[str, Any], schema: pa.Schema, num_rows: int) -> pa.Table:
    """Make a table from columns, constants and nulls."""
    arrays = []
    for field in schema:
        value = columns.get(field.name)
        if not isinstance(value, pa.Array):
            zeros = pa.array(np.zeros(num_rows, np.int32))
            value = pa.array([value], field.type).take(zeros)
        arrays.append(value)
    return pa.table(arrays, schema=schema)


def live_rows(rows: int, dim: int, *, width: int = 1) -> pa.Table:
    """Make live memories.

    Args:
        rows: How many.
        dim: Dimensions of their vectors; 0 for none.
        width: Of the column then.
    """
    rng = np.random.default_rng(SEED)
    numbers = np.arange(rows)
    texts = [f"Memory number {number} says what it says" for number in numbers]
    scopes = scope_columns(numbers // MEMORIES_PER_SCOPE)
    named = zip(scopes["scope_key"].to_pylist(), texts, strict=True)
    values = pa.array(rng.random(rows * dim, dtype=np.float32))
    columns = scopes | {
        "record_type": "memory",
        "memory_id": pa.array([ids.memory_id("memory", key, text) for key, text in named]),
        "revision": 1,
        "is_current": True,
        "event": "ADD",
        "text": pa.array(texts),
        "search_text": pa.array(texts),
        "text_hash": pa.array([ids.text_hash(text) for text in texts]),
        "created_at": START,
        "updated_at": START,
        "valid_from": START,
        "deleted": False,
        "status": "valid",
        "is_live": True,
        "run_id": "seed",
        "source_ids": ["m1", "m2"],
        "vector": pa.FixedSizeListArray.from_arrays(values, dim) if dim else None,
    }
    return fill(columns, table_schema(dim or width), rows)


def make_actions(memories: pa.Table, count: int, dim: int) -> pa.Table:
    """Make the actions: updates of random memories and additions, half and half."""
    rng = np.random.default_rng(SEED)
    updates = count // 2
    rows = memories.num_rows
    picked = np.sort(rng.choice(rows, updates, replace=False))
    users = np.concatenate([picked, rng.integers(0, rows, count - updates)]) // MEMORIES_PER_SCOPE
    scopes = scope_columns(users)
    texts = [f"Action number {number} says something new" for number in range(count)]
    added = zip(scopes["scope_key"].to_pylist()[updates:], texts[updates:], strict=True)
    names = memories["memory_id"].take(pa.array(picked)).to_pylist()
    names += [ids.memory_id("memory", key, text) for key, text in added]
    values = pa.array(rng.random(count * dim, dtype=np.float32))
    vectors = pa.FixedSizeListArray.from_arrays(values, dim) if dim else None
    columns = scopes | {
        "seq": pa.array(range(count), pa.int32()),
        "record_type": "memory",
        "event": pa.array(["UPDATE"] * updates + ["ADD"] * (count - updates)),
        "memory_id": pa.array(names),
        "text": pa.array(texts),
        "event_time": START,
        "conversation_id": "c1",
        "window_id": "w1",
        "source_ids": ["m7", "m8"],
        "model": "model",
        "prompt_hash": "hash",
    }
    actions = fill(columns, ACTIONS, count)
    if vectors is None:
        return actions
    return actions.append_column("vector", vectors.cast(pa.list_(pa.float32())))
