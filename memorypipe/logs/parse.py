"""Records to rows: recognise the format, read what can be read, keep account of the rest. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from memorypipe.errors import InvalidArgumentError, LogFormatError
from memorypipe.logs.conversations import CONSTANT_MARK, Draft, Row, build_row
from memorypipe.logs.formats import FORMATS, FormatName, classify, drafts
from memorypipe.logs.records import Record, Reject, describe

__all__ = ["Parsed", "ParsedLog", "parse_log"]

# So many records decide which format a log has and whether it names its users.
_PROBED_RECORDS = 20


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """What became of one record: rows and rejects, and counts as `conversations.Row` has them."""

    rows: tuple[dict[str, Any], ...]
    rejects: tuple[Reject, ...]
    counts: Counter[str]


@dataclass(frozen=True, kw_only=True)
class ParsedLog:
    """A log that was recognised, to be iterated once; nothing but its beginning is read yet."""

    format_name: FormatName
    records: Iterator[Parsed]


def parse_log(
    records: Iterable[Record],
    *,
    format_name: FormatName | None,
    scope_columns: Mapping[str, str] | None,
    keep: Sequence[str] = (),
) -> ParsedLog | None:
    """Recognise a log by its first records and read it.

    Args:
        records: Of one file or table.
        format_name: None: the format of the first record that has a known shape.
        scope_columns: As `memorypipe.logs.conversations.check_scope_columns`.
        keep: As `memorypipe.logs.conversations.build_row`.

    Returns:
        The log; None where there are no records at all.

    Raises:
        LogFormatError: None of the first 20 records has a known shape.
        InvalidArgumentError: None of the first 20 records has a scope.
    """
    stream = iter(records)
    head = list(islice(stream, _PROBED_RECORDS))
    if not head:
        return None
    found = format_name or _recognise(head)
    probed = list(_probe(head, found))
    if probed and not any(_has_scope(draft, scope_columns) for draft in probed):
        raise InvalidArgumentError(_no_scope(head[0].source, probed[0], scope_columns))
    return ParsedLog(
        format_name=found,
        records=(_parse(record, found, scope_columns, keep) for record in chain(head, stream)),
    )


def _recognise(head: Sequence[Record]) -> FormatName:
    found = next((name for record in head if (name := classify(record.value))), None)
    if found is None:
        first = next((r for r in head if r.problem is None), head[0])
        what = first.problem or describe(first.value)
        raise LogFormatError(
            f"{first.source!r} is no log of a known format: its first record is {what!r}. "
            f"Known formats: {', '.join(FORMATS)}."
        )
    return found


def _probe(head: Sequence[Record], format_name: FormatName) -> Iterator[Draft]:
    for record in head:
        try:
            yield from drafts(record.value, format_name=format_name)
        except LogFormatError:
            continue  # reported when the record is read


def _has_scope(draft: Draft, scope_columns: Mapping[str, str] | None) -> bool:
    if scope_columns is None:
        return draft.default_scope is not None
    return all(
        column.startswith(CONSTANT_MARK) or column in draft.fields
        for column in scope_columns.values()
    )


def _no_scope(source: str, draft: Draft, scope_columns: Mapping[str, str] | None) -> str:
    fields = ", ".join(repr(str(name)[:40]) for name in sorted(draft.fields)) or "none"
    wanted = "user_id or user" if scope_columns is None else sorted(scope_columns.values())
    return (
        f"{source!r} names no user: none of its first records has {wanted}. Say where the scope "
        f"is with --scope user_id=COLUMN, or for the whole log with --scope user_id==VALUE "
        f"(in Python scope={{'user_id': 'COLUMN'}} or {{'user_id': '=VALUE'}}); fields: {fields}."
    )


def _parse(
    record: Record,
    format_name: FormatName,
    scope_columns: Mapping[str, str] | None,
    keep: Sequence[str],
) -> Parsed:
    rows: list[dict[str, Any]] = []
    rejects: list[Reject] = []
    counts: Counter[str] = Counter()
    for outcome in _outcomes(record, format_name, scope_columns, keep):
        if isinstance(outcome, Reject):
            rejects.append(outcome)
            continue
        counts.update(outcome.counts)
        if outcome.value is not None:
            rows.append(outcome.value)
    return Parsed(rows=tuple(rows), rejects=tuple(rejects), counts=counts)


def _outcomes(
    record: Record,
    format_name: FormatName,
    scope_columns: Mapping[str, str] | None,
    keep: Sequence[str],
) -> Iterator[Row | Reject]:
    try:
        found = _record_drafts(record, format_name)
    except LogFormatError as error:
        yield record.reject(str(error))
        return
    for draft in found:
        try:
            yield build_row(draft, scope_columns=scope_columns, keep=keep)
        except LogFormatError as error:
            where = f"{draft.conversation_id}: " if len(found) > 1 else ""
            yield record.reject(f"{where}{error}")


def _record_drafts(record: Record, format_name: FormatName) -> list[Draft]:
    if record.problem is not None:
        raise LogFormatError(record.problem)
    return list(drafts(record.value, format_name=format_name))
