"""Read rows of a Lance dataset by what is asked of them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.table.lance.predicate import predicate
from memorypipe.table.storage import ADDRESS, Where

__all__ = ["scan"]

# A longer list of scopes costs more to look up in every row than to look up in what is found.
_MANY_SCOPES = 256


def scan(dataset: Any, columns: Sequence[str], where: Where) -> pa.Table:
    """Read columns of the selected rows.

    Args:
        dataset: At one version.
        columns: Names of columns; `ADDRESS` may be one of them.
        where: Which rows.
    """
    if where.record_type == "run" and where.memory_ids is not None and not _any_run(dataset, where):
        return dataset.schema.empty_table().select(list(columns))
    # Few rows have an event that is asked for; the scopes are looked up in those alone.
    later = where.scope_keys if where.events is not None and _are_many(where) else None
    if later is not None:
        where = replace(where, scope_keys=None)
    wanted = list(dict.fromkeys([*columns, *([] if later is None else ["scope_key"])]))
    rows = dataset.to_table(
        columns=[name for name in wanted if name != ADDRESS],
        filter=predicate(where),
        with_row_address=ADDRESS in columns,
    )
    if later is not None:
        rows = rows.filter(pc.is_in(rows["scope_key"], pa.array(later, pa.string())))
    if ADDRESS in columns:
        rows = rows.rename_columns({"_rowaddr": ADDRESS})
    return rows.select(list(columns))


def _are_many(where: Where) -> bool:
    return where.scope_keys is not None and len(where.scope_keys) > _MANY_SCOPES


def _any_run(dataset: Any, where: Where) -> bool:
    """Look for runs among the run rows alone: ids of all rows are dear to read."""
    runs = dataset.to_table(
        columns=["memory_id"],
        filter=predicate(replace(where, memory_ids=None)),
        late_materialization=True,
    )
    return bool(
        pc.any(pc.is_in(runs["memory_id"], pa.array(where.memory_ids, pa.string()))).as_py()
    )
