"""Rows as a back end stores them, made in bulk: many memories without the work of a commit."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from memorypipe import ids
from memorypipe.schema import SCOPE, table_schema
from memorypipe.table.records import Head, head_row
from memorypipe.table.storage import Storage
from tests.support.table_actions import START, minted

DIM = 4


def stored_rows(texts: Sequence[str], scopes: Sequence[Mapping[str, str]]) -> pa.Table:
    """Make one live memory per text and scope, each with a vector."""
    values: dict[str, Any] = {
        "record_type": "memory",
        "memory_id": [minted(text, scope) for text, scope in zip(texts, scopes, strict=True)],
        "revision": 1,
        "is_current": True,
        "event": "ADD",
        "scope": pa.array([list(scope.items()) for scope in scopes], SCOPE),
        "scope_key": [ids.scope_key(scope) for scope in scopes],
        "text": texts,
        "created_at": START,
        "updated_at": START,
        "valid_from": START,
        "deleted": False,
        "status": "valid",
        "is_live": True,
        "run_id": "seed",
        "text_hash": [ids.text_hash(text) for text in texts],
        "search_text": texts,
        "vector": pa.FixedSizeListArray.from_arrays(
            pa.array(np.arange(len(texts) * DIM, dtype=np.float32)), DIM
        ),
    }
    schema = table_schema(DIM)
    columns = [_column(values.get(field.name), field.type, len(texts)) for field in schema]
    return pa.table(columns, schema=schema)


def _column(value: Any, kind: pa.DataType, num_rows: int) -> pa.Array:
    if isinstance(value, list):
        return pa.array(value, kind)
    if isinstance(value, pa.Array):
        return value
    return pa.nulls(num_rows, kind) if value is None else pa.array([value] * num_rows, kind)


def store(storage: Storage, rows: pa.Table) -> None:
    """Make a table that has these rows, with no run row: at version 0."""
    head = Head(number=0, committed_at=START, created_at=START, vector_dim=DIM)
    storage.create(head)
    none = pa.array([], pa.uint64())
    storage.snapshot().commit(closed=none, rows=rows, head=head_row(head))
