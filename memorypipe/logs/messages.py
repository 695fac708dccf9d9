"""Raw messages, as logs hold them, to the messages that the pipeline reads. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from operator import itemgetter
from typing import Any, TypedDict

from memorypipe.errors import LogFormatError
from memorypipe.ids import digest, message_id
from memorypipe.logs.recalled import drop_recalled
from memorypipe.logs.times import parse_time
from memorypipe.text import clean

__all__ = [
    "ID_KEYS",
    "ROLES",
    "TIME_KEYS",
    "Message",
    "NormalisedMessages",
    "content_text",
    "explicit_id",
    "in_time_order",
    "normalise_messages",
    "role_of",
]

# What logs call a speaker -> the role that it has here.
ROLES: Mapping[str, str] = {
    "ai": "assistant",
    "assistant": "assistant",
    "bard": "assistant",
    "bing": "assistant",
    "bot": "assistant",
    "chatgpt": "assistant",
    "developer": "system",
    "function": "tool",
    "function_call": "tool",
    "function_response": "tool",
    "gpt": "assistant",
    "human": "user",
    "model": "assistant",
    "observation": "tool",
    "system": "system",
    "tool": "tool",
    "tool_call": "tool",
    "tool_response": "tool",
    "user": "user",
}

TIME_KEYS = ("timestamp", "created_at", "date", "ts")
ID_KEYS = ("id", "message_id")
_PLACEHOLDERS = {
    "file": "[file]",
    "image": "[image]",
    "image_url": "[image]",
    "input_audio": "[audio]",
    "input_file": "[file]",
    "input_image": "[image]",
}
_MAX_PART_NAME_CHARS = 30


class Message(TypedDict):
    """One message in the shape of `memorypipe.schema.MESSAGE`.

    `timestamp` is UTC or None; `background` is False until windows are cut.
    """

    role: str
    name: str | None
    content: str
    timestamp: datetime | None
    id: str
    background: bool


@dataclass(frozen=True, kw_only=True)
class NormalisedMessages:
    """The messages of one conversation, and what was noticed while reading them.

    Attributes:
        messages: In the order of the log; ids are unique.
        naive_times: How many timestamps named no zone and were taken as UTC.
        unreadable_times: How many timestamps were no time; those messages are undated.
        repaired: How many NULs and lone surrogates were replaced.
    """

    messages: tuple[Message, ...]
    naive_times: int = 0
    unreadable_times: int = 0
    repaired: int = 0


@dataclass
class _Reading:
    """State of one conversation while its messages are read in order."""

    zone: tzinfo | None
    roles: Mapping[str, str]
    messages: list[Message] = field(default_factory=list)
    said: Counter[tuple[str, str | None, str]] = field(default_factory=Counter)
    by_id: dict[str, tuple[str, str]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def clean(self, text: str) -> str:
        cleaned, repaired = clean(text)
        self.counts["repaired"] += repaired
        return cleaned


def normalise_messages(
    raw: Sequence[Any], *, zone: tzinfo | None = None, roles: Mapping[str, str] = ROLES
) -> NormalisedMessages:
    """Bring a conversation's messages to one shape.

    Roles get their common names, list contents become text, times become UTC, blocks of recalled
    memories go, and so do system turns and turns without text. A message without an id gets one
    from its role, its own time, its text and how often the same was said before it, so ids stay
    when a conversation grows at its end. An id used twice: the same message again is dropped,
    another one gets a suffix made from what it says.

    Args:
        raw: Mappings with `role` and `content`, optionally `name`, `timestamp` (or `created_at`,
            `date`, `ts`) and `id` (or `message_id`).
        zone: Of times that name none; None: they are UTC, and counted.
        roles: What the log calls a speaker, in small letters, to the role that it has here.

    Raises:
        LogFormatError: A message is no mapping, or its role or content cannot be read; the
            error names the message's number, counted from 1.

    Example:
        >>> read = normalise_messages([{"role": "human", "content": "Hi", "id": 7}])
        >>> read.messages[0]["role"], read.messages[0]["id"]
        ('user', '7')
    """
    reading = _Reading(zone=zone, roles=roles)
    for number, item in enumerate(raw, start=1):
        _read_message(item, number, reading)
    counts = reading.counts
    return NormalisedMessages(
        messages=tuple(reading.messages),
        naive_times=counts["naive_times"],
        unreadable_times=counts["unreadable_times"],
        repaired=counts["repaired"],
    )


def _read_message(item: Any, number: int, reading: _Reading) -> None:
    if not isinstance(item, Mapping):
        raise LogFormatError(f"Message {number} is of type {type(item).__name__}, not an object.")
    role = _role(item.get("role"), number, reading.roles)
    content = drop_recalled(reading.clean(content_text(item.get("content"), number=number)))
    if role == "system" or not content.strip():
        return
    timestamp = _timestamp(item, reading)
    identity = _identity(item, role, content, timestamp, reading)
    if identity is None:
        return
    reading.messages.append(
        Message(
            role=role,
            name=_name(item.get("name"), reading),
            content=content,
            timestamp=timestamp,
            id=identity,
            background=False,
        )
    )


def role_of(value: Any, roles: Mapping[str, str] = ROLES) -> str | None:
    """Give the role of what a log calls a speaker; None where it is not known.

    Example:
        >>> role_of(" Human ")
        'user'
        >>> role_of("customer", {"customer": "user"})
        'user'
    """
    return roles.get(value.strip().lower()) if isinstance(value, str) else None


def _role(value: Any, number: int, roles: Mapping[str, str]) -> str:
    role = role_of(value, roles)
    if role is None:
        shown = value[:40] if isinstance(value, str) else value
        raise LogFormatError(
            f"Message {number} has the role {shown!r}; known roles: {', '.join(sorted(roles))}."
        )
    return role


def content_text(content: Any, *, number: int = 1) -> str:
    r"""Read a message's content: a string, or a list of parts.

    Args:
        content: Text parts are joined by newlines, other parts become a short placeholder such
            as ``[image]``; None is no text.
        number: Of the message, for the error.

    Raises:
        LogFormatError: The content is neither a string nor a list of parts.

    Example:
        >>> content_text([{"type": "text", "text": "Look:"}, {"type": "image_url"}])
        'Look:\n[image]'
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    parts = [content] if isinstance(content, Mapping) else content
    if not isinstance(parts, Sequence) or isinstance(parts, bytes):
        raise LogFormatError(
            f"Message {number} has content of type {type(content).__name__}; "
            "it must be a string or a list of parts."
        )
    return "\n".join(text for part in parts if (text := _part_text(part, number)))


def _part_text(part: Any, number: int) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        raise LogFormatError(
            f"Message {number} has a content part of type {type(part).__name__}; "
            "it must be a string or an object."
        )
    for key in ("text", "refusal"):
        text = part.get(key)
        if isinstance(text, Mapping):
            text = text.get("value")
        if isinstance(text, str):
            return text
    kind = str(part.get("type") or "part")
    return _PLACEHOLDERS.get(kind, f"[{' '.join(kind.split())[:_MAX_PART_NAME_CHARS]}]")


def _timestamp(item: Mapping[str, Any], reading: _Reading) -> datetime | None:
    for key in TIME_KEYS:
        parsed = parse_time(item.get(key), zone=reading.zone)
        reading.counts["naive_times"] += parsed.naive
        reading.counts["unreadable_times"] += parsed.unreadable
        if parsed.at is not None:
            return parsed.at
    return None


def _name(value: Any, reading: _Reading) -> str | None:
    if not isinstance(value, str):
        return None
    # One line: a line break in a name could pass for the next speaker's turn.
    return " ".join(reading.clean(value).split()) or None


def _identity(
    item: Mapping[str, Any], role: str, content: str, timestamp: datetime | None, reading: _Reading
) -> str | None:
    """Give the message its id; None where it is a repetition of one with the same id."""
    at = timestamp.isoformat() if timestamp else None
    said = (role, at, content)
    own = explicit_id(item)
    identity = reading.clean(own) if own else message_id(role, at, content, reading.said[said])
    reading.said[said] += 1
    if reading.by_id.get(identity, (role, content)) != (role, content):
        identity = f"{identity}~{digest(role, content, size=4).hex()}"
    if identity in reading.by_id:
        return None
    reading.by_id[identity] = (role, content)
    return identity


def explicit_id(item: Mapping[str, Any]) -> str | None:
    """Give the id that a message has in its log; None where it has none that can be used."""
    for key in ID_KEYS:
        value = item.get(key)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # a column of integers with gaps, read as floats
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, str) and value.strip():
            return value
    return None


def in_time_order(messages: Sequence[Message]) -> list[Message]:
    """Sort messages by time where all are dated; those of one time stay in their order."""
    dated = [(message["timestamp"], message) for message in messages]
    if any(at is None for at, _ in dated):
        return list(messages)
    return [message for _, message in sorted(dated, key=itemgetter(0))]
