"""Several records of one conversation to one: a log may hold it at several stages of growth."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa

from memorypipe.ids import digest
from memorypipe.logs.conversations import MADE_NAME_PREFIX
from memorypipe.logs.messages import in_time_order

__all__ = ["merge_conversations"]


def merge_conversations(conversations: pa.Table) -> pa.Table:
    """Merge rows of the same conversation, whatever their order.

    Args:
        conversations: Rows with the columns of `memorypipe.schema.CONVERSATIONS`, and others.

    Returns:
        One row for each `scope_key` and `conversation_id`, sorted by them, in the same schema. It
        holds each message id once: those of the longest row, then what other rows have beside
        them; in order of time where all are dated. Other columns are those of the longest row.
        Where the log had no name for a conversation, equal names prove only an equal beginning:
        such rows are kept apart, but for those that another one continues.
    """
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in conversations.to_pylist():
        groups.setdefault((row["scope_key"], row["conversation_id"]), []).append(row)
    merged = [row for key in sorted(groups) for row in _merge(sorted(groups[key], key=_rank))]
    return pa.Table.from_pylist(merged, schema=conversations.schema)


def _merge(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    if rows[0]["conversation_id"].startswith(MADE_NAME_PREFIX):
        return _without_beginnings(rows)
    return [_united(rows)] if len(rows) > 1 else list(rows)


def _without_beginnings(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keep, of rows with the longest first, those that no earlier one begins with."""
    kept, beginnings = [], set[bytes]()
    for row in rows:
        extents = list(
            accumulate(_ids(row), lambda so_far, i: digest(so_far.hex(), i), initial=b"")
        )
        if extents[-1] not in beginnings:
            kept.append(row)
            beginnings.update(extents)
    return kept


def _united(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    messages: dict[str, Any] = {}
    for row in rows:
        for message in row["messages"]:
            messages.setdefault(message["id"], message)
    times = [row["event_time"] for row in rows if row["event_time"] is not None]
    return {
        **rows[0],
        "messages": in_time_order(list(messages.values())),
        "event_time": max(times, default=None),
    }


def _rank(row: Mapping[str, Any]) -> tuple[Any, ...]:
    # The longest first; the rest only makes the order independent of that of the rows.
    return -len(row["messages"]), _ids(row), repr(sorted(row.items()))


def _ids(row: Mapping[str, Any]) -> list[str]:
    return [message["id"] for message in row["messages"]]
