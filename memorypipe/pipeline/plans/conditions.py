"""Which actions of a plan a condition holds for."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.errors import InvalidArgumentError
from memorypipe.table.lance.conditions import rows_where

__all__ = ["actions_where"]

_MATCH = "_match"


def actions_where(actions: pa.Table, condition: pc.Expression | str) -> Any:
    """Tell which actions a condition holds for.

    Args:
        actions: Schema `memorypipe.schema.PLAN_ACTIONS`.
        condition: A `pyarrow.compute.Expression`, or SQL as for
            `memorypipe.table.lance.conditions.rows_where`, over these columns. `scope` is a struct
            in both, with a field for every name that a scope of the plan has:
            ``pc.field("scope", "user_id") == "u1"``, ``"scope.user_id = 'u1'"``.

    Returns:
        bool per action (numpy); False also where the condition is null.

    Raises:
        InvalidArgumentError: For what is no condition on these columns.
    """
    place = actions.schema.get_field_index("scope")
    rows = actions.set_column(place, "scope", _struct(actions["scope"].combine_chunks()))
    if isinstance(condition, str):
        return np.asarray(rows_where(rows, condition))
    if not isinstance(condition, pc.Expression):
        raise InvalidArgumentError(
            "A condition is a pyarrow.compute.Expression such as pc.field('event') == 'DELETE', "
            f"or SQL such as \"event = 'DELETE'\", got {type(condition).__name__}."
        )
    return np.asarray(_matches(rows, condition))


def _matches(rows: pa.Table, condition: pc.Expression) -> pa.Array:
    numbered = rows.append_column(_MATCH, pa.array(range(rows.num_rows), pa.int64()))
    try:
        found = numbered.filter(condition)[_MATCH]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        what = str(error).split("\n", maxsplit=1)[0]
        raise InvalidArgumentError(
            f"The condition {str(condition)!r} does not fit the actions: {what}. Columns: "
            f"{', '.join(rows.column_names)}."
        ) from None
    return pc.is_in(numbered[_MATCH], found.combine_chunks()).combine_chunks()


def _struct(scopes: pa.MapArray) -> pa.StructArray:
    """Lay scopes out with a field per name; null where a scope does not have it."""
    names = sorted(pc.unique(scopes.keys).to_pylist())
    if not names:
        return pa.array([{}] * len(scopes), pa.struct([]))
    fields = [pc.map_lookup(scopes, name, "first") for name in names]
    return pa.StructArray.from_arrays(fields, names=names)
