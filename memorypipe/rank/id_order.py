"""Rows by scope, and those of a scope by id, without a Python string per row."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["places_by_scope"]

_KEY_BYTES = 8


def places_by_scope(
    scope_keys: pa.ChunkedArray, memory_ids: pa.ChunkedArray
) -> dict[str, NDArray[np.int64]]:
    """Group rows by scope, each group in the order of the ids.

    Args:
        scope_keys: Strings.
        memory_ids: Strings, one per row.

    Returns:
        Scope key to row numbers.

    Example:
        >>> keys, ids = pa.chunked_array([["a", "b", "a"]]), pa.chunked_array([["m2", "m3", "m1"]])
        >>> {key: places.tolist() for key, places in places_by_scope(keys, ids).items()}
        {'a': [2, 0], 'b': [1]}
    """
    if not len(scope_keys):
        return {}
    encoded = scope_keys.combine_chunks().dictionary_encode()
    codes, names = np.asarray(encoded.indices), memory_ids.combine_chunks()
    keys = _sort_keys(names)
    order = np.lexsort((keys, codes)).astype(np.int64)
    begins = np.diff(codes[order]) != 0
    _sort_ties(order, ~begins & (np.diff(keys[order]) == 0), names)
    groups = np.split(order, np.flatnonzero(begins) + 1)
    return {encoded.dictionary[int(codes[group[0]])].as_py(): group for group in groups}


def _sort_keys(names: pa.StringArray) -> NDArray[np.uint64]:
    """Give numbers that sort as the strings do, but may be equal where the strings are not.

    They are the bytes behind what all strings begin with.
    """
    _, offset_buffer, buffer = names.buffers()
    data = np.frombuffer(buffer if buffer is not None and buffer.size else b"\0", np.uint8)
    offsets = np.frombuffer(offset_buffer, np.int32, len(names) + 1, names.offset * 4)
    starts = offsets[:-1].astype(np.int64) + _shared_bytes(names)
    places: Any = starts[:, None] + np.arange(_KEY_BYTES)
    inside = places < offsets[1:, None]
    found = np.where(inside, data[np.minimum(places, len(data) - 1)], 0).astype(np.uint8)
    return found.view(">u8").ravel().astype(np.uint64)


def _shared_bytes(names: pa.StringArray) -> int:
    """Count the bytes that all strings begin with: those of the first and the last in order."""
    ends = pc.min_max(names).as_py()
    first, last = ends["min"].encode(), ends["max"].encode()
    pairs = zip(first, last, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(first), len(last)))


def _sort_ties(order: NDArray[np.int64], ties: NDArray[np.bool_], names: pa.StringArray) -> None:
    """Put rows in order whose keys are equal; a tie is with the next row."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], ties, [False]])))
    for start, stop in edges.reshape(-1, 2):
        rows = order[start : stop + 1]
        said = names.take(pa.array(rows)).to_pylist()
        order[start : stop + 1] = [row for _, row in sorted(zip(said, rows.tolist(), strict=True))]
