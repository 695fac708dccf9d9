"""Which actions of a plan build on others. Pure, over whole columns.

An UPDATE or DELETE builds on what the plan did to its memory before; and an action that came out as
it did because of another memory (`rests_on`) builds on what the plan did to that one before.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["built_on"]


def built_on(actions: pa.Table, dropped: Any) -> Any:
    """Find the actions that cannot stay without the ones that are dropped.

    An ADD builds on nothing: where its text is there already, the commit makes nothing of it.

    Args:
        actions: Schema `memorypipe.schema.PLAN_ACTIONS`, in any order.
        dropped: bool per action (numpy).

    Returns:
        bool per action (numpy), without the dropped ones themselves.
    """
    sources, targets = _edges(actions)
    gone = dropped.copy()
    frontier = np.flatnonzero(dropped)
    while len(frontier):
        reached = np.unique(_followers(sources, targets, frontier))
        frontier = reached[~gone[reached]]
        gone[frontier] = True
    return gone & ~dropped


def _followers(sources: Any, targets: Any, places: Any) -> Any:
    """Give the targets of all edges from these places; edges are sorted by their source."""
    starts = np.searchsorted(sources, places, side="left")
    counts = np.searchsorted(sources, places, side="right") - starts
    # The places of runs of edges, one run after the other.
    ends = np.cumsum(counts)
    within = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
    return targets[np.repeat(starts, counts) + within]


def _edges(actions: pa.Table) -> tuple[Any, Any]:
    """Give which action (source) another one (target) builds on, sorted by source."""
    order = _in_order(actions)
    own, other = _memories(actions.select(["scope_key", "memory_id", "rests_on"]), order)
    event = actions["event"].take(pa.array(order))
    is_change = np.asarray(pc.is_in(event, pa.array(["UPDATE", "DELETE"])))
    writes = own >= 0
    count = len(order)
    # One number per memory and step: the last writer before a step is found by bisection.
    writers = np.sort(own[writes] * count + np.flatnonzero(writes))
    pairs = []
    for memory, wanted in ((own, is_change & writes), (other, other >= 0)):
        steps = np.flatnonzero(wanted)
        before = np.searchsorted(writers, memory[steps] * count + steps, side="left") - 1
        last = writers[np.maximum(before, 0)] if len(writers) else np.zeros(len(steps), np.int64)
        is_found = (before >= 0) & (last // max(count, 1) == memory[steps])
        pairs.append((order[last[is_found] % max(count, 1)], order[steps[is_found]]))
    sources, targets = (np.concatenate(each) for each in zip(*pairs, strict=True))
    by_source = np.argsort(sources, kind="stable")
    return sources[by_source], targets[by_source]


def _in_order(actions: pa.Table) -> Any:
    """Give the places of the actions, scope by scope, in the order of their steps."""
    scopes = actions["scope_key"].combine_chunks().dictionary_encode().indices
    return np.lexsort((np.asarray(actions["seq"]), np.asarray(scopes)))


def _memories(actions: pa.Table, order: Any) -> tuple[Any, Any]:
    """Number the memories that actions change and rest on, in this order; -1 for none."""
    scopes = np.asarray(actions["scope_key"].combine_chunks().dictionary_encode().indices)
    names = pa.chunked_array(
        [*actions["memory_id"].chunks, *actions["rests_on"].chunks], pa.string()
    )
    encoded = names.combine_chunks().dictionary_encode()
    numbers = np.asarray(encoded.indices.fill_null(-1)).astype(np.int64)
    own, other = numbers[: len(order)][order], numbers[len(order) :][order]
    # The same id in two scopes is two memories.
    base = scopes[order].astype(np.int64) * max(len(encoded.dictionary), 1)
    both = (np.where(each < 0, -1, base + each) for each in (own, other))
    distinct, dense = np.unique(np.concatenate(list(both)), return_inverse=True)
    dense = dense - int(len(distinct) > 0 and distinct[0] == -1)
    return dense[: len(order)], dense[len(order) :]
