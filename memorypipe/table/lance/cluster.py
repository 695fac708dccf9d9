"""Cluster a Lance dataset: the live rows of a scope side by side, history behind them.

The table becomes a few sorted fragments; a look-up of one scope then reads few pages of each.
Fragments are sorted in groups that fit into memory, one transaction per group; one that is larger
is a group of its own, and is read as many rows at a time as fit. Fragments that are sorted and
large stay as they are, so doing it again costs little.
"""

from collections.abc import Iterator
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.table.lance.dataset import commit_operation, reading, write
from memorypipe.table.storage import RaceLostError

__all__ = ["SCOPE_INDEX", "cluster", "groups", "index_scopes"]

SCOPE_INDEX = "scope_key_idx"

# Rows of a group, as they lie in memory.
_ROOM_BYTES = 1 << 29
_ROW_BYTES = 1 << 10  # without the vector
_MIN_ROWS = 1 << 12

# A share of deleted rows that makes a sorted fragment worth writing anew.
_DELETED = 0.1

_SORT_KEYS = [("is_live", "descending"), ("scope_key", "ascending"), ("created_at", "ascending")]


def groups(dataset: Any, head_fragment: int, vector_dim: int) -> list[list[int]]:
    """Choose the fragments to write anew, by their numbers, in groups that fit into memory.

    Args:
        dataset: At one version.
        head_fragment: Left as it is.
        vector_dim: Width of the vectors.
    """
    most = _most_rows(vector_dim, _ROOM_BYTES)
    chosen: list[list[int]] = []
    room = 0
    for fragment in dataset.get_fragments():
        if fragment.fragment_id == head_fragment:
            continue
        rows = fragment.count_rows()
        if rows >= most // 2 and _is_sorted(fragment):
            continue
        if not chosen or rows > room:
            chosen.append([])
            room = most
        chosen[-1].append(fragment.fragment_id)
        room -= rows
    return [
        group
        for group in chosen
        if len(group) > 1 or not _is_sorted(dataset.get_fragment(group[0]))
    ]


def _most_rows(vector_dim: int, room_bytes: int) -> int:
    return max(room_bytes // (_ROW_BYTES + 4 * vector_dim), _MIN_ROWS)


def _is_sorted(fragment: Any) -> bool:
    """Tell whether a fragment is as `cluster` would leave it, but for a few deleted rows."""
    if fragment.num_deletions > _DELETED * fragment.physical_rows:
        return False
    keys = fragment.to_table(columns=["is_live", "scope_key"])
    live = np.asarray(keys["is_live"])
    if np.any(~live[:-1] & live[1:]):
        return False
    scopes = keys["scope_key"].filter(pa.array(live)).combine_chunks()
    return not pc.any(pc.less(scopes[1:], scopes[:-1])).as_py()


def cluster(dataset: Any, group: list[int], *, room_bytes: int = _ROOM_BYTES) -> None:
    """Write the fragments of a group anew, sorted, in one transaction.

    A commit that closes a row of these fragments meanwhile wins over it.

    Args:
        dataset: At one version.
        group: Numbers of fragments.
        room_bytes: Of the rows that are read at a time.

    Raises:
        RaceLostError: Where a commit, or another process's maintenance, came first.
    """
    fragments = [dataset.get_fragment(number) for number in group]
    if None in fragments:
        raise RaceLostError(f"Fragments of {dataset.uri!r} were merged meanwhile.")
    keys = [key for key, _ in _SORT_KEYS]
    with reading(dataset.uri):
        rows = pa.concat_tables([each.to_table(columns=keys) for each in fragments])
    order = pc.sort_indices(rows.combine_chunks(), sort_keys=_SORT_KEYS)
    # While they are brought into one piece they are there twice.
    most = _most_rows(dataset.schema.field("vector").type.list_size, room_bytes // 2)
    batches = _in_order(dataset, _positions(dataset, group)[np.asarray(order)], most)
    reader = pa.RecordBatchReader.from_batches(dataset.schema, batches)
    operation = lance.LanceOperation.Update(
        removed_fragment_ids=group,
        updated_fragments=[],
        new_fragments=write(dataset.uri, reader) if len(order) else [],
    )
    commit_operation(dataset, operation)


def _positions(dataset: Any, group: list[int]) -> Any:
    """Give the place in the dataset of each row of some fragments."""
    found, start = {}, 0
    for fragment in dataset.get_fragments():
        rows = fragment.count_rows()
        found[fragment.fragment_id] = np.arange(start, start + rows)
        start += rows
    return np.concatenate([found[number] for number in group])


def _in_order(dataset: Any, positions: Any, most: int) -> Iterator[pa.RecordBatch]:
    """Read rows in a new order: so many at a time, given a few at a time."""
    for start in range(0, len(positions), most):
        wanted = positions[start : start + most]
        ascending = np.sort(wanted)
        # Taking from many chunks looks through all of them, each time.
        rows = dataset.take(ascending.tolist()).combine_chunks()
        places = np.searchsorted(ascending, wanted)
        for first in range(0, len(places), _MIN_ROWS):
            few = rows.take(pa.array(places[first : first + _MIN_ROWS]))
            yield from few.combine_chunks().to_batches()


def index_scopes(dataset: Any, *, anew: bool = False) -> None:
    """Make the index of scope keys, or bring it up to date.

    Rows that are not in it are found too, at the price of a scan of their fragments.

    Args:
        dataset: At its newest version.
        anew: Whether an index that is up to date is built again.
    """
    if not anew and _rows_outside_index(dataset) <= 1:
        return  # the head row, at most
    dataset.create_scalar_index("scope_key", "BTREE", name=SCOPE_INDEX, replace=True)


def _rows_outside_index(dataset: Any) -> int:
    if all(index.name != SCOPE_INDEX for index in dataset.describe_indices()):
        return int(dataset.count_rows())
    return int(dataset.stats.index_stats(SCOPE_INDEX)["num_unindexed_rows"])
