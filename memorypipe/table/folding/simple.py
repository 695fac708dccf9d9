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
from memorypipe.table.side_by_side import in_two
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
    named, said = in_two(
        lambda: _look_up(names, rows),
        lambda: _said_in_scope(batch, scopes, rows, now),
        rows=len(names) + rows.num_rows,
    )
    is_target = _are_targets(batch, named.current, rows, base_us)
    doubt = named.repeated | np.where(is_add, named.used | said, ~is_target & ~is_none)
    doubtful = np.zeros(len(batch.scopes), bool)
    doubtful[scopes[doubt]] = True
    mask = ~doubtful[scopes]
    changing = mask & ~is_none
    last = pa.array(np.flatnonzero(changing))
    changes = Changes(
        event=events.take(last),
        memory_id=names.take(last),
        base=pa.array(named.current[changing], mask=is_add[changing]),
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


@dataclass(frozen=True, kw_only=True)
class _Named:
    """What there is of the ids that actions name, action by action (numpy).

    Attributes:
        repeated: Whether another action names the same.
        used: Whether a row has it.
        current: Number of the first current row that has it; -1: none.
    """

    repeated: Any
    used: Any
    current: Any


def _look_up(names: pa.Array, rows: pa.Table) -> _Named:
    """Look ids up, each once; a null is no id."""
    encoded = names.dictionary_encode()
    none = len(encoded.dictionary)
    numbers = np.asarray(pc.fill_null(encoded.indices, none))
    found = pc.index_in(one_chunk(rows["memory_id"]), encoded.dictionary, skip_nulls=True)
    row_numbers = np.asarray(pc.fill_null(found, none))
    times, used = np.bincount(numbers, minlength=none + 1), np.zeros(none + 1, bool)
    used[row_numbers] = True
    current = np.full(none + 1, -1)
    # Of several rows the first counts: it is written last.
    places = np.flatnonzero(np.asarray(rows["is_current"]))[::-1]
    current[row_numbers[places]] = places
    times[none], used[none], current[none] = 0, False, -1
    return _Named(repeated=times[numbers] > 1, used=used[numbers], current=current[numbers])


def _are_targets(batch: Batch, current: Any, rows: pa.Table, base_us: int | None) -> Any:
    """Tell which actions, if they are no ADDs, may go to the current row of their id."""
    is_target = current >= 0
    places, wanted = pa.array(current[is_target]), pa.array(is_target)
    base = rows.select(["record_type", "scope_key", "deleted", "valid_from"]).take(places)
    good = ~np.asarray(base["deleted"])
    for name in ("record_type", "scope_key"):
        good &= np.asarray(pc.equal(base[name], batch.actions[name].filter(wanted)))
    if base_us is not None:
        good &= np.asarray(base["valid_from"].cast(pa.int64())) <= base_us
    is_target[is_target] = good
    return is_target


def _said_in_scope(batch: Batch, scopes: Any, rows: pa.Table, now: datetime) -> Any:
    """Tell of which texts a live row of the scope, or another action in it, says the same."""
    is_saying = pc.and_not(rows["is_live"], expired_by(rows, now))
    live = rows.select(["text_hash", "scope_key"]).filter(is_saying)
    encoded = batch.text_hash.dictionary_encode()
    numbers = np.asarray(pc.fill_null(encoded.indices, -1))
    # One number per scope and text.
    sayings = scopes * len(encoded.dictionary) + numbers
    # Nearly every text is said once.
    times = np.bincount(numbers[numbers >= 0], minlength=len(encoded.dictionary) + 1)
    counts = np.unique(sayings[times[numbers] > 1], return_counts=True)
    said = np.isin(sayings, counts[0][counts[1] > 1])
    texts = pc.index_in(one_chunk(live["text_hash"]), encoded.dictionary, skip_nulls=True)
    places = pc.index_in(one_chunk(live["scope_key"]), pa.array(list(batch.scopes), pa.string()))
    both = np.asarray(pc.and_(pc.is_valid(texts), pc.is_valid(places)))
    held = np.asarray(pc.fill_null(places, 0)) * len(encoded.dictionary)
    held = (held + np.asarray(pc.fill_null(texts, 0)))[both]
    return (said | np.isin(sayings, held)) & (numbers >= 0)


def _is(events: pa.Array, event: str) -> Any:
    return np.asarray(pc.equal(events, event))
