"""Logs of any shape, by a mapping that says which column is what. Pure.

In the layout `conversations` a record is a conversation: `messages`, `conversation_id` and
`event_time` are columns of the record, the parts of a message are names within each message. In
the layout `messages` a record is one message and all are its columns.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memorypipe.errors import LogFormatError
from memorypipe.logs.columns import column_value, has_column
from memorypipe.logs.conversations import CONSTANT_MARK, Draft
from memorypipe.logs.formats.shapes import (
    MESSAGE_KEYS,
    default_scope,
    first_value,
    parse_json_text,
    record_times,
)
from memorypipe.logs.options import ReadOptions
from memorypipe.logs.records import describe

__all__ = ["mapped_drafts", "missing_column"]


def mapped_drafts(value: Any, options: ReadOptions) -> Iterator[Draft]:
    """Read one record by the mapping.

    Raises:
        LogFormatError: The record is no object, or holds no messages where the mapping says.
    """
    if not isinstance(value, Mapping):
        raise LogFormatError(f"Expected an object with columns, found {describe(value)}.")
    read = _message_row if options.layout == "messages" else _conversation_row
    yield read(value, options)


def _conversation_row(row: Mapping[str, Any], options: ReadOptions) -> Draft:
    messages = _raw_messages(row, options)
    if isinstance(messages, list | tuple):
        messages = [_message(item, options) for item in messages]
    time_column = options.mapping.get("event_time")
    return Draft(
        messages=messages,
        fields=row,
        default_scope=default_scope(row),
        conversation_id=column_value(row, options.column("conversation_id", "conversation_id")),
        times=[column_value(row, time_column)] if time_column else record_times(row),
    )


def _raw_messages(row: Mapping[str, Any], options: ReadOptions) -> Any:
    column = options.column("messages", "messages")
    return parse_json_text(column_value(row, column), column)


def _message_row(row: Mapping[str, Any], options: ReadOptions) -> Draft:
    message = _message(row, options)
    order = column_value(row, options.order_by) if options.order_by else None
    if message["timestamp"] is None and not _is_number(order):
        # What orders a conversation also dates it, unless it is a mere number.
        message = {**message, "timestamp": order}
    return Draft(
        messages=[message],
        fields=row,
        default_scope=default_scope(row),
        conversation_id=column_value(row, options.group_by or ""),
        order=order,
    )


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        digits: str = value.strip().lstrip("+-").replace(".", "", 1)
        return digits.isdecimal()
    return isinstance(value, int | float)


def _message(item: Any, options: ReadOptions) -> Any:
    if not isinstance(item, Mapping):
        return item
    return {part: _part(item, part, options) for part in MESSAGE_KEYS}


def _part(item: Mapping[str, Any], part: str, options: ReadOptions) -> Any:
    column = options.mapping.get(part)
    if column is None:
        return first_value(item, MESSAGE_KEYS[part])
    if column.startswith(CONSTANT_MARK):
        return column.removeprefix(CONSTANT_MARK)
    return column_value(item, column)


def missing_column(rows: Sequence[Mapping[str, Any]], options: ReadOptions) -> str | None:
    """Say which column that the mapping needs no record has; None where all are there.

    Args:
        rows: The first records.
        options: With the mapping.

    Returns:
        The subject of a sentence, to go on with ", which no record has".
    """
    if options.layout == "messages":
        columns = {"group_by": options.group_by, "order_by": options.order_by}
        items = rows
    else:
        columns = {
            "map messages": options.column("messages", "messages"),
            "map conversation_id": options.mapping.get("conversation_id"),
            "map event_time": options.mapping.get("event_time"),
        }
        items = [item for row in rows for item in _mappings(row, options)]
    for name, column in columns.items():
        if column is not None and not any(has_column(row, column) for row in rows):
            return f"{name} is the column {column!r}"
    return _missing_part(items, options) if items else None


def _mappings(row: Mapping[str, Any], options: ReadOptions) -> list[Mapping[str, Any]]:
    try:
        messages = _raw_messages(row, options)
    except LogFormatError:
        return []  # reported when the record is read
    found = messages if isinstance(messages, list | tuple) else []
    return [item for item in found if isinstance(item, Mapping)]


def _missing_part(items: Sequence[Mapping[str, Any]], options: ReadOptions) -> str | None:
    for part, usual in MESSAGE_KEYS.items():
        column = options.mapping.get(part)
        if column is None and part in {"role", "content"}:
            if not any(key in item for item in items for key in usual):
                return (
                    f"map names no column for {part!r} (--map {part}=COLUMN), so it is one of "
                    f"{', '.join(map(repr, usual))}"
                )
        elif column is not None and not (
            column.startswith(CONSTANT_MARK) or any(has_column(item, column) for item in items)
        ):
            return f"map {part} is the column {column!r}"
    return None
