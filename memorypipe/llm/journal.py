"""The journal: every reply is written down before it is used, so that none is paid for twice.

A journal is a folder of segments, JSON lines that are only ever appended to. Each process writes
segments of its own, each line by one `write()`: a process that is killed leaves whole lines and
at most one torn tail. Readers pass over a torn tail and never cut it off, since it may be a line
that another process is just writing.

A line is
``{"key", "usable", "scope_key", "reply": {"content", "finish_reason", "refusal", "prompt_tokens",
"completion_tokens", "latency_ms", "model"}}``.
"""

import errno
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import orjson

from memorypipe.errors import InvalidArgumentError
from memorypipe.ids import digest
from memorypipe.llm.types import ChatMessage, Reply

__all__ = ["Journal", "JournalStats", "journal_key"]

_SUFFIX = ".jsonl"
# How a line begins; scanning reads the key from its place instead of parsing the line.
_HEAD = re.compile(rb'\{"key":"([0-9a-f]{32})","usable":(true|false),')
_END = b"}\n"
_READ_BYTES = 16 * 1024
# A place is the number of the segment and the offset in it, packed into one integer.
_OFFSET_BITS = 40
# Parameters that cannot change what the model says.
_SILENT_PARAMS = frozenset({"timeout", "extra_headers"})
_REPLY_FIELDS = tuple(field.name for field in fields(Reply) if field.name != "rate")


def journal_key(
    endpoint: str,
    model: str,
    params: Mapping[str, Any],
    messages: Sequence[ChatMessage],
    repeat_key: str | None = None,
) -> str:
    """Name a request by everything that can change its reply (32 hex digits).

    Args:
        endpoint: The endpoint's name or address, without secrets.
        model: The model's name there.
        params: All parameters of the call; `timeout` and `extra_headers` do not count.
        messages: The complete messages; they hold the prompt and thereby its version.
        repeat_key: Tells repeated samples of one request apart.

    Example:
        >>> journal_key("e", "m", {"timeout": 1}, []) == journal_key("e", "m", {}, [])
        True
    """
    telling = {name: value for name, value in params.items() if name not in _SILENT_PARAMS}
    plain = [dict(message) for message in messages]
    return digest("reply", endpoint, model, telling, plain, repeat_key).hex()


@dataclass(frozen=True, kw_only=True)
class JournalStats:
    """What a journal handle has seen.

    Attributes:
        segments: Segments read at the start.
        loaded: Usable replies found in them, repeated ones counted once.
        unreadable: Lines passed over: torn tails, and lines damaged on disk.
        hits: Requests answered.
        misses: Requests not known.
        written: Replies written by this handle.
    """

    segments: int
    loaded: int
    unreadable: int
    hits: int
    misses: int
    written: int


class Journal:
    """A handle on a journal folder: reads what was there when it was opened and what it writes.

    Not to be shared between threads or processes; each opens its own. Sixteen bytes a reply are
    kept in memory for what was there at the start.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> journal = Journal.open(folder.name)
        >>> journal.put("0" * 32, Reply(content="Likes tea"), usable=True)
        >>> journal.get("0" * 32).content
        'Likes tea'
        >>> journal.close()
        >>> folder.cleanup()
    """

    def __init__(self, folder: Path, writer_id: str) -> None:
        self._folder = folder
        self._writer_id = writer_id
        self._segments = sorted(folder.glob(f"*{_SUFFIX}"))
        self._unreadable = self._hits = self._misses = self._written = 0
        self._read_segments = len(self._segments)
        self._old_keys, self._old_places = self._scan()
        self._new_places: dict[str, int] = {}
        self._fd: int | None = None
        self._offset = 0

    @classmethod
    def open(cls, directory: str, *, writer_id: str | None = None) -> "Journal":
        """Open a journal, and make its folder where there is none.

        Args:
            directory: A local folder, as a path or a ``file://`` address.
            writer_id: Begins the names of the segments that this handle writes; None takes the
                process id. Two writers with one id do not get in each other's way.

        Raises:
            InvalidArgumentError: For an address of another kind.
            OSError: Where the folder cannot be made or read.
        """
        folder = _local_path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        named = writer_id or f"pid{os.getpid()}"
        return cls(folder, re.sub(r"[^A-Za-z0-9._-]", "_", named))

    @property
    def stats(self) -> JournalStats:
        """Counters of this handle."""
        return JournalStats(
            segments=self._read_segments,
            loaded=len(self._old_keys),
            unreadable=self._unreadable,
            hits=self._hits,
            misses=self._misses,
            written=self._written,
        )

    def get(self, key: str) -> Reply | None:
        """Give the last usable reply to a request; None where there is none."""
        reply = next(filter(None, (self._read(key, place) for place in self._places(key))), None)
        if reply is None:
            self._misses += 1
        else:
            self._hits += 1
        return reply

    def put(self, key: str, reply: Reply, *, usable: bool, scope_key: str | None = None) -> None:
        """Write a reply down; when this returns it survives the end of the process.

        Args:
            key: From `journal_key`.
            reply: What was paid for.
            usable: False keeps it from being used again; it is kept as evidence.
            scope_key: Whose data it holds, so that it can be erased.

        Raises:
            OSError: Where it cannot be written in full; later replies go to a new segment.
        """
        values = {name: getattr(reply, name) for name in _REPLY_FIELDS}
        line = {"key": key, "usable": usable, "scope_key": scope_key, "reply": values}
        offset = self._append(_encode(line))
        self._written += 1
        if usable:
            self._new_places[key] = (len(self._segments) - 1) << _OFFSET_BITS | offset

    def close(self) -> None:
        """Close the segment; another reply would begin a new one."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _places(self, key: str) -> Iterator[int]:
        if key in self._new_places:
            yield self._new_places[key]
        # Half of the key is enough to find the place; the line itself holds all of it.
        half = np.uint64(int(key[:16], 16))
        first = np.searchsorted(self._old_keys, half, side="left")
        last = np.searchsorted(self._old_keys, half, side="right")
        yield from map(int, self._old_places[first:last][::-1])

    def _read(self, key: str, place: int) -> Reply | None:
        path = self._segments[place >> _OFFSET_BITS]
        line = _read_line(path, place & ((1 << _OFFSET_BITS) - 1))
        try:
            found = json.loads(line)
            if found["key"] != key:
                return None
            return Reply(**{name: found["reply"][name] for name in _REPLY_FIELDS})
        except (ValueError, KeyError, TypeError):
            # Damaged on disk or erased since: it will be asked for again.
            return None

    def _scan(self) -> tuple["np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]:
        """Index the segments: halves of keys, sorted, and the place of the last reply of each."""
        places: dict[bytes, int] = {}
        for number, path in enumerate(self._segments):
            for key, offset in self._scan_segment(path):
                places[key] = number << _OFFSET_BITS | offset
        keys = np.fromiter(
            (int(key[:16], 16) for key in places), dtype=np.uint64, count=len(places)
        )
        order = np.argsort(keys, kind="stable")
        values = np.fromiter(places.values(), dtype=np.int64, count=len(places))
        return keys[order], values[order]

    def _scan_segment(self, path: Path) -> Iterator[tuple[bytes, int]]:
        offset = 0
        with path.open("rb") as lines:
            for line in lines:
                head = _HEAD.match(line)
                if head is None or not line.endswith(_END):
                    self._unreadable += 1
                elif head[2] == b"true":
                    yield head[1], offset
                offset += len(line)

    def _append(self, line: bytes) -> int:
        if self._fd is None:
            self._fd = self._new_segment()
            self._offset = 0
        offset = self._offset
        written = 0
        try:
            written = os.write(self._fd, line)
        finally:
            if written < len(line):
                # What follows in the same segment would be glued to the torn line.
                self.close()
        if written < len(line):
            raise OSError(errno.ENOSPC, "The journal took only part of a reply", str(self._folder))
        self._offset += written
        return offset

    def _new_segment(self) -> int:
        number = 0
        while True:
            path = self._folder / f"{self._writer_id}-{number:06d}{_SUFFIX}"
            try:
                fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o666)
            except FileExistsError:
                number += 1
                continue
            self._segments.append(path)
            return fd


def _encode(line: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        # A lone surrogate, as half an emoji from a model that was cut: kept as an escape.
        return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def _read_line(path: Path, offset: int) -> bytes:
    """Read from an offset to the end of the line; b"" where the segment is gone."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return b""
    try:
        read = b""
        while b"\n" not in read:
            more = os.pread(fd, _READ_BYTES, offset + len(read))
            if not more:
                return b""
            read += more
    finally:
        os.close(fd)
    return read[: read.index(b"\n")]


def _local_path(directory: str) -> Path:
    parts = urlsplit(directory)
    if parts.scheme == "file" and parts.netloc in {"", "localhost"}:
        return Path(unquote(parts.path))
    if "://" in directory or parts.scheme == "file":
        raise InvalidArgumentError(
            f"journal must be a local folder (a path or file:///path), got {directory!r}."
        )
    return Path(directory)
