"""The formats that logs come in: recognised by what a record holds, read into drafts. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, cast, get_args

import orjson

from memorypipe.errors import LogFormatError
from memorypipe.logs.conversations import Draft
from memorypipe.logs.records import describe
from memorypipe.logs.times import parse_time

__all__ = ["FORMATS", "FormatName", "classify", "drafts", "explode"]

FormatName: TypeAlias = Literal["openai", "locomo", "memorybank"]

FORMATS = cast("tuple[FormatName, ...]", get_args(FormatName))

_RECORD_TIME_KEYS = ("event_time", "timestamp", "created_at", "date")
_SESSION = re.compile(r"session_(\d+)")
_SESSION_DATE = re.compile(
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})\s*(?P<half>am|pm) on "
    r"(?P<day>\d{1,2}) (?P<month>[a-z]+),? (?P<year>\d{4})",
    re.IGNORECASE,
)
# Not strptime: its month names change with the locale of the process.
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)


def classify(value: Any) -> FormatName | None:
    """Recognise the format of one record; None where it has no known shape.

    Example:
        >>> classify({"messages": [{"role": "user", "content": "Hi"}]})
        'openai'
        >>> classify({"text": "Hi"}) is None
        True
    """
    if _is_messages(value):
        return "openai"
    if not isinstance(value, Mapping):
        return None
    if "messages" in value:
        return "openai"
    conversation = value.get("conversation")
    if isinstance(conversation, Mapping) and any(map(_session_number, conversation)):
        return "locomo"
    return "memorybank" if _is_person(value) else None


def _is_messages(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, Mapping) and "role" in item for item in value)
    )


def _is_person(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("history"), Mapping)


def explode(value: Any) -> list[Any]:
    """Take the records out of one JSON value.

    Args:
        value: A line, or a whole document.

    Returns:
        The items of a list (unless it is the messages of one conversation); the people of a
        MemoryBank document, each with its key as `name`; else the value itself.
    """
    if isinstance(value, list) and not _is_messages(value):
        return value
    if isinstance(value, Mapping) and classify(value) is None and _has_people(value):
        return [_named(name, person) for name, person in value.items()]
    return [value]


def _has_people(value: Mapping[str, Any]) -> bool:
    return any(_is_person(person) for person in value.values())


def _named(name: str, person: Any) -> Any:
    # Keys, not `name` fields, tell people apart; some are padded with blanks.
    return {**person, "name": name.strip()} if isinstance(person, Mapping) else person


def drafts(value: Any, *, format_name: FormatName) -> Iterator[Draft]:
    """Read the conversations of one record.

    `openai`
        An object with `messages` (a list, or a string with its JSON), `conversation_id` and
        `scope`, `user_id` or `user`; or a bare list of messages. Dated by its messages, else by
        `event_time`, `timestamp`, `created_at` or `date`.
    `locomo`
        One conversation per session, named ``<sample_id>/session_<n>``; scope `user_id` is the
        `sample_id`; both speakers are user turns with their names; a shared image is told by its
        caption. A session's date is UTC.
    `memorybank`
        One conversation per day, named ``<name>/<date>``; scope `user_id` is the person's name;
        `query` is the user's turn, `response` the assistant's. A day begins at 00:00 UTC.

    Raises:
        LogFormatError: The record does not have the format's shape.
    """
    return _READERS[format_name](value)


def _openai(value: Any) -> Iterator[Draft]:
    if _is_messages(value):
        yield Draft(messages=value)
        return
    if not isinstance(value, Mapping) or "messages" not in value:
        raise LogFormatError(f"Expected an object with 'messages', found {describe(value)}.")
    yield Draft(
        messages=_parsed(value["messages"]),
        fields=value,
        default_scope=_default_scope(value),
        conversation_id=value.get("conversation_id"),
        times=[value.get(key) for key in _RECORD_TIME_KEYS],
    )


def _parsed(messages: Any) -> Any:
    if not isinstance(messages, str):
        return messages
    try:
        return orjson.loads(messages)
    except orjson.JSONDecodeError as error:
        raise LogFormatError(f"'messages' is a string that holds no JSON: {error}.") from error


def _default_scope(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    scope = value.get("scope")
    if isinstance(scope, Mapping):
        return scope
    if isinstance(scope, list) and all(isinstance(pair, tuple) for pair in scope):
        return dict(scope)  # the pairs of an Arrow map
    return next(({"user_id": value[key]} for key in ("user_id", "user") if key in value), None)


def _locomo(value: Any) -> Iterator[Draft]:
    if classify(value) != "locomo":
        raise LogFormatError(
            f"Expected an object with 'conversation' and its sessions, found {describe(value)}."
        )
    sample, conversation = value.get("sample_id"), value["conversation"]
    for number in sorted(filter(None, map(_session_number, conversation))):
        session = f"session_{number}"
        yield Draft(
            messages=_session_messages(
                conversation[session], conversation.get(f"{session}_date_time")
            ),
            fields=value,
            default_scope=None if sample is None else {"user_id": sample},
            conversation_id=None if sample is None else f"{sample}/{session}",
        )


def _session_number(key: str) -> int | None:
    found = _SESSION.fullmatch(key)
    return int(found[1]) if found else None


def _session_messages(turns: Any, date: Any) -> Any:
    if not isinstance(turns, list):
        return turns
    timestamp = _session_time(date)
    return [_session_message(turn, timestamp) for turn in turns]


def _session_message(turn: Any, timestamp: Any) -> Any:
    if not isinstance(turn, Mapping):
        return turn
    caption = turn.get("blip_caption")
    image = f"[shares an image: {caption}]" if caption else ""
    return {
        "role": "user",
        "name": turn.get("speaker"),
        "content": f"{turn.get('text') or ''} {image}".strip(),
        "timestamp": timestamp,
        "id": turn.get("dia_id"),
    }


def _session_time(date: Any) -> Any:
    """Read ``"1:56 pm on 8 May, 2023"``; anything else comes back as it is."""
    found = _SESSION_DATE.fullmatch(date.strip()) if isinstance(date, str) else None
    if found is None or found["month"].lower() not in _MONTHS:
        return date
    hour = int(found["hour"]) % 12 + (12 if found["half"].lower() == "pm" else 0)
    month = _MONTHS.index(found["month"].lower()) + 1
    try:
        day = datetime(int(found["year"]), month, int(found["day"]), tzinfo=UTC)
        return day.replace(hour=hour, minute=int(found["minute"]))
    except ValueError:
        return date


def _memorybank(value: Any) -> Iterator[Draft]:
    if not _is_person(value):
        raise LogFormatError(f"Expected an object with 'history' by day, found {describe(value)}.")
    name = value.get("name")
    for date in sorted(value["history"]):
        yield Draft(
            messages=_day_messages(value["history"][date], date),
            fields=value,
            default_scope=None if name is None else {"user_id": name},
            conversation_id=None if name is None else f"{name}/{date}",
        )


def _day_messages(exchanges: Any, date: str) -> Any:
    if not isinstance(exchanges, list):
        return exchanges
    timestamp: Any = parse_time(date).at or date
    return [turn for exchange in exchanges for turn in _exchange_messages(exchange, timestamp)]


def _exchange_messages(exchange: Any, timestamp: Any) -> list[Any]:
    if not isinstance(exchange, Mapping):
        return [exchange]
    return [
        {"role": role, "content": exchange.get(key), "timestamp": timestamp}
        for key, role in (("query", "user"), ("response", "assistant"))
    ]


_READERS: Mapping[FormatName, Callable[[Any], Iterator[Draft]]] = {
    "openai": _openai,
    "locomo": _locomo,
    "memorybank": _memorybank,
}
