"""The state of a reading: batches of rows on their way out, and the account of everything else."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa

from memorypipe.errors import InvalidArgumentError, LogFormatError
from memorypipe.ids import digest
from memorypipe.logs.conversations import Row
from memorypipe.logs.fragments import fragment_schema
from memorypipe.logs.options import ReadOptions
from memorypipe.logs.parse import LogKind, Parsed, ParsedLog
from memorypipe.logs.records import Reject
from memorypipe.schema import CONVERSATIONS

__all__ = ["Reading"]

_LOG = logging.getLogger("memorypipe.logs.read")

# A batch becomes one block of the dataset; whichever is reached first closes it.
_BATCH_CHARS = 16_000_000


@dataclass(kw_only=True)
class Reading:
    """What has been read so far; rows already handed over are wherever `put` puts them.

    Attributes:
        options: Of the reading.
        limit: At most this many conversations; None: all.
        put: Takes a batch of rows, gives a reference to it.
        batch_rows: Rows that close a batch.
        wants_scope: Whether conversations of a scope, by its key, are taken; others are passed
            over and count nowhere.
        position: How many records were read.
    """

    options: ReadOptions
    limit: int | None
    put: Callable[[pa.Table], Any]
    batch_rows: int = 2_000
    wants_scope: Callable[[str], bool] = lambda _key: True
    position: int = 0
    _pending: list[dict[str, Any]] = field(default_factory=list)
    _pending_chars: int = 0
    _blocks: list[Any] = field(default_factory=list)
    _rejects: list[Reject] = field(default_factory=list)
    _skipped: list[LogFormatError] = field(default_factory=list)
    _kinds: set[LogKind] = field(default_factory=set)
    _counts: Counter[str] = field(default_factory=Counter)
    _seen: set[bytes] = field(default_factory=set)
    _seen_dated: set[bytes] = field(default_factory=set)
    _seen_blank: set[bytes] = field(default_factory=set)
    _unseen_columns: set[str] = field(default_factory=set)
    _columns: str = ""

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 0:
            raise InvalidArgumentError(f"limit must be 0 or more, got {self.limit!r}.")
        self._unseen_columns.update(self.options.keep)

    @property
    def has_blocks(self) -> bool:
        """Whether a batch was handed over."""
        return bool(self._blocks)

    @property
    def has_repeats(self) -> bool:
        """Whether several records were of one conversation."""
        return len(self._seen) != self._counts["conversations"]

    @property
    def _is_split(self) -> bool:
        return self.options.layout == "messages"

    def skip(self, name: str, error: LogFormatError) -> None:
        """Note a file of unknown format."""
        self._skipped.append(error)
        self._rejects.append(Reject(source=name, line=1, reason=str(error), excerpt=""))

    def take(self, log: ParsedLog) -> None:
        """Read a log to its end, or to the limit."""
        self._kinds.add(log.format_name)
        self._columns = self._columns or log.columns
        # Where a record is a message, those of the first conversations may be anywhere.
        while self._is_split or not self._is_full():
            parsed = next(log.records, None)
            if parsed is None:
                return
            self._take_record(parsed)

    def _is_full(self) -> bool:
        return self.limit is not None and len(self._seen) >= self.limit

    def _take_record(self, parsed: Parsed) -> None:
        self.position += 1
        self._rejects.extend(parsed.rejects)
        if parsed.absent is not None:
            self._unseen_columns.intersection_update(parsed.absent)
        for row in parsed.rows:
            if self._is_split:
                self._take_fragment(row)
            elif not self._is_full():
                self._take_conversation(row)

    def _take_conversation(self, row: Row) -> None:
        if row.value is not None and not self.wants_scope(row.value["scope_key"]):
            return
        self._counts.update(row.counts)
        if row.value is None:
            return
        self._counts["conversations"] += 1
        self._counts["turns"] += len(row.value["messages"])
        self._see(_key(row.value), row.value["event_time"])
        chars = sum(len(message["content"]) for message in row.value["messages"])
        self._add(row.value, chars)

    def _take_fragment(self, row: Row) -> None:
        place = row.place or {}
        key = _key(place)
        if not self.wants_scope(place["scope_key"]):
            return
        if key not in self._seen and self._is_full():
            return
        self._counts.update(row.counts)
        if row.value is None:
            self._seen_blank.add(key)
            return
        self._counts["turns"] += 1
        self._see(key, row.value["timestamp"])
        self._add(row.value, len(row.value["content"]))

    def _see(self, key: bytes, at: datetime | None) -> None:
        self._seen.add(key)
        if at is not None:
            self._seen_dated.add(key)

    def _add(self, value: dict[str, Any], chars: int) -> None:
        self._pending.append(value)
        self._pending_chars += chars
        if len(self._pending) >= self.batch_rows or self._pending_chars >= _BATCH_CHARS:
            self._flush()

    def _flush(self) -> None:
        self._blocks.append(self.put(pa.Table.from_pylist(self._pending, schema=self._schema())))
        self._pending, self._pending_chars = [], 0

    def _schema(self) -> pa.Schema:
        keep = self.options.keep
        if self._is_split:
            return fragment_schema(keep)
        return pa.schema([*CONVERSATIONS, *(pa.field(name, pa.string()) for name in keep)])

    def finish(self) -> list[Any]:
        """Hand over what is pending.

        Returns:
            What `put` gave for each batch; at least one.

        Raises:
            LogFormatError: No file has a known format.
            InvalidArgumentError: No record has a column that was to be carried along.
        """
        if self._skipped and not self._kinds:
            raise self._skipped[0]
        if self._unseen_columns and self._columns:
            raise InvalidArgumentError(
                f"keep names {sorted(self._unseen_columns)!r}, which no record has; columns: "
                f"{self._columns}."
            )
        if self._pending or not self._blocks:
            self._flush()
        if self._is_split:
            self._counts["conversations"] = len(self._seen)
            self._counts["empty"] = len(self._seen_blank - self._seen)
        self._counts["undated"] = len(self._seen - self._seen_dated)
        _warn(self._counts)
        return self._blocks

    def account(self) -> dict[str, Any]:
        """Give the fields of `memorypipe.logs.read.ConversationLog` beside its source."""
        names = ("conversations", "turns", "empty", "undated", "naive_times", "unreadable_times")
        return {
            "rejects": tuple(self._rejects),
            "format": self._format(),
            "is_redacted": self.options.redact is not None,
            **{name: self._counts[name] for name in (*names, "repaired")},
        }

    def _format(self) -> LogKind | Literal["mixed", "none"]:
        return "mixed" if len(self._kinds) > 1 else next(iter(self._kinds), "none")


def _key(place: Mapping[str, Any]) -> bytes:
    return digest(place["scope_key"], place["conversation_id"])


def _warn(counts: Counter[str]) -> None:
    if counts["naive_times"]:
        _LOG.warning("%d times name no time zone; taken as UTC.", counts["naive_times"])
    if counts["unreadable_times"]:
        _LOG.warning("%d times cannot be read; taken as missing.", counts["unreadable_times"])
