"""One conversation of any format to a row of the conversations schema. Pure."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memorypipe.errors import InvalidArgumentError, LogFormatError
from memorypipe.ids import check_scope, digest, scope_key
from memorypipe.logs.messages import Message, NormalisedMessages, normalise_messages
from memorypipe.logs.times import parse_time
from memorypipe.text import clean

__all__ = ["CONSTANT_MARK", "MADE_NAME_PREFIX", "Draft", "Row", "build_row", "check_scope_columns"]

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
    """

    messages: Any
    fields: Mapping[str, Any] = field(default_factory=dict)
    default_scope: Mapping[str, Any] | None = None
    conversation_id: Any = None
    times: Sequence[Any] = ()


@dataclass(frozen=True, kw_only=True)
class Row:
    """What became of a draft.

    Attributes:
        value: A row of `memorypipe.schema.CONVERSATIONS` with the kept columns; None where the
            conversation has no message left.
        counts: `naive_times`, `unreadable_times`, `repaired`, `empty`.
    """

    value: dict[str, Any] | None
    counts: Counter[str]


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
    draft: Draft, *, scope_columns: Mapping[str, str] | None, keep: Sequence[str] = ()
) -> Row:
    """Normalise a conversation.

    A conversation without a name of its own is named after its scope and its first message (who
    spoke, when by that message's own time, what, and its id if the log has one), so it keeps its
    name when it grows. Conversations of one user that begin alike share a name then; what both
    say at the same place is paid for once.

    Args:
        draft: As a format found it.
        scope_columns: As `check_scope_columns`; None: the draft's default scope.
        keep: Fields to carry along as string columns; other values become their JSON text.

    Raises:
        LogFormatError: The scope is missing or blank, or the messages cannot be read.
    """
    scope = _scope(draft, scope_columns)
    if not isinstance(draft.messages, Sequence) or isinstance(draft.messages, str | bytes):
        raise LogFormatError(
            f"The messages must be a list, they are of type {type(draft.messages).__name__}."
        )
    read = normalise_messages(draft.messages)
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
    event_time = _event_time(draft, read, counts)
    value = {
        "scope": list(scope.items()),
        "scope_key": key,
        "conversation_id": name,
        "messages": _dated(read, event_time),
        "event_time": event_time,
        **{column: _kept(draft.fields.get(column)) for column in keep},
    }
    return Row(value=value, counts=counts)


def _scope(draft: Draft, scope_columns: Mapping[str, str] | None) -> dict[str, str]:
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
    return draft.fields.get(column)


def _plain(value: Any) -> Any:
    # A column of integers with gaps comes as floats.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _conversation_id(draft: Draft, key: str, read: NormalisedMessages) -> str:
    value = _plain(draft.conversation_id)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value.strip():
        return clean(value)[0]
    first = read.messages[0]
    at = first["timestamp"].isoformat() if first["timestamp"] else None
    name = digest("conversation", key, first["role"], at, first["content"], first["id"], size=12)
    return MADE_NAME_PREFIX + name.hex()


def _event_time(draft: Draft, read: NormalisedMessages, counts: Counter[str]) -> datetime | None:
    newest = max((m["timestamp"] for m in read.messages if m["timestamp"]), default=None)
    if newest is not None:
        return newest
    for value in draft.times:
        parsed = parse_time(value)
        counts["naive_times"] += parsed.naive
        counts["unreadable_times"] += parsed.unreadable
        if parsed.at is not None:
            return parsed.at
    return None


def _dated(read: NormalisedMessages, event_time: datetime | None) -> list[Message]:
    """Date the messages by their conversation where none has a time of its own.

    Their ids stay: a conversation's time may move when it grows.
    """
    if any(message["timestamp"] for message in read.messages):
        return list(read.messages)
    return [{**message, "timestamp": event_time} for message in read.messages]


def _kept(value: Any) -> str | None:
    if value is None or (isinstance(value, float) and value != value):  # noqa: PLR0124  # NaN
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return clean(text)[0]
