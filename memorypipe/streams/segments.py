"""Segments: sorted files that are written once, mapped into memory, and merged when they are many.

Events are sorted by stream and number, so that those of a stream are found by two searches in
each segment. Keys of events are sorted too: whether one is known costs a search in each segment,
not a scan. Segments of about one size are merged, so there are few of them however many events
there are.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import compress
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import numpy as np
import pyarrow as pa

from memorypipe.logs.known import KeyArray, contains

__all__ = [
    "EVENTS",
    "OPERATIONS",
    "KeySegment",
    "Named",
    "RowSegment",
    "merged_sizes",
    "open_keys",
    "open_rows",
    "write_keys",
    "write_rows",
]

EVENTS = pa.schema(
    [
        pa.field("stream", pa.binary(16), nullable=False),
        pa.field("number", pa.int64(), nullable=False),  # grows with arrival
        pa.field("message_id", pa.string(), nullable=False),
        pa.field("event_us", pa.int64()),  # microseconds since 1970; null: not said
        pa.field("ingested_us", pa.int64(), nullable=False),
        pa.field("role", pa.string(), nullable=False),
        pa.field("content", pa.string(), nullable=False),
    ]
)
"""One row per event, sorted by `stream`, `number`."""

OPERATIONS = pa.schema(
    [
        pa.field("stream", pa.binary(16), nullable=False),
        pa.field("number", pa.int64(), nullable=False),
        pa.field("rest", pa.string(), nullable=False),  # JSON object: how it ended
    ]
)
"""One row per operation that has ended, sorted by `stream`, `number`."""

_KEY_BYTES = 16
# So many segments of about one size become one.
_FAN_IN = 8
# One of so many bytes stays as it is: merging it again would cost more than it saves.
_MAX_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Named:
    """A segment as a checkpoint names it.

    Attributes:
        name: Of the file.
        rows: How many rows or keys.
        size_bytes: Of the file.
    """

    name: str
    rows: int
    size_bytes: int

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_dict` gave."""
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Give it as JSON values."""
        return asdict(self)


def merged_sizes(segments: Sequence[Named]) -> list[list[Named]]:
    """Group segments: those of a group become one; a group of one stays.

    Args:
        segments: In any order.

    Example:
        >>> small = [Named(name=str(n), rows=1, size_bytes=100) for n in range(8)]
        >>> [len(group) for group in merged_sizes(small)], [len(g) for g in merged_sizes(small[1:])]
        ([8], [1, 1, 1, 1, 1, 1, 1])
    """
    tiers: dict[int, list[Named]] = {}
    alone: list[list[Named]] = []
    for segment in segments:
        if segment.size_bytes >= _MAX_BYTES:
            alone.append([segment])
        else:
            tiers.setdefault(segment.size_bytes.bit_length() // 3, []).append(segment)
    groups = list(alone)
    for tier in tiers.values():
        whole = len(tier) >= _FAN_IN
        groups += [tier] if whole else [[segment] for segment in tier]
    return groups


class RowSegment:
    """Rows sorted by `stream` and `number`, where they lie.

    Args:
        rows: With these two columns, in one chunk each.
    """

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self._streams = _fixed(rows["stream"])
        self._numbers = rows["number"].to_numpy()

    def of(self, stream: bytes, above: int, upto: int) -> pa.Table:
        """Give the rows of a stream whose numbers are above one and not above another."""
        key = _fixed_key(stream)
        low = int(np.searchsorted(self._streams, key, side="left"))
        high = int(np.searchsorted(self._streams, key, side="right"))
        first, last = np.searchsorted(self._numbers[low:high], [above, upto], side="right")
        return self.rows.slice(low + int(first), int(last - first))

    def first(self, streams: Sequence[bytes]) -> pa.Table:
        """Give the first row of each stream, in their order; streams without rows are left out."""
        keys = np.frombuffer(b"".join(streams), self._streams.dtype)
        places = np.searchsorted(self._streams, keys, side="left")
        inside = places < len(self._streams)
        places = places[inside]
        return self.rows.take(places[self._streams[places] == keys[inside]])


class KeySegment:
    """Keys, sorted, where they lie.

    Args:
        keys: Of 16 bytes each, sorted.
    """

    def __init__(self, keys: KeyArray) -> None:
        self.keys = keys

    def known(self, keys: Collection[bytes]) -> set[bytes]:
        """Give those of many keys that are in here."""
        return set(compress(keys, contains(self.keys, keys).tolist()))


def _fixed(column: pa.ChunkedArray) -> KeyArray:
    """See a column of `binary(16)` as an array, without a copy."""
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if not len(array):
        return np.empty(0, f"V{_KEY_BYTES}")
    found: KeyArray = np.frombuffer(
        array.buffers()[1], f"V{_KEY_BYTES}", len(array), array.offset * _KEY_BYTES
    )
    return found


def _fixed_key(key: bytes) -> Any:
    return np.frombuffer(key, f"V{_KEY_BYTES}")[0]


def write_rows(kind: str, tables: Sequence[pa.Table]) -> tuple[Named, pa.Buffer]:
    """Merge tables of rows into one segment.

    Args:
        kind: Begins the file's name.
        tables: With `stream` and `number`.

    Returns:
        What names it, and its content.
    """
    rows = pa.concat_tables(tables).sort_by([("stream", "ascending"), ("number", "ascending")])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        # One batch: what is searched has to lie together.
        for batch in rows.combine_chunks().to_batches():
            writer.write_batch(batch)
    content = sink.getvalue()
    name = f"{kind}-{uuid4().hex}.arrow"
    return Named(name=name, rows=rows.num_rows, size_bytes=content.size), content


def write_keys(segments: Sequence[KeyArray]) -> tuple[Named, bytes]:
    """Merge keys into one segment; gives what names it, and its content."""
    keys = np.concatenate(segments)
    # By their halves as numbers: a third quicker than byte by byte.
    halves = keys.view(">u8").reshape(-1, 2).astype(np.uint64)
    keys = keys[np.lexsort((halves[:, 1], halves[:, 0]))]
    content = keys.tobytes()
    name = f"keys-{uuid4().hex}.bin"
    return Named(name=name, rows=len(keys), size_bytes=len(content)), content


def open_rows(path: Path) -> pa.Table:
    """Map a segment of rows into memory."""
    with pa.ipc.open_file(pa.memory_map(str(path))) as reader:
        return reader.read_all()


def open_keys(path: Path) -> KeyArray:
    """Map a segment of keys into memory."""
    return np.asarray(np.memmap(path, f"V{_KEY_BYTES}", mode="r"))
