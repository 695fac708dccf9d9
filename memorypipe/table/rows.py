"""Revisions as Arrow tables: which of them a reader sees, and those that a commit closes.

Pure: tables in, tables out.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.errors import InvalidArgumentError
from memorypipe.schema import TIME, table_schema
from memorypipe.table.vectors import no_vectors

__all__ = [
    "SCOPE_COPIES",
    "SORT_COLUMNS",
    "STATES",
    "STATE_COLUMNS",
    "Stamp",
    "as_of",
    "assemble",
    "check_states",
    "closing_rows",
    "expired_by",
    "one_record",
    "own_vectors",
    "scope_columns",
    "select_states",
]

STATES = ("live", "deleted", "invalid", "expired", "history")

# What a row has of its scope in columns of their own.
SCOPE_COPIES = ("user_id", "agent_id", "thread_id")

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


def check_states(include: Collection[str]) -> None:
    """Check the names of states.

    Raises:
        InvalidArgumentError: For an unknown one.
    """
    if unknown := sorted(set(include).difference(STATES)):
        raise InvalidArgumentError(f"Unknown state {unknown[0]!r} in include; choices: {STATES!r}.")


def select_states(rows: pa.Table, include: Collection[str], now: datetime) -> pa.Table:
    """Keep the rows whose state is asked for.

    Args:
        rows: With `STATE_COLUMNS`.
        include: Of `STATES`. A current row that is both invalid and expired needs both.
        now: A row with `expires_at` at or before it is expired.

    Raises:
        InvalidArgumentError: For an unknown state.
    """
    check_states(include)
    current, deleted = rows["is_current"], rows["deleted"]
    invalid = pc.not_equal(rows["status"], "valid")
    expired = expired_by(rows, now)
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


def expired_by(rows: pa.Table, now: datetime) -> pa.ChunkedArray:
    """Tell which rows have expired at a time.

    Args:
        rows: With `expires_at`.
        now: A row with `expires_at` at or before it is expired.
    """
    return pc.fill_null(pc.less_equal(rows["expires_at"], pa.scalar(now, TIME)), False)


def one_record(rows: pa.Table, memory_id: str, record_type: str | None) -> pa.Table:
    """Keep the rows of the one record that is meant by an id: several types may have the same.

    Args:
        rows: All with that id.
        memory_id: The id, for the error.
        record_type: Of the record; None where only one type has the id.

    Raises:
        InvalidArgumentError: If several have it, and none is named.
    """
    if record_type is not None:
        return rows.filter(pc.equal(rows["record_type"], record_type))
    kinds = sorted(set(rows["record_type"].to_pylist()))
    if len(kinds) > 1:
        raise InvalidArgumentError(
            f"{memory_id!r} is the id of {len(kinds)} records, of the types {kinds!r}; say with "
            "record_type (--record-type) which one is meant."
        )
    return rows


def as_of(rows: pa.Table, moment: datetime) -> pa.Table:
    """Turn revisions back to how they stood at a commit time.

    Args:
        rows: All revisions, with `STATE_COLUMNS` and any others.
        moment: Commit time, UTC.

    Returns:
        The revisions written by then, with state, `valid_to`, `revision_expires_at` and
        `search_text` of that moment; `vector` is null where the revision was superseded later,
        unless it was its caller's own.
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
    if "revision_expires_at" in rows.column_names:
        expires = rows["revision_expires_at"]
        values["revision_expires_at"] = pc.if_else(stood, pa.scalar(None, TIME), expires)
    for name, column in values.items():
        index = rows.schema.get_field_index(name)
        rows = rows.set_column(index, rows.schema.field(index), column)
    return rows


def closing_rows(
    base: pa.Table, moment: datetime, vector_dim: int, expires_at: datetime | None = None
) -> pa.Table:
    """Close revisions: no longer current, out of every search, valid until now.

    Args:
        base: The current revisions, as from `Snapshot.locate`; a `vector` that it has is kept.
        moment: Commit time, UTC.
        vector_dim: Width of `vector`.
        expires_at: From when on maintenance may drop them, UTC; None: never.

    Returns:
        The same revisions in the table's schema.
    """
    schema = table_schema(vector_dim)
    values = {
        "is_current": False,
        "is_live": False,
        "valid_to": moment,
        "revision_expires_at": _own_expiry(base, expires_at),
        "search_text": None,
        "vector": own_vectors(base),
    }
    return assemble(
        schema,
        base.num_rows,
        {name: base[name] for name in schema.names if name not in values} | values,
    )


def _own_expiry(base: pa.Table, expires_at: datetime | None) -> Any:
    """Keep the time that a revision was given when it was made; the others get that of all."""
    own = base["revision_expires_at"]
    if own.null_count == len(own):
        return expires_at
    return pc.coalesce(own, pa.scalar(expires_at, TIME))


def own_vectors(rows: pa.Table) -> pa.ChunkedArray | None:
    """Give the vectors of located rows that nobody could make anew; None where there are none."""
    return rows["vector"] if "vector" in rows.column_names else None


def scope_columns(scopes: Iterable[Mapping[str, str]]) -> dict[str, pa.Array]:
    """Make the columns that say whose a row is: `scope`, and the copies of some of its values.

    Args:
        scopes: Best made one by one: thousands of objects at once are dear, as Python looks through
            all there are again and again.

    Example:
        >>> columns = scope_columns([{"user_id": "ada"}, {"team": "t"}])
        >>> columns["scope"].to_pylist()
        [[('user_id', 'ada')], [('team', 't')]]
        >>> columns["user_id"].to_pylist()
        ['ada', None]
    """
    ends, names, values = [0], list[str](), list[str]()
    copies: dict[str, list[str | None]] = {name: [] for name in SCOPE_COPIES}
    for scope in scopes:
        names += scope
        values += scope.values()
        ends.append(len(names))
        for name, copied in copies.items():
            copied.append(scope.get(name))
    pairs = (
        pa.array(ends, pa.int32()),
        pa.array(names, pa.string()),
        pa.array(values, pa.string()),
    )
    columns = {name: pa.array(copied, pa.string()) for name, copied in copies.items()}
    return {"scope": pa.MapArray.from_arrays(*pairs), **columns}


def assemble(schema: pa.Schema, num_rows: int, values: Mapping[str, Any]) -> pa.Table:
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
        is_vector = pa.types.is_fixed_size_list(kind)
        return no_vectors(num_rows, kind.list_size) if is_vector else pa.nulls(num_rows, kind)
    return pa.array([value], kind).take(pa.repeat(pa.scalar(0, pa.int32()), num_rows))
