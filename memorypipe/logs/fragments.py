"""Logs with one row per message: rows to fragments, fragments to conversations. Pure.

A fragment is a message on its own, read and dated, with what tells its conversation and its place
there. Fragments of one conversation may come from anywhere in a log.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from memorypipe.errors import LogFormatError
from memorypipe.ids import scope_key
from memorypipe.logs.conversations import Draft, Row, find_scope, kept_values, plain_name
from memorypipe.logs.messages import explicit_id, in_time_order, normalise_messages
from memorypipe.logs.options import ReadOptions
from memorypipe.logs.times import parse_time
from memorypipe.schema import CONVERSATIONS, TIME

__all__ = ["assemble_conversations", "build_fragment", "fragment_schema", "order_key"]

_COLUMNS = [
    *(CONVERSATIONS.field(name) for name in ("scope", "scope_key", "conversation_id")),
    pa.field("order", pa.string()),  # sorts as what orders the conversation; null: nothing does
    pa.field("position", pa.int64()),  # within the log
    pa.field("role", pa.string()),
    pa.field("name", pa.string()),
    pa.field("content", pa.string()),
    pa.field("timestamp", TIME),
    pa.field("id", pa.string()),  # null: the log gives none
]
_MESSAGE_NAMES = ("role", "name", "content", "timestamp", "id")

# Numbers below this keep their order as text.
_NUMBER_LIMIT = Decimal(10) ** 30
_NUMBER_DECIMALS = 9
_EXACT = Context(prec=60)


def fragment_schema(keep: Sequence[str]) -> pa.Schema:
    """Give the schema of fragments with columns that are carried along (string, nullable)."""
    return pa.schema([*_COLUMNS, *(pa.field(name, pa.string()) for name in keep)])


def build_fragment(draft: Draft, options: ReadOptions, *, position: int) -> Row:
    """Read one message.

    Args:
        draft: With one message, as `memorypipe.logs.formats.mapped.mapped_drafts` gives it.
        options: Of the reading.
        position: Of the message within the log.

    Returns:
        A row of `fragment_schema`; its value is None where the message is dropped.

    Raises:
        LogFormatError: The scope, the conversation or its order is missing, or the message
            cannot be read.
    """
    zone = options.zone_of(draft.fields)
    scope = find_scope(draft, options.scope_columns)
    name = plain_name(draft.conversation_id)
    if name is None:
        raise LogFormatError(f"Column {options.group_by!r} names no conversation.")
    order = None
    if options.order_by is not None:
        order = order_key(draft.order, zone=zone)
        if order is None:
            raise LogFormatError(f"Column {options.order_by!r} is empty, nothing tells the order.")
    read = normalise_messages(draft.messages, zone=zone, roles=options.roles)
    counts = Counter(
        naive_times=read.naive_times,
        unreadable_times=read.unreadable_times,
        repaired=read.repaired,
    )
    place = {
        "scope": list(scope.items()),
        "scope_key": scope_key(scope),
        "conversation_id": name,
        "order": order,
        "position": position,
    }
    if not read.messages:
        return Row(value=None, counts=counts, place=place)
    message = read.messages[0]
    own = None if explicit_id(draft.messages[0]) is None else message["id"]
    value = {
        **place,
        **{part: message[part] for part in _MESSAGE_NAMES},  # type: ignore[literal-required]  # names of the type
        "id": own,
        **kept_values(draft.fields, options.keep),
    }
    return Row(value=value, counts=counts, place=place)


def order_key(value: Any, *, zone: tzinfo | None = None) -> str | None:
    """Give a text that sorts as the value does; None where there is no value.

    Args:
        value: Numbers (also in digits) sort by size, times by the moment, other texts by their
            characters; numbers come before texts, and those before times.
        zone: Of times that name none.

    Example:
        >>> order_key("9") < order_key(10) < order_key("2025-01-01") < order_key("2025-01-02")
        True
    """
    if isinstance(value, str):
        value = value.strip()
    if value is None or value == "" or value != value:  # noqa: PLR0124  # NaN
        return None
    number = _number(value)
    if number is not None:
        # Shifted into the positive, padded: equal lengths, so characters compare as numbers do.
        return f"1 {_EXACT.add(number, _NUMBER_LIMIT):050.{_NUMBER_DECIMALS}f}"
    at = parse_time(value, zone=zone).at
    if at is not None:
        return f"3 {at.isoformat(timespec='microseconds')}"
    return f"2 {value}"


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool | datetime):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number) < _NUMBER_LIMIT else None


def assemble_conversations(fragments: pa.Table, *, keep: Sequence[str] = ()) -> pa.Table:
    """Put the fragments of each conversation together, whatever their order.

    Args:
        fragments: All fragments of each conversation that is among them, as `fragment_schema`.
        keep: Columns that are carried along.

    Returns:
        One row per scope and conversation, sorted by them, with the columns of
        `memorypipe.schema.CONVERSATIONS` and the kept ones (those of the first message that has
        one). Messages are sorted by `order`; where that is null by time, if all are dated; equal
        ones as in the log.
    """
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in fragments.to_pylist():
        groups.setdefault((row["scope_key"], row["conversation_id"]), []).append(row)
    rows = [_assembled(sorted(groups[key], key=_place), keep) for key in sorted(groups)]
    fields = [*CONVERSATIONS, *(pa.field(name, pa.string()) for name in keep)]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def _place(row: Mapping[str, Any]) -> tuple[str, int]:
    return row["order"] or "", row["position"]


def _assembled(rows: Sequence[Mapping[str, Any]], keep: Sequence[str]) -> dict[str, Any]:
    raw = [{part: row[part] for part in _MESSAGE_NAMES} for row in rows]
    messages = list(normalise_messages(raw).messages)
    if rows[0]["order"] is None:
        messages = in_time_order(messages)
    times = [message["timestamp"] for message in messages if message["timestamp"]]
    return {
        **{name: rows[0][name] for name in ("scope", "scope_key", "conversation_id")},
        "messages": messages,
        "event_time": max(times, default=None),
        **{name: next((row[name] for row in rows if row[name] is not None), None) for name in keep},
    }
