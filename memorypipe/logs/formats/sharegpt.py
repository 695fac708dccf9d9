"""ShareGPT: turns with `from` and `value` in `conversations`. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from memorypipe.errors import LogFormatError
from memorypipe.logs.conversations import Draft
from memorypipe.logs.formats.shapes import (
    default_scope,
    first_value,
    is_list_of,
    parse_json_text,
    plain_message,
    record_times,
)
from memorypipe.logs.records import describe

__all__ = ["is_sharegpt", "is_sharegpt_turns", "sharegpt_drafts"]

# `items` is the name in the first dumps of the site.
_TURN_KEYS = ("conversations", "items")
_NAME_KEYS = ("conversation_id", "id")


def is_sharegpt(value: Any) -> bool:
    """Recognise an object with turns, or a bare list of turns."""
    return is_sharegpt_turns(value) or (
        isinstance(value, Mapping) and any(_are_turns(value.get(key)) for key in _TURN_KEYS)
    )


def is_sharegpt_turns(value: Any) -> bool:
    """Recognise the turns of one conversation."""
    return is_list_of(value, "from", "value")


def _are_turns(value: Any) -> bool:
    # Data sets for training often keep the key and write turns as the chat API has them.
    return is_sharegpt_turns(value) or is_list_of(value, "role", "content")


def sharegpt_drafts(value: Any) -> Iterator[Draft]:
    """Read an object with `conversations` (or `items`), or a bare list of turns.

    `conversation_id` or `id` and `scope`, `user_id` or `user` name it; its turns date it where
    they have times, else `event_time`, `timestamp`, `created_at` or `date`.

    Raises:
        LogFormatError: The record has another shape.
    """
    if is_sharegpt_turns(value):
        yield Draft(messages=[plain_message(turn) for turn in value])
        return
    key = _turn_key(value)
    turns = parse_json_text(value[key], key)
    yield Draft(
        messages=[plain_message(turn) for turn in turns] if isinstance(turns, list) else turns,
        fields=value,
        default_scope=default_scope(value),
        conversation_id=first_value(value, _NAME_KEYS),
        times=record_times(value),
    )


def _turn_key(value: Any) -> str:
    found = (key for key in _TURN_KEYS if isinstance(value, Mapping) and key in value)
    key = next(found, None)
    if key is None:
        raise LogFormatError(f"Expected an object with 'conversations', found {describe(value)}.")
    return key
