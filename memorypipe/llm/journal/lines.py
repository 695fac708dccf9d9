"""One line of a journal, and what a scan of many of them finds.

A line is
``{"key", "usable", "scope_key", "reply": {"content", "finish_reason", "refusal", "prompt_tokens",
"completion_tokens", "latency_ms", "model"}}``. It never holds a request, a header or a secret.
A line of spaces was erased in place.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

import orjson

from memorypipe.llm.types import Reply

__all__ = [
    "LineHead",
    "Scan",
    "decode_reply",
    "encode_line",
    "evidence_key",
    "head_of",
    "scan_lines",
    "scope_of",
]

# How a line begins; scanning reads the key from its place instead of parsing the line.
_HEAD = re.compile(rb'\{"key":"([0-9a-f]{32})","usable":(true|false),')
_END = b"}\n"
_MODEL = b',"model":'
_REPLY_FIELDS = tuple(one.name for one in fields(Reply) if one.name != "rate")


def encode_line(key: str, reply: Reply, *, usable: bool, scope_key: str | None) -> bytes:
    """Write a reply as one line, its line feed included."""
    values = {name: getattr(reply, name) for name in _REPLY_FIELDS}
    line = {"key": key, "usable": usable, "scope_key": scope_key, "reply": values}
    try:
        return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        # A lone surrogate, as half an emoji from a model that was cut: kept as an escape.
        return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def evidence_key(key: str) -> str:
    """Give the name under which an unusable reply to a request is found: never the request's own.

    Example:
        >>> evidence_key("0123456789abcdef" + "f" * 16)
        'ffffffffffffffff0123456789abcdef'
    """
    middle = len(key) // 2
    return key[middle:] + key[:middle]


def decode_reply(line: bytes, key: str, *, unusable: bool = False) -> Reply | None:
    """Read the reply of a line; None where the line is damaged, erased or of another key.

    Args:
        line: The line.
        key: Of the request.
        unusable: Whether it is an unusable reply that is wanted, instead of a usable one.
    """
    try:
        found = _loads(line)
        if found["key"] != key or found["usable"] is unusable:
            return None
        reply = found["reply"]
        return Reply(**{name: reply[name] for name in _REPLY_FIELDS})
    except (ValueError, KeyError, TypeError):
        return None


def scope_of(line: bytes) -> str | None:
    """Give the scope key of a line; None where it has none or cannot be read."""
    try:
        scope: str | None = _loads(line)["scope_key"]
    except (ValueError, KeyError, TypeError):
        return None
    return scope


def _loads(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        # Escapes of lone surrogates, which only the standard library takes.
        return json.loads(line)


@dataclass(frozen=True, kw_only=True)
class LineHead:
    """What the beginning of a whole line says."""

    key: str
    usable: bool


def head_of(line: bytes) -> LineHead | None:
    """Read the head of a line with its line feed; None where it is torn or damaged."""
    head = _HEAD.match(line)
    if head is None or not line.endswith(_END):
        return None
    return LineHead(key=head[1].decode(), usable=head[2] == b"true")


@dataclass(kw_only=True)
class Scan:
    """What a scan of a segment, or of the part of it from some offset on, found.

    Attributes:
        places: Offset of the last usable line of each key, and under `evidence_key` that of the
            last unusable one.
        end: Where the last whole line ends: a later scan goes on there.
        usable: Whole lines whose reply may be used again.
        unusable: Whole lines kept as evidence only.
        unreadable: Whole lines that are damaged; erased ones do not count.
        torn_bytes: What follows the last whole line.
        models: Usable lines per model name, as JSON text.
    """

    places: dict[str, int] = field(default_factory=dict)
    end: int = 0
    usable: int = 0
    unusable: int = 0
    unreadable: int = 0
    torn_bytes: int = 0
    models: Counter[str] = field(default_factory=Counter)

    def note(self, head: LineHead, line: bytes, offset: int) -> None:
        """Count one whole line; an index counts what it covers by the same rule."""
        if head.usable:
            self.usable += 1
            self.places[head.key] = offset
            self.models[_model_of(line)] += 1
        else:
            self.unusable += 1
            self.places[evidence_key(head.key)] = offset
        self.end = offset + len(line)


def scan_lines(lines: Iterable[bytes], start: int = 0) -> Scan:
    """Go through lines as a file gives them.

    Args:
        lines: Each with its line feed, save perhaps the last.
        start: Offset of the first.
    """
    scan = Scan(end=start)
    for line in lines:
        head = head_of(line)
        if head is not None:
            scan.note(head, line, scan.end)
        elif line.endswith(b"\n"):
            scan.unreadable += not line.isspace()
            scan.end += len(line)
        else:
            scan.torn_bytes = len(line)
    return scan


def _model_of(line: bytes) -> str:
    """Give the model's name: the last field of the line, whatever the reply says before."""
    return line[line.rfind(_MODEL) + len(_MODEL) : -3].decode(errors="replace").strip('"')
