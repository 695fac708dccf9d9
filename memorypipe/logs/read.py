"""Conversation logs to Ray Datasets: one row per conversation, then one row per window.

The log is parsed in the calling process, record by record; rows leave it for Ray's object store
in batches, so its memory holds one batch, whatever the size of the log. (A JSON document that is
one value is the exception: it is read whole.)
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import pyarrow as pa
import ray

from memorypipe.errors import InvalidArgumentError, LogFormatError
from memorypipe.ids import digest
from memorypipe.logs.conversations import check_scope_columns
from memorypipe.logs.files import find_files, read_records
from memorypipe.logs.formats import FORMATS, FormatName
from memorypipe.logs.merge import merge_conversations
from memorypipe.logs.parse import Parsed, ParsedLog, parse_log
from memorypipe.logs.records import Record, Reject
from memorypipe.logs.windows import check_window_options, windows_batch
from memorypipe.schema import CONVERSATIONS

__all__ = ["ConversationLog", "LogSource", "read_conversations", "windows"]

_LOG = logging.getLogger(__name__)

# A path, paths, rows, an Arrow table, a pandas frame or a Ray Dataset.
LogSource: TypeAlias = Any

# A batch becomes one block of the dataset; whichever is reached first closes it.
_BATCH_CONVERSATIONS = 2_000
_BATCH_CHARS = 16_000_000

_MAX_PARTITIONS = 200

# Rows of a dataset that are in this process at a time.
_PULLED_ROWS = 1_024


@dataclass(frozen=True, kw_only=True)
class ConversationLog:
    """A log that was read.

    Attributes:
        dataset: Ray Dataset with the columns of `memorypipe.schema.CONVERSATIONS`, then the kept
            columns (string, nullable).
        rejects: What could not be read, in the order of the log.
        format: ``"openai"``, ``"locomo"``, ``"memorybank"``; ``"mixed"`` where files differ,
            ``"none"`` where there was no record.
        conversations: Records that gave a row. The dataset has fewer rows where several records
            were of one conversation.
        turns: Messages in those records.
        empty: Conversations left out because they have no message but system turns and blanks.
        naive_times: Times that named no zone and were taken as UTC.
        unreadable_times: Values in the place of a time that are none; they count as missing.
        repaired: NULs and lone surrogates that were replaced.
    """

    dataset: ray.data.Dataset
    rejects: tuple[Reject, ...]
    format: Literal["openai", "locomo", "memorybank", "mixed", "none"]
    conversations: int
    turns: int
    empty: int
    naive_times: int
    unreadable_times: int
    repaired: int


def read_conversations(
    source: LogSource,
    *,
    format: FormatName | Literal["auto"] = "auto",  # noqa: A002  # the word that users know
    scope: Mapping[str, str] | None = None,
    keep: Sequence[str] = (),
    limit: int | None = None,
) -> ConversationLog:
    """Read conversation logs, recognised by what they hold.

    A record that cannot be read is a reject and the reading goes on. Records of one conversation
    (as in daily exports of conversations that grow) are merged. Times without a zone are UTC,
    with one warning in the log of this module.

    Args:
        source: A file (JSON lines or one JSON document, gzip or not), a directory, a glob
            pattern, a list of those, a list of mappings, an Arrow table, a pandas frame, or a
            Ray Dataset (which is executed, and read through this process).
        format: ``"auto"``, or what `memorypipe.logs.formats.drafts` describes.
        scope: Which field gives which part of the scope: ``{"user_id": "uid"}``; ``=`` marks a
            constant: ``{"user_id": "=u1"}``. None: what the format says.
        keep: Fields of the log to carry along as string columns.
        limit: At most this many conversations; None: all.

    Raises:
        InvalidArgumentError: There is no such file, an option cannot work, or the log names no
            user and `scope` is not given.
        LogFormatError: No file has a known format. (Where some have, the others are rejects.)
    """
    schema = _schema(keep)
    format_name = _format_name(format)
    columns = None if scope is None else check_scope_columns(scope)
    if limit is not None and limit < 0:
        raise InvalidArgumentError(f"limit must be 0 or more, got {limit!r}.")
    reading = _Reading(schema=schema, limit=limit)
    for name, records in _record_streams(source):
        try:
            log = parse_log(records, format_name=format_name, scope_columns=columns, keep=keep)
        except LogFormatError as error:
            reading.skip(name, error)
            continue
        if log is not None:
            reading.take(log)
    return reading.finish()


def _schema(keep: Sequence[str]) -> pa.Schema:
    taken = [name for name in keep if name in CONVERSATIONS.names]
    if taken or len(set(keep)) < len(keep):
        raise InvalidArgumentError(
            f"keep must name each column once and none of {CONVERSATIONS.names!r}, "
            f"got {list(keep)!r}."
        )
    return pa.schema([*CONVERSATIONS, *(pa.field(name, pa.string()) for name in keep)])


def _format_name(name: str) -> FormatName | None:
    if name == "auto":
        return None
    for known in FORMATS:
        if name == known:
            return known
    raise InvalidArgumentError(f"Unknown log format {name!r}; choose auto, {', '.join(FORMATS)}.")


def _record_streams(source: LogSource) -> Iterator[tuple[str, Iterable[Record]]]:
    """Yield a name and the records for each file or table of a source."""
    if isinstance(source, str | Path):
        source = [source]
    if isinstance(source, Sequence) and source and all(isinstance(p, str | Path) for p in source):
        for path in dict.fromkeys(file for part in source for file in find_files(part)):
            yield str(path), read_records(path)
        return
    name = type(source).__name__
    yield name, _row_records(name, _rows(source))


def _row_records(name: str, rows: Iterable[Any]) -> Iterator[Record]:
    for number, row in enumerate(rows, start=1):
        yield Record(source=name, line=number, value=row)


def _rows(source: LogSource) -> Iterator[Any]:
    if isinstance(source, ray.data.Dataset):
        for batch in source.iter_batches(batch_size=_PULLED_ROWS, batch_format="pyarrow"):
            yield from cast("pa.Table", batch).to_pylist()
    elif isinstance(source, pa.Table):
        for batch in source.to_batches(max_chunksize=_PULLED_ROWS):
            yield from batch.to_pylist()
    elif hasattr(source, "to_dict") and hasattr(source, "columns"):  # pandas, without its import
        yield from map(_lists, source.to_dict("records"))
    elif isinstance(source, list | tuple):
        yield from source
    else:
        raise InvalidArgumentError(
            f"Cannot read conversations from a {type(source).__name__}; give a path, a list of "
            "paths or mappings, an Arrow table, a pandas frame or a Ray Dataset."
        )


def _lists(value: Any) -> Any:
    """Turn the arrays that pandas holds lists in back into lists."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list):
        return [_lists(item) for item in value]
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return value


@dataclass(kw_only=True)
class _Reading:
    """What has been read so far; rows already handed over are in the object store."""

    schema: pa.Schema
    limit: int | None
    pending: list[dict[str, Any]] = field(default_factory=list)
    pending_chars: int = 0
    blocks: list[Any] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    skipped: list[LogFormatError] = field(default_factory=list)
    formats: set[FormatName] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    seen: set[bytes] = field(default_factory=set)

    def skip(self, name: str, error: LogFormatError) -> None:
        """Note a file of unknown format."""
        self.skipped.append(error)
        self.rejects.append(Reject(source=name, line=1, reason=str(error), excerpt=""))

    def take(self, log: ParsedLog) -> None:
        """Read a log to its end, or to the limit."""
        self.formats.add(log.format_name)
        while not self._is_full():
            parsed = next(log.records, None)
            if parsed is None:
                return
            self._take_record(parsed)

    def _is_full(self) -> bool:
        return self.limit is not None and self.counts["conversations"] >= self.limit

    def _take_record(self, parsed: Parsed) -> None:
        self.rejects.extend(parsed.rejects)
        self.counts.update(parsed.counts)
        for row in parsed.rows:
            if self._is_full():
                return
            self._take_row(row)

    def _take_row(self, row: dict[str, Any]) -> None:
        self.counts["conversations"] += 1
        self.counts["turns"] += len(row["messages"])
        self.seen.add(digest(row["scope_key"], row["conversation_id"]))
        self.pending.append(row)
        self.pending_chars += sum(len(message["content"]) for message in row["messages"])
        if len(self.pending) >= _BATCH_CONVERSATIONS or self.pending_chars >= _BATCH_CHARS:
            self._flush()

    def _flush(self) -> None:
        self.blocks.append(ray.put(pa.Table.from_pylist(self.pending, schema=self.schema)))
        self.pending, self.pending_chars = [], 0

    def finish(self) -> ConversationLog:
        """Hand over what is pending and make the dataset."""
        if self.skipped and not self.formats:
            raise self.skipped[0]
        if self.pending or not self.blocks:
            self._flush()
        counts = self.counts
        _warn(counts)
        return ConversationLog(
            dataset=self._dataset(),
            rejects=tuple(self.rejects),
            format=self._format(),
            conversations=counts["conversations"],
            turns=counts["turns"],
            empty=counts["empty"],
            naive_times=counts["naive_times"],
            unreadable_times=counts["unreadable_times"],
            repaired=counts["repaired"],
        )

    def _dataset(self) -> ray.data.Dataset:
        dataset: ray.data.Dataset = ray.data.from_arrow_refs(self.blocks)
        if len(self.seen) == self.counts["conversations"]:
            return dataset
        if len(self.blocks) > 1:
            # A partition then is about as large as a batch was.
            partitions = min(len(self.blocks), _MAX_PARTITIONS)
            dataset = dataset.repartition(partitions, keys=["scope_key", "conversation_id"])
        # Ray keeps a key in one block only up to the stage right after the repartition.
        return dataset.map_batches(merge_conversations, batch_format="pyarrow", batch_size=None)

    def _format(self) -> Literal["openai", "locomo", "memorybank", "mixed", "none"]:
        if len(self.formats) > 1:
            return "mixed"
        return next(iter(self.formats), "none")


def _warn(counts: Counter[str]) -> None:
    if counts["naive_times"]:
        _LOG.warning("%d times name no time zone; taken as UTC.", counts["naive_times"])
    if counts["unreadable_times"]:
        _LOG.warning("%d times cannot be read; taken as missing.", counts["unreadable_times"])


def windows(
    dataset: ray.data.Dataset,
    *,
    window_tokens: int = 2000,
    overlap_messages: int = 2,
    known_keys_ref: "ray.ObjectRef[Any] | None" = None,
) -> ray.data.Dataset:
    """Cut the conversations of a dataset into windows, on its workers.

    Args:
        dataset: With the columns of `memorypipe.schema.CONVERSATIONS`.
        window_tokens: As `memorypipe.logs.windows.conversation_windows`.
        overlap_messages: As there.
        known_keys_ref: Ray reference to the array that `memorypipe.logs.known.pack_keys` gives:
            the messages that are already paid for. Workers of one machine share it.

    Returns:
        One row per window, with the columns of `memorypipe.schema.WINDOWS`.

    Raises:
        InvalidArgumentError: As `memorypipe.logs.windows.check_window_options`.
    """
    check_window_options(window_tokens=window_tokens, overlap_messages=overlap_messages)

    def cut(batch: pa.Table) -> pa.Table:
        return windows_batch(
            batch,
            window_tokens=window_tokens,
            overlap_messages=overlap_messages,
            known_keys=None if known_keys_ref is None else ray.get(known_keys_ref),
        )

    return dataset.map_batches(cut, batch_format="pyarrow", batch_size=_PULLED_ROWS)
