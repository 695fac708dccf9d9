"""Records: the JSON values that a log consists of, and what becomes of one that cannot be read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from memorypipe.text import clean

__all__ = ["MAX_EXCERPT_CHARS", "Record", "Reject", "describe"]

MAX_EXCERPT_CHARS = 200

# A character has at most four bytes in UTF-8.
_EXCERPT_BYTES = 4 * MAX_EXCERPT_CHARS

_SHOWN_KEYS = 8


@dataclass(frozen=True, kw_only=True)
class Reject:
    """A piece of a log that could not be read.

    Attributes:
        source: The file, or the kind of table.
        line: Its line or row, or its item within one JSON document, counted from 1.
        reason: What is wrong with it.
        excerpt: How it begins, at most 200 characters.
    """

    source: str
    line: int
    reason: str
    excerpt: str


@dataclass(frozen=True, kw_only=True)
class Record:
    """One JSON value of a log: a line, a row, or an item of a document.

    Attributes:
        source: As `Reject.source`.
        line: As `Reject.line`.
        value: The value; None where there is a `problem`.
        raw: The line as it stands in the log; None where the value is no line of its own.
        problem: Why the line is no JSON; None where it is.
    """

    source: str
    line: int
    value: Any
    raw: bytes | None = None
    problem: str | None = None

    def reject(self, reason: str) -> Reject:
        """Say why nothing can be made of this record."""
        return Reject(source=self.source, line=self.line, reason=reason, excerpt=self._excerpt())

    def _excerpt(self) -> str:
        raw = self.raw
        if raw is None:
            raw = orjson.dumps(_json_safe(self.value), default=str)
        text = raw[:_EXCERPT_BYTES].decode(errors="replace").strip()
        return clean(text)[0][:MAX_EXCERPT_CHARS]


def _json_safe(value: Any) -> Any:
    """Copy a value with the strings that no JSON can hold repaired, no deeper than an excerpt."""
    if isinstance(value, str):
        return clean(value[:MAX_EXCERPT_CHARS])[0]
    if isinstance(value, Mapping):
        return {str(key): _json_safe(item) for key, item in _first(value.items())}
    if isinstance(value, list | tuple):
        return [_json_safe(item) for item in _first(value)]
    return value if isinstance(value, bool | float | None) else str(value)


def _first(items: Any) -> Iterator[Any]:
    # Each item takes at least two characters of an excerpt.
    yield from list(items)[: MAX_EXCERPT_CHARS // 2]


def describe(value: Any) -> str:
    """Say what a value is, for an error: its type and keys, never its content.

    Example:
        >>> describe({"a": 1, "b": [2]})
        "an object with the keys 'a', 'b'"
    """
    if isinstance(value, Mapping):
        keys = [repr(str(key)[:40]) for key in value]
        more = ", …" if len(keys) > _SHOWN_KEYS else ""
        return f"an object with the keys {', '.join(keys[:_SHOWN_KEYS])}{more}" if keys else "{}"
    if isinstance(value, list | tuple):
        return f"a list that starts with {describe(value[0])}" if value else "an empty list"
    return f"a value of type {type(value).__name__}"
