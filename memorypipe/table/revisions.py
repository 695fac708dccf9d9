"""New revisions made of old ones: what undo, restore and forget write. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.schema import table_schema
from memorypipe.table.records import Head, RunRecord
from memorypipe.table.rows import Stamp, assemble, closing_rows, own_vectors
from memorypipe.table.storage import ADDRESS
from memorypipe.table.times import revisions_expire_at
from memorypipe.table.transaction import Transaction

__all__ = ["BOOKKEEPING", "emptied", "replacing", "revised", "with_columns"]

BOOKKEEPING = (
    "revision",
    "is_current",
    "event",
    "valid_from",
    "valid_to",
    "run_id",
    "labels",
    "revision_expires_at",
)
"""Columns that tell of a revision and not of the memory: undo restores all the others."""

# What a tombstone does not keep; the hash of its text stays, and where it came from.
_CONTENT = ("context", "topics", "metadata", "payload", "expires_at", "rationale")


def revised(
    content: pa.Table,
    current: pa.Table,
    *,
    events: pa.Array,
    stamp: Stamp,
    vector_dim: int,
) -> pa.Table:
    """Make the next revision of memories, with content that is at hand.

    Args:
        content: What they say from now on; columns as from `Snapshot.locate`.
        current: Their current revisions, in the same order.
        events: Of the new revisions; a string each.
        stamp: Commit time, run and labels.
        vector_dim: Width of `vector`.

    Returns:
        The table's schema; all of `content` but `BOOKKEEPING`. `vector` is that of `content` where
        it is its caller's own; else it is null, and the commit makes it anew.
    """
    live = pc.and_(pc.invert(content["deleted"]), pc.equal(content["status"], "valid"))
    own = own_vectors(content)
    values: dict[str, Any] = {
        "revision": pc.add(current["revision"], pa.scalar(1, pa.int32())),
        "is_current": True,
        "event": events,
        "valid_from": stamp.moment,
        "valid_to": None,
        "run_id": stamp.run_id,
        "labels": None if stamp.labels is None else sorted(stamp.labels.items()),
        "revision_expires_at": None,
        "is_live": live,
        "search_text": pc.if_else(live, content["text"], pa.scalar(None, pa.string())),
        "vector": None if own is None else pc.if_else(live, own, pa.scalar(None, own.type)),
    }
    schema = table_schema(vector_dim)
    kept = {name: content[name] for name in schema.names if name not in values}
    return assemble(schema, content.num_rows, kept | values)


def emptied(rows: pa.Table, moment: datetime) -> pa.Table:
    """Take the content out of revisions, as a tombstone has none.

    Args:
        rows: Columns as from `Snapshot.locate`.
        moment: When they went, UTC.
    """
    values: dict[str, Any] = dict.fromkeys(_CONTENT)
    return with_columns(rows, values | {"text": "", "deleted": True, "updated_at": moment})


def with_columns(rows: pa.Table, values: Mapping[str, Any]) -> pa.Table:
    """Give rows other values in some columns: a column, or one value for all."""
    columns = {name: rows[name] for name in rows.column_names}
    return assemble(rows.schema, rows.num_rows, {**columns, **values})


def replacing(current: pa.Table, new: pa.Table, *, run: RunRecord, head: Head) -> Transaction:
    """Put new revisions in the place of the current ones.

    Args:
        current: As from `Snapshot.locate`, with `ADDRESS`.
        new: As from `revised`.
        run: Of the commit.
        head: Of the snapshot: how long it keeps what is replaced.
    """
    expires_at = revisions_expire_at(run.committed_at, head.settings.revision_ttl_days)
    closed = closing_rows(current, run.committed_at, head.vector_dim, expires_at)
    return Transaction(
        closed=current[ADDRESS].combine_chunks(), rows=pa.concat_tables([closed, new]), run=run
    )
