"""The ``messages`` cell: a transcript, however it was written down."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn

from memorypipe.cells.json_text import decode, invalid
from memorypipe.llm.types import Turn
from memorypipe.text import clean

__all__ = ["BACKGROUND_ROLES", "parse_messages"]

# Who speaks here is no participant: what is said may be read, but is nobody's statement.
BACKGROUND_ROLES = frozenset({"system", "developer", "tool", "function"})

# Known roles by how they are written in lower case; any other is somebody's name.
_ROLES = {role: role for role in (*BACKGROUND_ROLES, "user", "assistant")} | {"model": "assistant"}
_PLACEHOLDERS = {"image_url": "image", "input_image": "image", "input_audio": "audio"}

# A speaker begins with a letter: "[1]: https://…" is a footnote of Markdown.
_SPEAKER_PATTERN = r"\[([^\W\d_][^\[\]\n]{0,63})\]:[ \t]?"
_BEGINS_WITH_SPEAKER = re.compile(rf"\s*{_SPEAKER_PATTERN}")
# With the line break, for the search then goes from break to break: twice as fast as with "^".
_SPEAKER = re.compile(rf"\n{_SPEAKER_PATTERN}")
_JSON_MESSAGES = re.compile(r"\s*\[\s*\{")


def parse_messages(cell: Any, row: int) -> tuple[Turn, ...]:
    r"""Read a cell as the turns of a conversation; turns without any content are left out.

    Args:
        cell: A transcript (lines of ``[role]: text``; lines without a speaker continue the turn
            above, and before the first speaker they are background; a text without any speaker
            is one user turn), a JSON array of messages, or a list of them (an Arrow
            ``list<struct>``). A message has ``role`` and ``content`` (a string or a list of
            parts), and may have ``name``, ``timestamp`` (ISO 8601 or datetime; UTC where it names
            no zone), ``id`` and ``background``. Null or blank means no turns.
        row: Named in the error.

    Raises:
        InvalidCellError: The cell is none of these.

    Example:
        >>> [(turn.role, turn.content) for turn in parse_messages("[user]: Hi\n[model]: Hello", 0)]
        [('user', 'Hi'), ('assistant', 'Hello')]
    """
    if cell is None:
        return ()
    if isinstance(cell, str):
        messages = _json_messages(cell, row)
        turns = _transcript(cell) if messages is None else _turns(messages, row)
    elif isinstance(cell, Sequence) and not isinstance(cell, bytes | bytearray):
        turns = _turns(cell, row)
    else:
        invalid(row, "messages", f"expected a string or a list, got {type(cell).__name__}")
    return tuple([turn for turn in turns if turn.content.strip()])


def _json_messages(cell: str, row: int) -> list[Any] | None:
    """The messages of a JSON cell; None where the cell is a transcript."""
    # A colon behind the bracket is no JSON; there is no need to try.
    if cell.lstrip()[:1] not in {"[", "{"} or _BEGINS_WITH_SPEAKER.match(cell):
        return None
    try:
        value = decode(cell)
    except ValueError as error:
        if not _JSON_MESSAGES.match(cell):
            return None
        invalid(row, "messages", f"it begins like a JSON array of messages but is none ({error})")
    if not isinstance(value, list):
        invalid(row, "messages", "expected a JSON array of messages, got a JSON object")
    return value


def _transcript(cell: str) -> list[Turn]:
    text = clean(cell)[0]
    preamble, *said = _SPEAKER.split(f"\n{text}")  # roles and contents by turns
    if not said:
        return [Turn(role="user", content=text)]
    turns = [Turn(role="system", content=preamble.strip(), background=True)]
    for name, content in zip(said[::2], said[1::2], strict=True):
        role = _role(name)
        background = role in BACKGROUND_ROLES
        turns.append(Turn(role=role, content=content.rstrip(), background=background))
    return turns


def _role(name: str) -> str:
    name = name.strip()
    return _ROLES.get(name.lower(), name)


def _turns(messages: Sequence[Any], row: int) -> list[Turn]:
    return [_message(message, index, row) for index, message in enumerate(messages)]


def _message(message: Any, index: int, row: int) -> Turn:
    if not isinstance(message, dict | Mapping):  # `dict` first: that of `Mapping` takes far longer
        _bad(row, index, f"must be an object, got {type(message).__name__}")
    role = message.get("role")
    if not isinstance(role, str) or not role.strip():
        _bad(row, index, f"needs a 'role' that is a non-blank string, got {role!r}")
    if "content" not in message and not message.get("tool_calls"):
        _bad(row, index, "needs a 'content'")
    role = _role(role)
    return Turn(
        role=role,
        content=_content(message.get("content"), index, row),
        name=_name(message.get("name"), index, row),
        timestamp=_timestamp(message.get("timestamp"), index, row),
        id=_id(message.get("id"), index, row),
        background=_background(message.get("background"), index, row) or role in BACKGROUND_ROLES,
    )


def _bad(row: int, index: int, reason: str) -> NoReturn:
    invalid(row, "messages", f"message {index} {reason}")


def _content(content: Any, index: int, row: int) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return clean(content)[0]
    if isinstance(content, Sequence) and not isinstance(content, bytes | bytearray):
        parts = [_part(part, index, row) for part in content]
        return clean("\n".join(part for part in parts if part))[0]
    _bad(row, index, f"has a 'content' of type {type(content).__name__}; use text or parts")


def _part(part: Any, index: int, row: int) -> str:
    if part is None or isinstance(part, str):
        return part or ""
    if not isinstance(part, Mapping):
        _bad(row, index, f"has a content part of type {type(part).__name__}")
    if isinstance(part.get("text"), str):
        return str(part["text"])
    kind = part.get("type")
    return f"[{_PLACEHOLDERS.get(kind, kind)[:40]}]" if isinstance(kind, str) else "[attachment]"


def _name(name: Any, index: int, row: int) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str):
        _bad(row, index, f"has a 'name' of type {type(name).__name__}; use a string")
    return clean(name)[0] if name.strip() else None


def _timestamp(timestamp: Any, index: int, row: int) -> datetime | None:
    if timestamp is None or (isinstance(timestamp, str) and not timestamp.strip()):
        return None
    if not isinstance(timestamp, str | datetime):
        _bad(row, index, f"has a 'timestamp' of type {type(timestamp).__name__}; use ISO 8601")
    try:
        return _utc(timestamp)
    except (ValueError, OverflowError):
        _bad(row, index, f"has the 'timestamp' {str(timestamp)[:40]!r}; use ISO 8601")


def _utc(timestamp: str | datetime) -> datetime:
    if isinstance(timestamp, str):
        timestamp = datetime.fromisoformat(timestamp.strip())
    if timestamp.tzinfo is None:
        return timestamp.replace(tzinfo=UTC)
    return timestamp.astimezone(UTC)


def _id(value: Any, index: int, row: int) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if not isinstance(value, str):
        _bad(row, index, f"has an 'id' of type {type(value).__name__}; use a string")
    return clean(value)[0]


def _background(value: Any, index: int, row: int) -> bool:
    if value is not None and not isinstance(value, bool):
        _bad(row, index, f"has the 'background' {value!r}; use true or false")
    return bool(value)
