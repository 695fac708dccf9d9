"""Rows of large tables, for the benchmarks that commit to them."""

from typing import Any

import numpy as np
import pyarrow as pa

from memorypipe import ids
from memorypipe.schema import SCOPE


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
