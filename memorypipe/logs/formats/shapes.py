"""What several formats share: the shape of messages, and where a record names user and time. Pure.

Most logs hold a conversation as a list of objects and differ in what they call things.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from memorypipe.errors import LogFormatError
from memorypipe.logs.messages import ID_KEYS, TIME_KEYS

__all__ = [
    "MESSAGE_KEYS",
    "default_scope",
    "first_value",
    "is_list_of",
    "parse_json_text",
    "plain_message",
    "record_times",
]

# What logs call the parts of a message, the usual name first.
MESSAGE_KEYS: Mapping[str, tuple[str, ...]] = {
    "role": ("role", "from", "sender"),
    "content": ("content", "value", "text"),
    "name": ("name",),
    "timestamp": TIME_KEYS,
    "id": ID_KEYS,
}

_RECORD_TIME_KEYS = ("event_time", "timestamp", "created_at", "date")


def is_list_of(value: Any, *keys: str) -> bool:
    """Tell whether a value is a list of one or more objects that all have the keys."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, Mapping) and all(key in item for key in keys) for item in value)
    )


def first_value(fields: Mapping[str, Any], keys: Sequence[str]) -> Any:
    """Give the first value that is there; None where none is.

    Example:
        >>> first_value({"id": None, "uuid": "a"}, ("id", "uuid"))
        'a'
    """
    return next((fields[key] for key in keys if fields.get(key) is not None), None)


def plain_message(message: Any) -> Any:
    """Bring a message with any of the usual names to the ones that are read here.

    What is no object is given back: it is refused with its number when it is read.

    Example:
        >>> plain_message({"from": "human", "value": "Hi"})["role"]
        'human'
    """
    if not isinstance(message, Mapping):
        return message
    return {part: first_value(message, keys) for part, keys in MESSAGE_KEYS.items()}


def parse_json_text(messages: Any, name: str = "messages") -> Any:
    """Parse messages that a column holds as the text of their JSON; leave others as they are.

    Raises:
        LogFormatError: If the text is no JSON.
    """
    if not isinstance(messages, str):
        return messages
    try:
        return orjson.loads(messages)
    except orjson.JSONDecodeError as error:
        # Not the library's own message alone: it may hold the text.
        raise LogFormatError(
            f"{name!r} is a string that holds no JSON (character {error.pos})."
        ) from None


def default_scope(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Find whose conversation a record is: `scope`, `user_id` or `user`; None: it is silent."""
    scope = record.get("scope")
    if isinstance(scope, Mapping):
        return scope
    if isinstance(scope, list) and all(isinstance(pair, tuple) for pair in scope):
        return dict(scope)  # the pairs of an Arrow map
    return next(({"user_id": record[key]} for key in ("user_id", "user") if key in record), None)


def record_times(record: Mapping[str, Any]) -> list[Any]:
    """List the values that may date a whole conversation."""
    return [record.get(key) for key in _RECORD_TIME_KEYS]
