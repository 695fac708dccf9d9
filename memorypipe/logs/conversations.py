"""One conversation of any format to a row of the conversations schema. Pure."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any

from memorypipe.errors import InvalidArgumentError, LogFormatError
from memorypipe.ids import check_scope, digest, scope_key
from memorypipe.logs.columns import column_value
from memorypipe.logs.messages import (
    ROLES,
    Message,
    NormalisedMessages,
    in_time_order,
    normalise_messages,
)
from memorypipe.logs.times import parse_time
from memorypipe.text import clean

__all__ = [
    "CONSTANT_MARK",
    "MADE_NAME_PREFIX",
    "Draft",
    "Row",
    "build_row",
    "check_scope_columns",
    "find_scope",
    "kept_values",
    "plain_name",
]

# A scope column that begins with this is no column but the value itself.
CONSTANT_MARK = "="

# Begins the name of a conversation that had none in its log.
MADE_NAME_PREFIX = "conv_"


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A conversation as a format found it, nothing checked yet.

    Attributes:
        messages: The raw messages; must turn out to be a list.
        fields: What scope columns and kept columns are taken from.
        default_scope: The scope where no scope columns are given; None where the format has none.
        conversation_id: Its name in the log; None or blank: made from scope and first message.
        times: Times of the whole conversation, the first readable one counts. They date it, and
            its messages, where no message has a time of its own.
        zone: The zone that the format gives to times that name none; None: it gives none.
        keeps_order: The log's order is that of the conversation, whatever its times say.
        order: Of a message on its own: what tells its place in the conversation.
    """

    messages: Any
    fields: Mapping[str, Any] = field(default_factory=dict)
    default_scope: Mapping[str, Any] | None = None
    conversation_id: Any = None
    times: Sequence[Any] = ()
    zone: tzinfo | None = None
    keeps_order: bool = False
    order: Any = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """What became of a draft.

    Attributes:
        value: A row of `memorypipe.schema.CONVERSATIONS` with the kept columns; None where the
            conversation has no message left.
        place: Of a message on its own: which conversation it is of, even where it is dropped.
        counts: `naive_times`, `unreadable_times`, `repaired`, `empty`.
    """

    value: dict[str, Any] | None
    counts: Counter[str]
    place: Mapping[str, Any] | None = None


def check_scope_columns(scope_columns: Mapping[str, str]) -> dict[str, str]:
    """Validate the mapping from scope names to columns.

    Args:
        scope_columns: E.g. ``{"user_id": "uid"}``; a value that begins with ``=`` is a constant:
            ``{"tenant": "=acme"}``.

    Raises:
        InvalidArgumentError: No pair or too many, a blank name or column, or a constant that
            cannot be a scope value.

    Example:
        >>> check_scope_columns({"user_id": "=u1"})
        {'user_id': '=u1'}
    """
    if not scope_columns:
        raise InvalidArgumentError(
            "scope must name at least one column, e.g. {'user_id': 'uid'}, got {}."
        )
    check_scope(
        {name: column.removeprefix(CONSTANT_MARK) for name, column in scope_columns.items()}
    )
    return dict(scope_columns)


def build_row(
    draft: Draft,
    *,
    scope_columns: Mapping[str, str] | None,
    keep: Sequence[str] = (),
    zone: tzinfo | None = None,
    roles: Mapping[str, str] = ROLES,
) -> Row:
    """Normalise a conversation; its messages come in order of time where all are dated.

    A conversation without a name of its own is named after its scope and its first message (who
    spoke, when by that message's own time, what, and its id if the log has one), so it keeps its
    name when it grows. Conversations of one user that begin alike share a name then; what both
    say at the same place is paid for once.

    Args:
        draft: As a format found it.
        scope_columns: As `check_scope_columns`; None: the draft's default scope.
        keep: Fields to carry along as string columns; other values become their JSON text.
        zone: Of times that name none; None: that of the draft, else UTC, and they are counted.
        roles: As `memorypipe.logs.messages.normalise_messages`.

    Raises:
        LogFormatError: The scope is missing or blank, or the messages cannot be read.
    """
    scope = find_scope(draft, scope_columns)
    zone = zone or draft.zone
    if not isinstance(draft.messages, Sequence) or isinstance(draft.messages, str | bytes):
        raise LogFormatError(
            f"The messages must be a list, they are of type {type(draft.messages).__name__}."
        )
    read = normalise_messages(draft.messages, zone=zone, roles=roles)
    counts = Counter(
        naive_times=read.naive_times,
        unreadable_times=read.unreadable_times,
        repaired=read.repaired,
        empty=not read.messages,
    )
    if not read.messages:
        return Row(value=None, counts=counts)
    key = scope_key(scope)
    name = _conversation_id(draft, key, read)
    event_time = _event_time(draft, read, zone, counts)
    messages = list(read.messages) if draft.keeps_order else in_time_order(read.messages)
    value = {
        "scope": list(scope.items()),
        "scope_key": key,
        "conversation_id": name,
        "messages": _dated(messages, event_time),
        "event_time": event_time,
        **kept_values(draft.fields, keep),
    }
    return Row(value=value, counts=counts)


def find_scope(draft: Draft, scope_columns: Mapping[str, str] | None) -> dict[str, str]:
    """Give the scope of a draft.

    Raises:
        LogFormatError: It is missing or blank.
    """
    raw: Mapping[str, Any] | None = draft.default_scope
    if scope_columns is not None:
        raw = {name: _scope_value(draft, column) for name, column in scope_columns.items()}
    if not raw:
        raise LogFormatError("The record names no user; pass a scope, e.g. user_id=COLUMN.")
    try:
        return check_scope({name: _plain(value) for name, value in raw.items()})
    except InvalidArgumentError as error:
        raise LogFormatError(str(error)) from error


def _scope_value(draft: Draft, column: str) -> Any:
    if column.startswith(CONSTANT_MARK):
        return column.removeprefix(CONSTANT_MARK)
    return column_value(draft.fields, column)


def _plain(value: Any) -> Any:
    # A column of integers with gaps comes as floats.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _conversation_id(draft: Draft, key: str, read: NormalisedMessages) -> str:
    own = plain_name(draft.conversation_id)
    if own is not None:
        return own
    first = read.messages[0]
    at = first["timestamp"].isoformat() if first["timestamp"] else None
    name = digest("conversation", key, first["role"], at, first["content"], first["id"], size=12)
    return MADE_NAME_PREFIX + name.hex()


def plain_name(value: Any) -> str | None:
    """Give the name that a log gives a conversation as a string; None where it is no name."""
    value = _plain(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return clean(value)[0] if isinstance(value, str) and value.strip() else None


def _event_time(
    draft: Draft, read: NormalisedMessages, zone: tzinfo | None, counts: Counter[str]
) -> datetime | None:
    newest = max((m["timestamp"] for m in read.messages if m["timestamp"]), default=None)
    if newest is not None:
        return newest
    for value in draft.times:
        parsed = parse_time(value, zone=zone)
        counts["naive_times"] += parsed.naive
        counts["unreadable_times"] += parsed.unreadable
        if parsed.at is not None:
            return parsed.at
    return None


def _dated(messages: list[Message], event_time: datetime | None) -> list[Message]:
    """Date the messages by their conversation where none has a time of its own.

    Their ids stay: a conversation's time may move when it grows.
    """
    if any(message["timestamp"] for message in messages):
        return messages
    return [{**message, "timestamp": event_time} for message in messages]


def kept_values(fields: Mapping[str, Any], keep: Sequence[str]) -> dict[str, str | None]:
    """Give the fields that are carried along, as strings."""
    return {column: _kept(column_value(fields, column)) for column in keep}


def _kept(value: Any) -> str | None:
    if value is None or (isinstance(value, float) and value != value):  # noqa: PLR0124  # NaN
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return clean(text)[0]
