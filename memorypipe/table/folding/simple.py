"""The part of a batch that needs no fold: scopes whose actions have nothing to do with each other.

Nearly all of a large batch. What is decided here, column by column, is what the fold would decide
action by action; a scope in doubt is left to it.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.table.actions import Batch
from memorypipe.table.folding.changes import Changes
from memorypipe.table.rows import expired_by
from memorypipe.table.vectors import one_chunk

__all__ = ["Simple", "find_simple"]


@dataclass(frozen=True, kw_only=True)
class Simple:
    """What the scopes without doubt come to.

    Attributes:
        mask: Per action, whether its scope is one of them (numpy).
        changes: One per ADD, UPDATE and DELETE of these scopes.
        none: How many of their actions change nothing.
    """

    mask: Any
    changes: Changes
    none: int


def find_simple(batch: Batch, rows: pa.Table, base_us: int | None, now: datetime) -> Simple:
    """Find the scopes in which each action stands alone, and what these actions come to.

    There, every id is named once in the whole batch; an ADD has an id that is free and a text that
    nothing says, and that nothing in the batch says beside it; an UPDATE or DELETE has its target.

    Args:
        batch: The actions.
        rows: As from `Snapshot.locate`.
        base_us: As for `memorypipe.table.folding.fold.fold`, in microseconds since 1970.
        now: As there.
    """
    events, scopes = one_chunk(batch.actions["event"]), _scope_numbers(batch)
    is_add, is_none = _is(events, "ADD"), _is(events, "NONE")
    names = pc.if_else(pa.array(is_none), None, one_chunk(batch.actions["memory_id"]))
    targets, is_target = _targets(batch, names, rows, base_us)
    used = np.asarray(pc.is_in(names, one_chunk(rows["memory_id"]), skip_nulls=True))
    doubt = _repeated(names) | np.where(is_add, used, ~is_target & ~is_none)
    saying = rows.filter(pc.and_not(rows["is_live"], expired_by(rows, now)))
    doubt |= is_add & _said_in_scope(batch, scopes, saying)
    doubtful = np.zeros(len(batch.scopes), bool)
    doubtful[scopes[doubt]] = True
    mask = ~doubtful[scopes]
    changing = mask & ~is_none
    last = pa.array(np.flatnonzero(changing))
    changes = Changes(
        event=events.take(last),
        memory_id=names.take(last),
        base=pa.array(targets[changing], mask=is_add[changing]),
        last=last,
        steps={},
    )
    return Simple(mask=mask, changes=changes, none=int(np.sum(mask & is_none)))


def _scope_numbers(batch: Batch) -> Any:
    """Number the scopes of the actions, which are sorted by scope."""
    keys = one_chunk(batch.actions["scope_key"])
    if not len(keys):
        return np.empty(0, np.int64)
    begins = np.asarray(pc.not_equal(keys[1:], keys[:-1]))
    return np.concatenate([[0], np.cumsum(begins)])


def _targets(batch: Batch, names: pa.Array, rows: pa.Table, base_us: int | None) -> tuple[Any, Any]:
    """Find the current row of each name; whether an UPDATE or DELETE may go to it."""
    current = np.flatnonzero(np.asarray(rows["is_current"]))
    current_ids = one_chunk(rows["memory_id"].take(pa.array(current)))
    found = pc.index_in(names, current_ids, skip_nulls=True)
    is_found = np.asarray(pc.is_valid(found))
    places = current[np.asarray(found.drop_null())]
    base = rows.select(["record_type", "scope_key", "deleted", "valid_from"]).take(pa.array(places))
    wanted = batch.actions.select(["record_type", "scope_key"]).filter(pa.array(is_found))
    good = ~np.asarray(base["deleted"])
    for name in wanted.column_names:
        good &= np.asarray(pc.equal(base[name], wanted[name]))
    if base_us is not None:
        good &= np.asarray(base["valid_from"].cast(pa.int64())) <= base_us
    targets, is_target = np.zeros(len(names), np.int64), np.zeros(len(names), bool)
    targets[is_found], is_target[is_found] = places, good
    return targets, is_target


def _said_in_scope(batch: Batch, scopes: Any, live: pa.Table) -> Any:
    """Tell of which texts a live row of the scope, or another action in it, says the same."""
    encoded = batch.text_hash.dictionary_encode()
    numbers = np.asarray(pc.fill_null(encoded.indices, -1))
    # One number per scope and text.
    sayings = scopes * len(encoded.dictionary) + numbers
    counts = np.unique(sayings[numbers >= 0], return_counts=True)
    said = np.isin(sayings, counts[0][counts[1] > 1])
    texts = pc.index_in(one_chunk(live["text_hash"]), encoded.dictionary, skip_nulls=True)
    places = pc.index_in(one_chunk(live["scope_key"]), pa.array(list(batch.scopes), pa.string()))
    both = np.asarray(pc.and_(pc.is_valid(texts), pc.is_valid(places)))
    held = np.asarray(pc.fill_null(places, 0)) * len(encoded.dictionary)
    held = (held + np.asarray(pc.fill_null(texts, 0)))[both]
    return (said | np.isin(sayings, held)) & (numbers >= 0)


def _repeated(names: pa.Array) -> Any:
    encoded = names.dictionary_encode()
    numbers = np.asarray(pc.fill_null(encoded.indices, -1))
    counts = np.bincount(numbers[numbers >= 0], minlength=len(encoded.dictionary) + 1)
    return (numbers >= 0) & (counts[numbers] > 1)


def _is(events: pa.Array, event: str) -> Any:
    return np.asarray(pc.equal(events, event))
