"""Messages with `role` and `content`, as the chat-completions API takes them. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from memorypipe.errors import LogFormatError
from memorypipe.logs.conversations import Draft
from memorypipe.logs.formats.shapes import (
    default_scope,
    is_list_of,
    parse_json_text,
    record_times,
)
from memorypipe.logs.records import describe

__all__ = ["is_openai", "is_openai_messages", "openai_drafts"]


def is_openai(value: Any) -> bool:
    """Recognise an object with `messages`, or a bare list of messages."""
    return is_openai_messages(value) or (isinstance(value, Mapping) and "messages" in value)


def is_openai_messages(value: Any) -> bool:
    """Recognise the messages of one conversation."""
    return is_list_of(value, "role")


def openai_drafts(value: Any) -> Iterator[Draft]:
    """Read an object with `messages` (a list, or a string with its JSON), or a bare list.

    `conversation_id` and `scope`, `user_id` or `user` name it; its messages date it, else
    `event_time`, `timestamp`, `created_at` or `date`.

    Raises:
        LogFormatError: The record has another shape.
    """
    if is_openai_messages(value):
        yield Draft(messages=value)
        return
    if not isinstance(value, Mapping) or "messages" not in value:
        raise LogFormatError(f"Expected an object with 'messages', found {describe(value)}.")
    yield Draft(
        messages=parse_json_text(value["messages"]),
        fields=value,
        default_scope=default_scope(value),
        conversation_id=value.get("conversation_id"),
        times=record_times(value),
    )
