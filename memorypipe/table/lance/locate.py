"""Find rows of a Lance dataset by their keys: one pass over the key columns, no index, no join.

The dataset is cut into ranges of rows, which are passed over side by side.
"""

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.table.records import SYSTEM_TYPES
from memorypipe.table.rows import SCOPE_COPIES, scope_columns
from memorypipe.table.side_by_side import WORKERS, in_two, side_by_side
from memorypipe.table.storage import ADDRESS, without_nulls
from memorypipe.table.vectors import no_vectors

__all__ = ["locate"]

# Read in the pass over the keys; `scope` and its copies follow from `scope_key`.
_KEYS = ("memory_id", "text_hash", "is_live")
_DERIVED = ("scope", *SCOPE_COPIES)

_POSITION = "_position"

# Rows that are worth a worker to pass over them, and those of them that it has in hand at a time:
# 1 MB of keys, which goes through memory that was used before.
_PASS_ROWS = 1 << 17
_HAND_ROWS = 1 << 14

# Rows that are worth a worker to take them.
_TAKEN_ROWS = 1 << 12

# Vectors that are taken at a time.
_TAKEN_BYTES = 1 << 23

# Slots of the sieve: so small that it stays in the processor's cache, so many that of a hundred
# thousand wanted keys one row in twenty passes by chance.
_SLOT_BITS = 21
_WORD_BYTES = 8
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # spreads neighbours over the slots (Knuth)


def locate(
    dataset: Any,
    memory_ids: pa.Array,
    text_hashes: pa.Array,
    *,
    left_out: Collection[str],
    range_rows: int = _PASS_ROWS,
) -> pa.Table:
    """Find all revisions of some records and the live rows that say certain texts.

    Args:
        dataset: At one version.
        memory_ids: Strings.
        text_hashes: Strings.
        left_out: Columns that are not read.
        range_rows: Rows that are worth a worker to pass over them.

    Returns:
        As `memorypipe.table.storage.Snapshot.locate`.
    """
    ids, hashes = _Sieve(memory_ids), _Sieve(text_hashes)
    ranges = _ranges(dataset.count_rows(), 2 * WORKERS, range_rows)
    sifted = side_by_side([partial(_sifted, dataset, each, ids, hashes) for each in ranges])
    keys = pa.concat_tables(sifted)
    named, says = in_two(
        lambda: ids.holds(keys["memory_id"]),
        lambda: hashes.holds(keys["text_hash"]),
        rows=keys.num_rows,
    )
    hits = keys.filter(pc.or_(named, pc.and_(keys["is_live"], says)))
    parts = [hits.slice(*each) for each in _ranges(hits.num_rows, WORKERS, _TAKEN_ROWS)]
    rows = side_by_side([partial(_whole_rows, dataset, part, left_out) for part in parts])
    return without_nulls(pa.concat_tables(rows))


def _ranges(num_rows: int, most: int, least_rows: int) -> list[tuple[int, int]]:
    """Cut rows into ranges of the same size, as first row and number of rows: one at least."""
    size = max(-(-num_rows // most), least_rows)
    return [(start, size) for start in range(0, max(num_rows, 1), size)]


def _sifted(dataset: Any, rows: tuple[int, int], ids: "_Sieve", hashes: "_Sieve") -> pa.Table:
    """Keep the rows of a range that may be wanted."""
    passes = _passes(dataset, *rows)
    return pa.Table.from_batches([_sift(*each, ids, hashes) for each in passes])


def _passes(dataset: Any, start: int, num_rows: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Scan the key columns of a range, in order; with the number of rows before each batch."""
    scanner = dataset.scanner(
        columns=list(_KEYS),
        offset=start,
        limit=num_rows,
        with_row_address=True,
        scan_in_order=True,
        batch_size=_HAND_ROWS,
    )
    for batch in scanner.to_batches():
        yield start, batch
        start += batch.num_rows


def _sift(start: int, keys: pa.RecordBatch, ids: "_Sieve", hashes: "_Sieve") -> pa.RecordBatch:
    """Keep the rows that may be wanted, with their positions."""
    says = np.asarray(keys["is_live"]) & hashes.may_hold(keys["text_hash"])
    places = np.flatnonzero(ids.may_hold(keys["memory_id"]) | says)
    few = keys.take(pa.array(places))
    return few.append_column(_POSITION, pa.array(places + start))


class _Sieve:
    """Lets through the strings that may be wanted, at a fraction of what a look-up costs each.

    The last eight bytes choose a slot, which is open where a wanted string has the same slot.
    Ids and hashes end in hex digits as good as random.
    """

    def __init__(self, wanted: pa.Array) -> None:
        self._wanted = wanted
        self._open = np.zeros(1 << _SLOT_BITS, bool)
        slots, is_short = _slots(wanted)
        self._open[slots] = True
        self._none = not len(wanted)
        self._short = bool(is_short.any())

    def may_hold(self, strings: pa.Array) -> Any:
        """Tell which strings may be wanted, as numpy booleans."""
        if self._none:
            return np.zeros(len(strings), bool)
        slots, is_short = _slots(strings)
        return self._open[slots] | is_short

    def holds(self, strings: pa.ChunkedArray) -> pa.ChunkedArray:
        """Tell which strings are wanted."""
        return pc.is_in(strings, self._wanted, skip_nulls=True)


def _slots(strings: pa.Array) -> tuple[Any, Any]:
    """Give the slot of each string, and which strings are too short to have one (nulls are)."""
    _, offset_buffer, data = strings.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(strings) + 1, strings.offset * 4)
    is_short = np.diff(offsets) < _WORD_BYTES
    if data is None or data.size < _WORD_BYTES:
        return np.zeros(len(strings), np.intp), np.ones(len(strings), bool)
    # One word begins at every byte.
    words: Any = np.ndarray((data.size - _WORD_BYTES + 1,), np.uint64, buffer=data, strides=(1,))
    ends = np.maximum(offsets[1:] - _WORD_BYTES, 0)
    return (words[ends] * _MULTIPLIER) >> np.uint64(64 - _SLOT_BITS), is_short


def _whole_rows(dataset: Any, keys: pa.Table, left_out: Collection[str]) -> pa.Table:
    """Read the other columns of located rows."""
    schema = dataset.schema
    names = [name for name in schema.names if name not in {*left_out, *_KEYS, *_DERIVED}]
    # Of a list Lance takes an eighth of the time that it takes of an array.
    positions = keys[_POSITION].to_pylist()
    at_once = _vectors_at_once(schema)
    if "vector" not in names or len(positions) <= at_once:
        rows = dataset.take(positions, columns=names)
    else:
        rows = dataset.take(positions, columns=[name for name in names if name != "vector"])
        vectors = _vectors(dataset, positions, at_once)
        rows = rows.append_column(schema.field("vector"), vectors)
    is_system = pc.is_in(rows["record_type"], pa.array(SYSTEM_TYPES))
    if pc.any(is_system).as_py():
        is_row = pc.invert(is_system)
        rows, keys = rows.filter(is_row), keys.filter(is_row)
    columns = {name: rows[name] for name in names} | {name: keys[name] for name in _KEYS}
    columns |= _scopes(rows["scope_key"])
    kept = [field for field in schema if field.name in columns]
    located = pa.table([columns[field.name] for field in kept], schema=pa.schema(kept))
    return located.append_column(ADDRESS, keys["_rowaddr"])


def _vectors_at_once(schema: pa.Schema) -> int:
    width: int = schema.field("vector").type.list_size
    return max(_TAKEN_BYTES // (4 * width), 1)


def _vectors(dataset: Any, positions: list[int], size: int) -> pa.ChunkedArray:
    """Take vectors, some at a time: nulls are as heavy as they are, and do not stay."""
    kind = dataset.schema.field("vector").type
    chunks: list[pa.Array] = []
    for start in range(0, len(positions), size):
        taken = dataset.take(positions[start : start + size], columns=["vector"])["vector"]
        is_empty = taken.null_count == len(taken)
        chunks += (no_vectors(len(taken), kind.list_size) if is_empty else taken).chunks
    return pa.chunked_array(chunks, kind)


def _scopes(scope_keys: pa.ChunkedArray) -> dict[str, pa.Array]:
    """Make the columns of the scope from its key."""
    encoded = scope_keys.combine_chunks().dictionary_encode()
    scopes = (dict(orjson.loads(key)) for key in encoded.dictionary.to_pylist())
    return {name: column.take(encoded.indices) for name, column in scope_columns(scopes).items()}
