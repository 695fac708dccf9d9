"""Fold a batch of actions into at most one change per memory, against what the table holds.

Pure: the table's rows come in as Arrow, the decisions go out as row numbers into them.
"""

from dataclasses import replace
from datetime import datetime
from itertools import groupby

import numpy as np
import pyarrow as pa

from memorypipe.schema import TIME
from memorypipe.table.actions import Batch
from memorypipe.table.folding.changes import Change, Changes, Folded
from memorypipe.table.folding.index import Key, Known, Steps, index_known, microseconds
from memorypipe.table.folding.scope import ScopeFold
from memorypipe.table.folding.simple import find_simple
from memorypipe.table.vectors import one_chunk

__all__ = ["fold"]


def fold(batch: Batch, known: Known, *, now: datetime, base_time: datetime | None = None) -> Folded:
    """Fold a batch, scope by scope, in the order of `seq`.

    ADD then UPDATE is an ADD, ADD then DELETE is nothing, UPDATE then DELETE is a DELETE. An ADD
    of what a live memory of the scope says already is nothing, and what follows under its id goes
    to that memory. A scope with one conflict gives no change at all.

    Args:
        batch: The actions.
        known: What the table holds about them.
        now: Commit time (UTC): what has expired by then says nothing.
        base_time: Commit time that the actions were decided at: an UPDATE or DELETE of a memory
            that changed later is a conflict. None checks only that the memory is there.
    """
    base_us = None if base_time is None else microseconds(pa.scalar(base_time, TIME)).as_py()
    simple = find_simple(batch, known.rows, base_us, now)
    if simple.mask.all():
        return Folded(changes=simple.changes, none=simple.none)
    steps = Steps.of(batch, np.flatnonzero(~simple.mask), now)
    types = one_chunk(batch.actions["record_type"]).take(simple.changes.last)
    index = index_known(known, simple.changes, types, steps, now)
    # Ids that other scopes of the batch have, or were given.
    names = (types.to_pylist(), simple.changes.memory_id.to_pylist())
    taken: set[Key] = set(zip(*names, strict=True))
    folded, changes = Folded(none=simple.none), list[Change]()
    for scope_key, places in groupby(range(len(steps.number)), steps.scope_key.__getitem__):
        scope = ScopeFold(steps, index, scope_key, base_us, taken)
        for place in places:
            scope.take(place)
        scope.finish(folded, changes)
    numbered = [
        replace(
            change,
            base=None if change.base is None else int(index.numbers[change.base]),
            steps=[steps.number[place] for place in change.steps],
        )
        for change in changes
    ]
    folded.changes = simple.changes.joined(Changes.of(numbered))
    return folded
