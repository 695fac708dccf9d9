"""Conditions that people write, such as ``event = 'DELETE' and scope.user_id = 'u1'``.

They are SQL as Lance reads it in its own filters; nothing here is ever evaluated as Python.
"""

import re
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import lance
import numpy as np
import pyarrow as pa

from memorypipe.errors import InvalidArgumentError

__all__ = ["rows_where"]

# What Lance puts before a condition to parse it: its errors count from there.
_BEFORE = "SELECT 1 FROM t WHERE "
_POSITION = re.compile(r"at Line: (\d+), Column: (\d+)")
_END = "found: EOF"
_NO_FIELD = re.compile(r"No field named \"?([^\s\".]+)|Field (\S+) not found")
_NOISE = re.compile(
    r"(Invalid user input: |Schema error: |Error during planning: |sql parser error: "
    r"|Error (parsing|tokenizing) (statement|function): |Error resolving filter expression )"
)
_PLACE_IN_SOURCE = re.compile(r",? /\S+\.rs:\d+:\d+")
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`")
_HINT = "A time is written as timestamp '2024-05-01T00:00:00Z'."


def rows_where(rows: pa.Table, condition: str, *, name: str = "where") -> pa.Array:
    """Tell which rows a condition holds for.

    Args:
        rows: A table; columns may be structs, whose fields are reached with a dot.
        condition: SQL, e.g. ``event = 'DELETE' and scope.user_id = 'u1'``, ``text like '%tea%'``,
            ``rationale is null``, ``event_time < timestamp '2024-05-01T00:00:00Z'``,
            ``array_has(source_ids, 'm1')``.
        name: Of the parameter, for errors.

    Returns:
        One bool per row; False also where the condition is null.

    Raises:
        InvalidArgumentError: For what is no condition on these columns; the message says where,
            and which columns there are.
    """
    _check_one(condition, name)
    needed = _named_columns(rows, condition)
    dataset = lance.write_dataset(needed, f"memory://{uuid4().hex}")
    try:
        found = dataset.scanner(
            filter=condition, columns=[], with_row_address=True, scan_in_order=True
        ).to_table()
    except (ValueError, OSError) as error:
        raise InvalidArgumentError(_told(str(error), condition, rows.schema, name)) from None
    return _mask(dataset, found["_rowaddr"], rows.num_rows)


def _mask(dataset: Any, addresses: pa.ChunkedArray, count: int) -> pa.Array:
    """Tell from row addresses, which are fragment and offset, the places of the rows."""
    starts, start = {}, 0
    for fragment in dataset.get_fragments():
        starts[fragment.fragment_id] = start
        start += fragment.physical_rows
    found = np.asarray(addresses).astype(np.uint64)
    fragments, offsets = found >> np.uint64(32), found & np.uint64(0xFFFFFFFF)
    mask = np.zeros(count, bool)
    for number, first in starts.items():
        mask[first + offsets[fragments == number].astype(np.int64)] = True
    return pa.array(mask)


def _check_one(condition: str, name: str) -> None:
    """Check that it is one condition: what follows a semicolon would count for nothing."""
    if not condition.strip():
        raise InvalidArgumentError(
            f"{name} must be a condition such as \"event = 'DELETE'\", got {condition!r}."
        )
    bare = _QUOTED.sub(lambda match: "x" * len(match[0]), condition)
    for mark in (";", "--", "/*"):
        if mark in bare:
            raise InvalidArgumentError(
                f"{name} must be one condition without comments, got {mark!r} at character "
                f"{bare.index(mark) + 1} of {condition!r}."
            )


def _named_columns(rows: pa.Table, condition: str) -> pa.Table:
    """Take the columns whose names occur: no others can matter, and texts are long."""
    said = condition.casefold()
    names = [each for each in rows.column_names if each.casefold() in said]
    return rows.select(names or rows.column_names[:1])


def _told(error: str, condition: str, schema: pa.Schema, name: str) -> str:
    """Say what is wrong with a condition, where, and what can be named."""
    what = _PLACE_IN_SOURCE.sub("", _NOISE.sub("", error)).split(" Valid fields are")[0]
    place = _character(what, condition)
    where = "" if place is None else f" at character {place}"
    for text in (_BEFORE, condition, _POSITION):
        what = text.sub("", what) if isinstance(text, re.Pattern) else what.replace(text, "")
    what = " ".join(what.split()).strip(" .,:()")
    hint = f" {_HINT}" if "Timestamp" in what else ""
    return (
        f"{name} {condition!r} cannot be read{where}: {what}. Columns: "
        f"{', '.join(_choices(schema))}.{hint}"
    )


def _character(what: str, condition: str) -> int | None:
    """Find the place of an error, from 1; None where nothing tells."""
    if place := _POSITION.search(what):
        before = sum(len(line) + 1 for line in condition.split("\n")[: int(place[1]) - 1])
        return before + int(place[2]) - (len(_BEFORE) if place[1] == "1" else 0)
    if _END in what:
        return len(condition.rstrip()) + 1
    if (named := _NO_FIELD.search(what)) and (word := named[1] or named[2]) in condition:
        return condition.index(word) + 1
    return None


def _choices(schema: pa.Schema) -> Sequence[str]:
    return [
        name
        for field in schema
        for name in (
            [f"{field.name}.{inner.name}" for inner in field.type]
            if pa.types.is_struct(field.type)
            else [field.name]
        )
    ]
