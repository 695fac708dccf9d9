"""What the actions of a plan come to: at most one change per memory. Pure, over whole columns."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.schema import SCOPE, TIME

__all__ = ["PLAN_CHANGES", "plan_changes"]

#: One row per memory that a plan changes, by scope, in the order of the last action on it.
PLAN_CHANGES = pa.schema(
    [
        pa.field("scope", SCOPE, nullable=False),
        pa.field("scope_key", pa.string(), nullable=False),
        pa.field("event", pa.string(), nullable=False),  # ADD, UPDATE, DELETE
        pa.field("memory_id", pa.string(), nullable=False),
        pa.field("old", pa.string()),  # what it says without the plan; null: it is not there
        pa.field("new", pa.string()),  # what it says with the plan; null: it is gone
        pa.field("steps", pa.int32(), nullable=False),  # actions that come to this
        pa.field("event_time", TIME),  # of the last action, as are all below
        pa.field("conversation_id", pa.string()),
        pa.field("window_id", pa.string()),
        pa.field("source_ids", pa.list_(pa.string())),
        pa.field("rationale", pa.string()),
    ]
)

_KEPT = ("scope", "scope_key", "memory_id", "event_time", "conversation_id", "window_id")
_LAST = (*_KEPT, "source_ids", "rationale")


def plan_changes(actions: pa.Table) -> pa.Table:
    """Fold the actions of a plan, as the commit does: ADD and UPDATE of it are an ADD.

    Args:
        actions: Schema `memorypipe.schema.PLAN_ACTIONS`, sorted by scope and `seq`.

    Returns:
        Schema `PLAN_CHANGES`. A memory that is added and deleted again is not in it; neither are
        the facts that change nothing.
    """
    changing = pc.and_(
        pc.is_in(actions["event"], pa.array(["ADD", "UPDATE", "DELETE"])),
        pc.is_valid(actions["memory_id"]),
    )
    rows = actions.filter(changing)
    first, last, steps = _ends(rows)
    first_event = rows["event"].take(pa.array(first))
    last_event = rows["event"].take(pa.array(last))
    is_new = np.asarray(pc.equal(first_event, "ADD"))
    is_gone = np.asarray(pc.equal(last_event, "DELETE"))
    event = np.where(is_new, "ADD", np.where(is_gone, "DELETE", "UPDATE"))
    ends = rows.select(list(_LAST)).take(pa.array(last))
    columns = {
        **{name: ends[name] for name in _LAST},
        "event": pa.array(event, pa.string()),
        "old": _texts(rows["old_memory"], first, is_new),
        "new": _texts(rows["text"], last, is_gone),
        "steps": pa.array(steps, pa.int32()),
    }
    folded = pa.table([columns[name] for name in PLAN_CHANGES.names], schema=PLAN_CHANGES)
    stays = np.flatnonzero(~(is_new & is_gone))
    return folded.take(pa.array(stays[np.argsort(last[stays])]))


def _texts(column: pa.ChunkedArray, places: Any, is_null: Any) -> pa.Array:
    return column.take(pa.array(places, mask=is_null)).combine_chunks()


def _ends(rows: pa.Table) -> tuple[Any, Any, Any]:
    """Give the places of the first and last action on each memory, and how many there are."""
    columns = (rows["scope_key"], rows["memory_id"])
    scope, memory = (np.asarray(c.combine_chunks().dictionary_encode().indices) for c in columns)
    order = np.lexsort((np.arange(rows.num_rows), memory, scope))
    is_other = (np.diff(scope[order]) != 0) | (np.diff(memory[order]) != 0)
    starts = np.flatnonzero(np.concatenate([[rows.num_rows > 0], is_other]))
    ends = np.append(starts[1:], rows.num_rows)[: len(starts)]
    return order[starts], order[ends - 1], ends - starts
