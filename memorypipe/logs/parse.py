"""Records to rows: recognise the format, read what can be read, keep account of the rest. Pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Literal, TypeAlias

from memorypipe.errors import LogFormatError
from memorypipe.logs.columns import has_column, list_columns
from memorypipe.logs.conversations import Draft, Row, build_row
from memorypipe.logs.formats.mapped import mapped_drafts
from memorypipe.logs.formats.registry import FORMATS, FormatName, classify, drafts
from memorypipe.logs.fragments import build_fragment
from memorypipe.logs.options import ReadOptions
from memorypipe.logs.probe import check_probe
from memorypipe.logs.records import Record, Reject, describe
from memorypipe.logs.redact import NOT_REDACTED, Redact, redact_drafts, redact_reject

__all__ = ["LogKind", "Parsed", "ParsedLog", "parse_log"]

# The format of a log, or that a mapping says what is where.
LogKind: TypeAlias = FormatName | Literal["mapped"]

# So many records decide which format a log has and whether it names its users.
_PROBED_RECORDS = 20

# Records redacted with one call; whichever is reached first closes a batch.
_REDACTED_RECORDS = 256
_REDACTED_CHARS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """What became of one record.

    Attributes:
        rows: In the order of the record.
        rejects: Likewise.
        absent: Columns to carry along that the record does not have; None where it is unreadable.
    """

    rows: tuple[Row, ...]
    rejects: tuple[Reject, ...]
    absent: frozenset[str] | None


@dataclass(frozen=True, kw_only=True)
class ParsedLog:
    """A log that was recognised, to be iterated once; nothing but its beginning is read yet.

    Attributes:
        format_name: What it is.
        columns: Those of its first records, for an error; empty where they are unreadable.
        records: What becomes of each record.
    """

    format_name: LogKind
    columns: str
    records: Iterator[Parsed]


@dataclass(frozen=True, kw_only=True)
class _Read:
    """A record with its drafts; a draft is a text where it cannot be read, which says why."""

    record: Record
    drafts: Sequence[Draft | str]


def parse_log(
    records: Iterable[Record], options: ReadOptions, *, first_position: int = 0
) -> ParsedLog | None:
    """Recognise a log by its first records and read it.

    Args:
        records: Of one file or table.
        options: Of the reading.
        first_position: Of the first record, where logs of one row per message follow each other.

    Returns:
        The log; None where there are no records at all.

    Raises:
        LogFormatError: None of the first 20 records has a known shape.
        InvalidArgumentError: None of the first 20 records has a scope, or a column that an
            option names, or their roles are not known.
    """
    stream = iter(records)
    head = list(islice(stream, _PROBED_RECORDS))
    if not head:
        return None
    kind = _kind(head, options)
    found = [draft for record in head for draft in _read(record, kind, options).drafts]
    probed = [draft for draft in found if isinstance(draft, Draft)]
    rows = [record.value for record in head]
    check_probe(head[0].source, rows=rows, drafts=probed, options=options)
    reads: Iterator[_Read] = (_read(record, kind, options) for record in chain(head, stream))
    if options.redact is not None:
        reads = _redacted(reads, options.redact, options)
    return ParsedLog(
        format_name=kind,
        columns=list_columns(draft.fields for draft in probed) if probed else "",
        records=(
            _parsed(read, options, position) for position, read in enumerate(reads, first_position)
        ),
    )


def _kind(head: Sequence[Record], options: ReadOptions) -> LogKind:
    if options.is_mapped:
        if all(record.problem is not None for record in head):
            raise LogFormatError(f"{head[0].source!r} cannot be read: {head[0].problem}")
        return "mapped"
    return options.format_name or _recognise(head)


def _recognise(head: Sequence[Record]) -> FormatName:
    found = next((name for record in head if (name := classify(record.value))), None)
    if found is None:
        first = next((r for r in head if r.problem is None), head[0])
        what = first.problem or describe(first.value)
        raise LogFormatError(
            f"{first.source!r} is no log of a known format: its first record is {what!r}. "
            f"Known formats: {', '.join(FORMATS)}. Read any other with --map messages=COLUMN, or "
            "one message per row with --layout messages --group-by COLUMN."
        )
    return found


def _read(record: Record, kind: LogKind, options: ReadOptions) -> _Read:
    if record.problem is not None:
        return _Read(record=record, drafts=[record.problem])
    try:
        if kind == "mapped":
            return _Read(record=record, drafts=list(mapped_drafts(record.value, options)))
        return _Read(record=record, drafts=list(drafts(record.value, format_name=kind)))
    except LogFormatError as error:
        return _Read(record=record, drafts=[str(error)])


def _redacted(reads: Iterable[_Read], redact: Redact, options: ReadOptions) -> Iterator[_Read]:
    for batch in _batches(reads):
        whole = [draft for read in batch for draft in read.drafts if isinstance(draft, Draft)]
        found = iter(redact_drafts(redact, whole, keep=options.keep))
        for read in batch:
            yield _Read(
                record=read.record,
                drafts=[
                    draft if isinstance(draft, str) else next(found) or NOT_REDACTED
                    for draft in read.drafts
                ],
            )


def _batches(reads: Iterable[_Read]) -> Iterator[list[_Read]]:
    batch: list[_Read] = []
    chars = 0
    for read in reads:
        batch.append(read)
        chars += sum(_chars(draft) for draft in read.drafts)
        if len(batch) >= _REDACTED_RECORDS or chars >= _REDACTED_CHARS:
            yield batch
            batch, chars = [], 0
    if batch:
        yield batch


def _chars(draft: Draft | str) -> int:
    messages = draft.messages if isinstance(draft, Draft) else ()
    if not isinstance(messages, list | tuple):
        return 0
    contents = (item.get("content") for item in messages if isinstance(item, dict))
    return sum(len(content) for content in contents if isinstance(content, str))


def _parsed(read: _Read, options: ReadOptions, position: int) -> Parsed:
    rows: list[Row] = []
    rejects: list[Reject] = []
    build = _builder(options, position)
    for draft in read.drafts:
        try:
            rows.append(build(draft))
        except LogFormatError as error:
            is_part = isinstance(draft, Draft) and len(read.drafts) > 1
            where = f"{draft.conversation_id}: " if is_part and isinstance(draft, Draft) else ""
            rejects.append(_reject(read.record, f"{where}{error}", options.redact))
    return Parsed(rows=tuple(rows), rejects=tuple(rejects), absent=_absent(read, options.keep))


def _absent(read: _Read, keep: Sequence[str]) -> frozenset[str] | None:
    fields = [draft.fields for draft in read.drafts if isinstance(draft, Draft)]
    if not fields:
        return None
    return frozenset(name for name in keep if not any(has_column(each, name) for each in fields))


def _builder(options: ReadOptions, position: int) -> Callable[[Draft | str], Row]:
    def build(draft: Draft | str) -> Row:
        if isinstance(draft, str):
            raise LogFormatError(draft)
        if options.layout == "messages":
            return build_fragment(draft, options, position=position)
        return build_row(
            draft,
            scope_columns=options.scope_columns,
            keep=options.keep,
            zone=options.zone_of(draft.fields),
            roles=options.roles,
        )

    return build


def _reject(record: Record, reason: str, redact: Redact | None) -> Reject:
    return record.reject(reason) if redact is None else redact_reject(redact, record, reason)
