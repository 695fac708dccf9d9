"""Revisions as Arrow tables: which of them a reader sees, and those that a commit writes.

Pure: tables in, tables out.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.errors import InvalidArgumentError
from memorypipe.schema import SCOPE, TIME, table_schema
from memorypipe.table.actions import Batch
from memorypipe.table.fold import Change

__all__ = [
    "SORT_COLUMNS",
    "STATES",
    "STATE_COLUMNS",
    "Stamp",
    "as_of",
    "closing_rows",
    "new_rows",
    "select_states",
]

STATES = ("live", "deleted", "invalid", "expired", "history")

# What `select_states` and `as_of` look at.
STATE_COLUMNS = (
    "is_current",
    "is_live",
    "deleted",
    "status",
    "expires_at",
    "valid_from",
    "valid_to",
)

# The order of every read.
SORT_COLUMNS = ("scope_key", "created_at", "memory_id", "revision", "record_type")


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """What a commit writes on all of its revisions: its time, run and labels."""

    moment: datetime
    run_id: str
    labels: Mapping[str, str] | None = None


def select_states(rows: pa.Table, include: Collection[str], now: datetime) -> pa.Table:
    """Keep the rows whose state is asked for.

    Args:
        rows: With `STATE_COLUMNS`.
        include: Of `STATES`. A current row that is both invalid and expired needs both.
        now: A row with `expires_at` at or before it is expired.

    Raises:
        InvalidArgumentError: For an unknown state.
    """
    if unknown := sorted(set(include).difference(STATES)):
        raise InvalidArgumentError(f"Unknown state {unknown[0]!r} in include; choices: {STATES!r}.")
    current, deleted = rows["is_current"], rows["deleted"]
    invalid = pc.not_equal(rows["status"], "valid")
    expired = pc.fill_null(pc.less_equal(rows["expires_at"], pa.scalar(now, TIME)), False)
    flagged = pc.or_(deleted, pc.or_(invalid, expired))
    keep = pc.if_else(
        current,
        pc.if_else(flagged, True, "live" in include),
        "history" in include,
    )
    # A tombstone is deleted and nothing else.
    there = pc.and_(current, pc.invert(deleted))
    for state, mask in (
        ("deleted", pc.and_(current, deleted)),
        ("invalid", pc.and_(there, invalid)),
        ("expired", pc.and_(there, expired)),
    ):
        if state not in include:
            keep = pc.and_not(keep, mask)
    return rows.filter(keep)


def as_of(rows: pa.Table, moment: datetime) -> pa.Table:
    """Turn revisions back to how they stood at a commit time.

    Args:
        rows: All revisions, with `STATE_COLUMNS` and any others.
        moment: Commit time, UTC.

    Returns:
        The revisions written by then, with state, `valid_to` and `search_text` of that moment;
        `vector` stays null where the revision was superseded later.
    """
    then = pa.scalar(moment, TIME)
    rows = rows.filter(pc.less_equal(rows["valid_from"], then))
    stood = pc.fill_null(pc.greater(rows["valid_to"], then), True)
    live = pc.and_(stood, pc.and_(pc.invert(rows["deleted"]), pc.equal(rows["status"], "valid")))
    values = {
        "is_current": stood,
        "is_live": live,
        "valid_to": pc.if_else(stood, pa.scalar(None, TIME), rows["valid_to"]),
    }
    if {"search_text", "text"} <= set(rows.column_names):
        values["search_text"] = pc.if_else(live, rows["text"], None)
    for name, column in values.items():
        index = rows.schema.get_field_index(name)
        rows = rows.set_column(index, rows.schema.field(index), column)
    return rows


def closing_rows(base: pa.Table, moment: datetime, vector_dim: int) -> pa.Table:
    """Close revisions: no longer current, out of every search, valid until now.

    Args:
        base: The current revisions, without `search_text` and `vector`.
        moment: Commit time, UTC.
        vector_dim: Width of `vector`.

    Returns:
        The same revisions in the table's schema.
    """
    schema = table_schema(vector_dim)
    values = {
        "is_current": False,
        "is_live": False,
        "valid_to": moment,
        "search_text": None,
        "vector": None,
    }
    return _assemble(
        schema,
        base.num_rows,
        {name: base[name] for name in schema.names if name not in values} | values,
    )


def new_rows(
    batch: Batch,
    changes: list[Change],
    base: pa.Table,
    *,
    stamp: Stamp,
    vector_dim: int,
) -> pa.Table:
    """Build the new revision of each change.

    What an action does not speak of is carried over from the revision before; a DELETE leaves a
    tombstone without content, that keeps the hash of what it removed.

    Args:
        batch: The actions.
        changes: As from `fold`.
        base: The revisions that the changes close, in the order of the changes that have one.
        stamp: Commit time, run and labels.
        vector_dim: Width of `vector`.

    Returns:
        One row per change, in the table's schema; `vector` as the last action of a change has it.
    """
    schema = table_schema(vector_dim)
    event = pa.array([change.event for change in changes], pa.string())
    added, deleted = pc.equal(event, "ADD"), pc.equal(event, "DELETE")
    last = pa.array([change.steps[-1] for change in changes], pa.int64())
    said = batch.actions.take(last)
    before = _align(base, changes)
    text = pc.if_else(deleted, "", said["text"])
    status = pc.fill_null(before["status"], "valid")
    live = pc.and_(pc.invert(deleted), pc.equal(status, "valid"))
    derived = _scope_columns(batch, said["scope_key"])

    def unless_deleted(column: Any) -> Any:
        return pc.if_else(deleted, pa.scalar(None, column.type), column)

    def carried(name: str) -> Any:
        return pc.coalesce(_latest(batch.actions[name], last, changes), before[name])

    return _assemble(
        schema,
        len(changes),
        {
            "record_type": said["record_type"],
            "memory_id": pa.array([change.memory_id for change in changes], pa.string()),
            "external_id": carried("external_id"),
            "revision": pc.add(pc.fill_null(before["revision"], 0), pa.scalar(1, pa.int32())),
            "is_current": True,
            "event": event,
            "scope": derived["scope"],
            "scope_key": said["scope_key"],
            **{
                name: pc.if_else(added, derived[name], before[name])
                for name in ("user_id", "agent_id", "thread_id")
            },
            "text": text,
            "context": unless_deleted(carried("context")),
            "topics": unless_deleted(carried("topics")),
            "metadata": unless_deleted(carried("metadata")),
            "payload": unless_deleted(carried("payload")),
            "event_time": pc.coalesce(said["event_time"], before["event_time"]),
            "created_at": pc.fill_null(before["created_at"], pa.scalar(stamp.moment, TIME)),
            "updated_at": stamp.moment,
            "valid_from": stamp.moment,
            "valid_to": None,
            "expires_at": unless_deleted(carried("expires_at")),
            "deleted": deleted,
            "status": status,
            "is_live": live,
            "run_id": stamp.run_id,
            "conversation_id": said["conversation_id"],
            "source_ids": _sources(batch.actions["source_ids"], last, changes),
            "rationale": said["rationale"],
            "model": said["model"],
            "prompt_hash": said["prompt_hash"],
            "labels": None if stamp.labels is None else sorted(stamp.labels.items()),
            "revision_expires_at": None,
            "text_hash": pc.coalesce(batch.text_hash.take(last), before["text_hash"]),
            "search_text": pc.if_else(live, text, None),
            "vector": _vectors(said["vector"], live, vector_dim),
        },
    )


def _vectors(given: pa.ChunkedArray, live: Any, vector_dim: int) -> pa.ChunkedArray:
    """Give the vectors of what is live, as wide as the table's."""
    return pc.if_else(live, given, pa.scalar(None, given.type)).cast(
        pa.list_(pa.float32(), vector_dim)
    )


def _assemble(schema: pa.Schema, num_rows: int, values: Mapping[str, Any]) -> pa.Table:
    """Make a table from columns and constants."""
    columns = [
        value
        if isinstance(value, pa.Array | pa.ChunkedArray)
        else _constant(value, schema.field(name).type, num_rows)
        for name, value in ((name, values[name]) for name in schema.names)
    ]
    return pa.table(columns, schema=schema)


def _constant(value: Any, kind: pa.DataType, num_rows: int) -> pa.Array:
    if value is None:
        return pa.nulls(num_rows, kind)
    return pa.array([value], kind).take(pa.repeat(pa.scalar(0, pa.int32()), num_rows))


def _align(base: pa.Table, changes: list[Change]) -> pa.Table:
    """Repeat the base rows so that row i belongs to change i; an ADD gets a row of nulls."""
    numbers: list[int | None] = []
    seen = 0
    for change in changes:
        numbers.append(None if change.base is None else seen)
        seen += change.base is not None
    nullable = pa.schema([field.with_nullable(True) for field in base.schema])
    return base.cast(nullable).take(pa.array(numbers, pa.int64()))


def _latest(column: pa.ChunkedArray, last: pa.Array, changes: list[Change]) -> Any:
    """Take, per change, the value of the last step that gives one."""
    given = pc.is_valid(column).to_pylist()
    return _patched(
        column,
        last,
        {
            number: next((column[step].as_py() for step in reversed(steps) if given[step]), None)
            for number, steps in _folded(changes)
        },
    )


def _sources(column: pa.ChunkedArray, last: pa.Array, changes: list[Change]) -> Any:
    """Take each change's source ids; those of several steps are joined, none is lost."""
    return _patched(
        column,
        last,
        {
            number: _union([column[step].as_py() for step in steps])
            for number, steps in _folded(changes)
        },
    )


def _folded(changes: list[Change]) -> list[tuple[int, list[int]]]:
    """Find the few changes of several steps; all others are taken column by column."""
    return [(n, change.steps) for n, change in enumerate(changes) if len(change.steps) > 1]


def _patched(column: pa.ChunkedArray, picks: pa.Array, patches: dict[int, Any]) -> Any:
    """Take rows of a column, with other values at some places."""
    if not patches:
        return column.take(picks)
    places = np.array(picks)
    places[list(patches)] = range(len(column), len(column) + len(patches))
    pool = [*column.chunks, pa.array(list(patches.values()), column.type)]
    return pa.chunked_array(pool, column.type).take(pa.array(places))


def _union(lists: list[list[str] | None]) -> list[str] | None:
    if all(each is None for each in lists):
        return None
    return list(dict.fromkeys(item for each in lists for item in each or ()))


def _scope_columns(batch: Batch, scope_key: pa.ChunkedArray) -> dict[str, Any]:
    scopes = list(batch.scopes.values())
    where = pc.index_in(scope_key, pa.array(list(batch.scopes), pa.string()))
    columns = {"scope": pa.array([list(scope.items()) for scope in scopes], SCOPE).take(where)}
    for name in ("user_id", "agent_id", "thread_id"):
        columns[name] = pa.array([scope.get(name) for scope in scopes], pa.string()).take(where)
    return columns
