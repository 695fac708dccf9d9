"""Redaction of texts before anything else sees them, a batch at a time. Pure."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeAlias

from memorypipe.errors import LogFormatError
from memorypipe.logs.conversations import Draft, kept_values
from memorypipe.logs.messages import content_text
from memorypipe.logs.records import MAX_EXCERPT_CHARS, Record, Reject
from memorypipe.text import clean

__all__ = ["NOT_REDACTED", "Redact", "redact_drafts", "redact_reject", "redact_texts"]

# Why a record is rejected whose redaction fails; the function's own words may hold the text.
NOT_REDACTED = "It cannot be redacted, so nothing of it is used."

# Gives for each text of a batch the text that may be seen, in the same order.
Redact: TypeAlias = Callable[[list[str]], Sequence[str]]


def redact_texts(redact: Redact, rows: Sequence[Sequence[str]]) -> list[list[str] | None]:
    """Redact the texts of many rows with one call.

    Args:
        redact: The caller's function.
        rows: The texts of each row.

    Returns:
        For each row its texts as they may be seen; None where they could not be redacted. Where
        the one call fails, each row has a call of its own, so that one row costs no other.

    Example:
        >>> redact_texts(lambda texts: [text.replace("Ada", "[name]") for text in texts],
        ...              [["I am Ada."], []])
        [['I am [name].'], []]
    """
    together = _redacted(redact, [text for row in rows for text in row])
    if together is None:
        return [_redacted(redact, row) for row in rows]
    texts = iter(together)
    return [list(islice(texts, len(row))) for row in rows]


def _redacted(redact: Redact, texts: Sequence[str]) -> list[str] | None:
    if not texts:
        return []
    try:
        found = redact(list(texts))
        # A string is a sequence of strings, too.
        redacted = None if isinstance(found, str) else list(found)
    except Exception:  # noqa: BLE001  # whatever the caller's function raises, the row fails
        return None
    if redacted is None or len(redacted) != len(texts):
        return None
    return redacted if all(isinstance(text, str) for text in redacted) else None


def redact_drafts(
    redact: Redact, drafts: Sequence[Draft], *, keep: Sequence[str] = ()
) -> list[Draft | None]:
    """Redact what drafts say: contents and names of messages, and fields to carry along.

    Scope, ids and roles stay as they are: what belongs together is told by them.

    Args:
        redact: The caller's function.
        drafts: As formats give them.
        keep: Names of the fields to carry along; other fields go nowhere.

    Returns:
        The drafts; None where one could not be redacted. What is no text in the place of one is
        left as it is: such a message is refused when it is read.
    """
    found = redact_texts(redact, [_texts(draft, keep) for draft in drafts])
    return [
        None if texts is None else _with_texts(draft, keep, texts)
        for draft, texts in zip(drafts, found, strict=True)
    ]


def _texts(draft: Draft, keep: Sequence[str]) -> list[str]:
    kept = (value for value in kept_values(draft.fields, keep).values() if value is not None)
    return [*kept, *(text for item in _items(draft) for text in _message_texts(item).values())]


def _with_texts(draft: Draft, keep: Sequence[str], texts: Sequence[str]) -> Draft:
    """Put redacted texts where `_texts` found them."""
    rest = iter(texts)
    kept = {
        column: next(rest)
        for column, value in kept_values(draft.fields, keep).items()
        if value is not None
    }
    messages = [
        {**item, **{part: next(rest) for part in found}} if found else item
        for item, found in ((item, _message_texts(item)) for item in _items(draft))
    ]
    return replace(draft, fields={**draft.fields, **kept}, messages=messages or draft.messages)


def _items(draft: Draft) -> Sequence[Any]:
    messages = draft.messages
    return messages if isinstance(messages, list | tuple) else ()


def _message_texts(item: Any) -> dict[str, str]:
    if not isinstance(item, Mapping):
        return {}
    try:
        texts = {"content": content_text(item.get("content"))}
    except LogFormatError:
        return {}
    if isinstance(item.get("name"), str):
        texts["name"] = item["name"]
    return {part: clean(text)[0] for part, text in texts.items()}


def redact_reject(redact: Redact, record: Record, reason: str) -> Reject:
    """Say why nothing can be made of a record, with nothing in it that is not redacted.

    Redacted first and cut then: a cut could hide from the function what it looks for.
    """
    texts = redact_texts(redact, [[reason, _whole_text(record)]])[0]
    if texts is None:
        reason, excerpt = NOT_REDACTED, ""
    else:
        reason, excerpt = texts
    return Reject(
        source=record.source,
        line=record.line,
        reason=reason,
        excerpt=clean(excerpt)[0].strip()[:MAX_EXCERPT_CHARS],
    )


def _whole_text(record: Record) -> str:
    """Give the text of a record; none where a function for text would not see what is there."""
    if record.raw is None:
        return json.dumps(record.value, ensure_ascii=False, default=str)
    text = record.raw.decode(errors="replace")
    is_text = "\x00" not in text and "\ufffd" not in text
    return text if is_text else ""
