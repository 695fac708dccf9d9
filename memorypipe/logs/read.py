"""Conversation logs to Ray Datasets: one row per conversation, then one row per window.

The log is parsed in the calling process, record by record; rows leave it for Ray's object store
in batches, so its memory holds one batch, whatever the size of the log. (A JSON document that is
one value is the exception: it is read whole.)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, cast

import pyarrow as pa
import ray

from memorypipe.errors import LogFormatError
from memorypipe.logs.formats.registry import FormatName
from memorypipe.logs.fragments import assemble_conversations
from memorypipe.logs.merge import merge_conversations
from memorypipe.logs.options import Layout, read_options
from memorypipe.logs.parse import LogKind, parse_log
from memorypipe.logs.reading import Reading
from memorypipe.logs.records import Reject
from memorypipe.logs.redact import Redact
from memorypipe.logs.sources import PULLED_ROWS, LogSource, record_streams
from memorypipe.logs.windows import check_window_options, windows_batch
from memorypipe.ray_start import ensure_ray

__all__ = ["ConversationLog", "LogSource", "read_conversations", "windows"]

_MAX_PARTITIONS = 200

# Rows of a block, whatever their length.
_BATCH_ROWS: dict[Layout, int] = {"conversations": 2_000, "messages": 8_000}


@dataclass(frozen=True, kw_only=True)
class ConversationLog:
    """A log that was read.

    Attributes:
        source: One row per conversation, with the columns of `memorypipe.schema.CONVERSATIONS`,
            then the kept columns (string, nullable): a table where the log is one block, else a
            Ray Dataset.
        rejects: What could not be read, in the order of the log.
        format: One of `memorypipe.logs.formats`, or ``"mapped"``; ``"mixed"`` where files differ,
            ``"none"`` where there was no record.
        conversations: Records that gave a row; where a record is one message, the conversations
            that they make. The dataset has fewer rows where several records were of one
            conversation.
        turns: Messages in those records.
        empty: Conversations left out because they have no message but system turns and blanks.
        naive_times: Times that named no zone, where none was given, and were taken as UTC.
        unreadable_times: Values in the place of a time that are none; they count as missing.
        repaired: NULs and lone surrogates that were replaced.
        is_redacted: Whether a function redacted the texts.
        undated: Conversations that nothing dates.
    """

    source: pa.Table | ray.data.Dataset
    rejects: tuple[Reject, ...]
    format: LogKind | Literal["mixed", "none"]
    conversations: int
    turns: int
    empty: int
    naive_times: int
    unreadable_times: int
    repaired: int
    is_redacted: bool = False
    undated: int = 0

    @cached_property
    def dataset(self) -> ray.data.Dataset:
        """The rows as a Ray Dataset."""
        ensure_ray()
        return ray.data.from_arrow(self.source) if self.rows is not None else self.source

    @property
    def rows(self) -> pa.Table | None:
        """The rows, where this process holds all of them; else None."""
        return self.source if isinstance(self.source, pa.Table) else None


def read_conversations(  # noqa: PLR0913  # one keyword per independent choice of a reading
    source: LogSource,
    *,
    format: FormatName | Literal["auto"] = "auto",  # noqa: A002  # the word that users know
    scope: Mapping[str, str] | None = None,
    keep: Sequence[str] = (),
    limit: int | None = None,
    map: Mapping[str, str] | None = None,  # noqa: A002  # as above
    roles: Mapping[str, str] | None = None,
    timezone: str | None = None,
    layout: Layout = "conversations",
    group_by: str | None = None,
    order_by: str | None = None,
    redact: Redact | None = None,
    wants_scope: Callable[[str], bool] | None = None,
) -> ConversationLog:
    """Read conversation logs, recognised by what they hold or by a mapping.

    A record that cannot be read is a reject and the reading goes on. Records of one conversation
    (as in daily exports of conversations that grow) are merged. Messages come in order of time
    where all of a conversation are dated. Times without a zone are UTC, with one warning in the
    log of this package, unless `timezone` is given.

    Args:
        source: A file (JSON lines, one JSON document, CSV or Parquet; text may be compressed with
            gzip or Zstandard), a directory, a glob pattern, a list of those, a list of mappings,
            an Arrow table, a pandas frame, or a Ray Dataset (which is executed, and read through
            this process). CSV is known by its name (``.csv``, ``.tsv``) or, with a mapping, by
            beginning like no JSON.
        format: ``"auto"``, or one of `memorypipe.logs.formats`.
        scope: Which column gives which part of the scope: ``{"user_id": "uid"}``; ``=`` marks a
            constant: ``{"user_id": "=u1"}``. None: what the format says. Columns may be paths
            into nested objects, here and below: ``"account.uuid"``.
        keep: Columns of the log to carry along as string columns.
        limit: At most this many conversations, the first ones; None: all.
        map: What is where in a log of any other shape: of a record `messages` (a list, or its
            JSON), `conversation_id` and `event_time`, and of each message `role`, `content`,
            `name`, `timestamp` and `id`: ``{"messages": "log", "content": "body"}``. What is not
            named is looked for under its usual names. ``{"role": "=user"}`` is a constant.
        roles: What the log calls its speakers, beside the usual names: ``{"customer": "user"}``.
        timezone: Of times that name none: ``"Z"``, a name such as ``"Europe/Berlin"``, an offset
            such as ``"+02:00"``, or the column that holds one.
        layout: ``"messages"`` where a record is one message, anywhere in the log; then `map` names
            the parts of a message alone.
        group_by: With that layout, the column that tells which conversation a message is of.
        order_by: With that layout, the column that orders a conversation: numbers, times or text.
            None: time, where all messages are dated, else the order of the log. It also dates
            messages that have no time, unless it holds mere numbers.
        redact: Takes a list of texts and gives a list of the same length: what may be seen of
            each. It is applied, in this process and to batches, to what messages say, to names of
            speakers, to kept columns and to what rejects show, before ids are made and anything
            else sees them; not to scopes, ids and roles. Where it raises, or gives no list of
            that length, for a conversation (or message, with layout ``"messages"``), that one is
            a reject.
        wants_scope: Whether the conversations of a scope, by its key, are wanted; the others are
            passed over, and `limit` does not count them. None: all are.

    Raises:
        InvalidArgumentError: There is no such file, an option cannot work, a column that it names
            is not in the first records, their roles are unknown, or the log names no user and
            `scope` is not given.
        LogFormatError: No file has a known format. (Where some have, the others are rejects.)
    """
    options = read_options(
        format=format,
        scope=scope,
        keep=keep,
        map=map,
        roles=roles,
        timezone=timezone,
        layout=layout,
        group_by=group_by,
        order_by=order_by,
        redact=redact,
    )

    def put(table: pa.Table) -> Any:
        if not reading.has_blocks:
            return table  # the first one stays here: most logs have no other
        ensure_ray()
        return ray.put(table)

    reading = Reading(
        options=options,
        limit=limit,
        put=put,
        batch_rows=_BATCH_ROWS[options.layout],
        wants_scope=wants_scope or (lambda _key: True),
    )
    for name, records in record_streams(source, pull=_pull, is_mapped=options.is_mapped):
        try:
            log = parse_log(records, options, first_position=reading.position)
        except LogFormatError as error:
            reading.skip(name, error)
            continue
        if log is not None:
            reading.take(log)
    first, *others = reading.finish()
    if others:
        source = _dataset([ray.put(first), *others], reading)
    else:
        unite = _unite(reading)
        source = first if unite is None else unite(first)
    return ConversationLog(source=source, **reading.account())


def _pull(source: Any) -> Iterator[pa.Table] | None:
    if not isinstance(source, ray.data.Dataset):
        return None
    batches = source.iter_batches(batch_size=PULLED_ROWS, batch_format="pyarrow")
    return cast("Iterator[pa.Table]", iter(batches))


def _dataset(blocks: Sequence[Any], reading: Reading) -> ray.data.Dataset:
    dataset: ray.data.Dataset = ray.data.from_arrow_refs(list(blocks))
    unite = _unite(reading)
    if unite is None:
        return dataset
    # A partition then is about as large as a batch was.
    partitions = min(len(blocks), _MAX_PARTITIONS)
    dataset = dataset.repartition(partitions, keys=["scope_key", "conversation_id"])
    # Ray keeps a key in one block only up to the stage right after the repartition.
    return dataset.map_batches(unite, batch_format="pyarrow", batch_size=None)


def _unite(reading: Reading) -> Callable[[pa.Table], pa.Table] | None:
    """Say how rows of one conversation become one; None where no conversation has two."""
    keep = reading.options.keep

    def assemble(fragments: pa.Table) -> pa.Table:
        return assemble_conversations(fragments, keep=keep)

    if reading.options.layout == "messages":
        return assemble
    return merge_conversations if reading.has_repeats else None


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

    return dataset.map_batches(cut, batch_format="pyarrow", batch_size=PULLED_ROWS)
