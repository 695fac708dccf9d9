"""The index of finished segments: sixteen bytes a reply, sorted, to be mapped into memory.

A file is: eight bytes that name the format; the length of the header and its CRC-32, four bytes
each; the header, JSON padded to eight bytes; the first halves of the keys, sorted; the places, in
the same order; their CRC-32. Halves, places and the last are little-endian unsigned integers of
eight bytes. A place is
the number of the segment in the header's list, and in the lower 40 bits the offset in it. Half of
a key is enough to find a place: the line itself holds all of it, so that a wrong entry costs a
look and nothing else.
"""

import os
import secrets
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import orjson

from memorypipe.llm.journal.lines import Scan

__all__ = [
    "DRAFT_SUFFIX",
    "OFFSET_BITS",
    "Covered",
    "Index",
    "Run",
    "covered_by",
    "drafted",
    "find_in",
    "join_runs",
    "make_run",
    "map_index",
    "merge_indexes",
    "pack_index",
    "write_index",
]

DRAFT_SUFFIX = ".tmp"
OFFSET_BITS = 40
Array = np.ndarray[Any, np.dtype[np.uint64]]

_MAGIC = b"MPJINDEX"
_VERSION = 1
_LENGTHS = struct.Struct("<II")
_TRAILER = struct.Struct("<Q")
_WORD = 8
_LITTLE = np.dtype("<u8")
# Entries that are sorted at a time when big indexes are merged: some 50 MB.
_PART_ENTRIES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Covered:
    """What an index knows of one segment.

    Attributes:
        name: File name of the segment.
        size_bytes: The index covers this much of it, from its beginning.
        usable: Whole lines whose reply may be used again.
        unusable: Whole lines kept as evidence only.
        unreadable: Damaged lines.
        models: Usable lines per model name.
    """

    name: str
    size_bytes: int
    usable: int
    unusable: int
    unreadable: int
    models: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Run:
    """Sorted halves of keys, and a place for each."""

    halves: Array
    places: Array


@dataclass(frozen=True, kw_only=True)
class Index:
    """One index file, mapped.

    Attributes:
        covered: The segments, in the order of their numbers in the places.
        run: Its entries.
        crc: CRC-32 of the entries, as the file says.
    """

    covered: Sequence[Covered]
    run: Run
    crc: int

    def __len__(self) -> int:
        return len(self.run.halves)

    @property
    def size_bytes(self) -> int:
        """Size of its entries."""
        return 2 * _WORD * len(self)

    def is_sound(self) -> bool:
        """Whether the entries are as they were written; reads all of them."""
        return _crc(self.run) == self.crc


def covered_by(name: str, scan: Scan) -> Covered:
    """Describe a segment by the scan that went through it from its beginning."""
    return Covered(
        name=name,
        size_bytes=scan.end,
        usable=scan.usable,
        unusable=scan.unusable,
        unreadable=scan.unreadable,
        models=dict(scan.models),
    )


def make_run(places: Mapping[str, int]) -> Run:
    """Sort the places of keys, given as 32 hex digits."""
    halves = np.fromiter((int(key[:16], 16) for key in places), _LITTLE, count=len(places))
    return _sorted(halves, np.fromiter(places.values(), _LITTLE, count=len(places)))


def join_runs(runs: Sequence[Run]) -> Run:
    """Merge runs whose places count in the same numbers."""
    halves = np.concatenate([run.halves for run in runs])
    return _sorted(halves, np.concatenate([run.places for run in runs]))


def _sorted(halves: Array, places: Array) -> Run:
    order = np.argsort(halves, kind="stable")
    return Run(halves=halves[order], places=places[order])


def find_in(run: Run, half: int) -> Iterator[int]:
    """Give the places of a half, the last one first."""
    # Python's own search beats numpy's for one value: no array is made of it.
    halves = run.halves.data
    at = bisect_right(halves, half) - 1
    while at >= 0 and halves[at] == half:
        yield run.places.item(at)
        at -= 1


def pack_index(covered: Sequence[Covered], run: Run) -> list[bytes]:
    """Give the parts of an index file, to be written one after the other."""
    head = _head(covered, len(run.halves))
    return [head, run.halves.tobytes(), run.places.tobytes(), _TRAILER.pack(_crc(run))]


def _head(covered: Sequence[Covered], count: int) -> bytes:
    segments = [asdict(one) for one in covered]
    text = orjson.dumps({"version": _VERSION, "count": count, "segments": segments})
    text += b" " * (-len(text) % _WORD)
    return _MAGIC + _LENGTHS.pack(len(text), zlib.crc32(text)) + text


def _crc(run: Run) -> int:
    # A view of the bytes, not a copy of them: there may be a gigabyte.
    return zlib.crc32(run.places.data.cast("B"), zlib.crc32(run.halves.data.cast("B")))


def map_index(path: Path) -> Index | None:
    """Map an index file; None where it is gone, damaged, cut or of another version."""
    try:
        with path.open("rb") as file:
            header, at = _read_header(file)
            run = _map_entries(path, at, int(header["count"]))
            file.seek(-_TRAILER.size, os.SEEK_END)
            (crc,) = _TRAILER.unpack(file.read())
            if file.tell() != at + 2 * _WORD * len(run.halves) + _TRAILER.size:
                return None
        covered = [Covered(**one) for one in header["segments"]]
        return Index(covered=covered, run=run, crc=crc)
    except (FileNotFoundError, ValueError, KeyError, TypeError, struct.error):
        return None


def _read_header(file: IO[bytes]) -> tuple[dict[str, Any], int]:
    """Read the header, and where the entries begin."""
    fixed = file.read(len(_MAGIC) + _LENGTHS.size)
    length, crc = _LENGTHS.unpack(fixed[len(_MAGIC) :])
    text = file.read(length)
    if not fixed.startswith(_MAGIC) or len(text) != length or zlib.crc32(text) != crc:
        raise ValueError
    header: dict[str, Any] = orjson.loads(text)
    if header["version"] != _VERSION:
        raise ValueError
    return header, len(fixed) + length


def _map_entries(path: Path, at: int, count: int, mode: Literal["r", "r+"] = "r") -> Run:
    entries: Array = np.zeros(0, _LITTLE)
    if count:
        # As a plain array: each look into a `memmap` costs three times as much.
        entries = np.asarray(np.memmap(path, _LITTLE, mode=mode, offset=at, shape=(2 * count,)))
    return Run(halves=entries[:count], places=entries[count:])


def merge_indexes(
    indexes: Sequence[Index], path: Path, *, part_entries: int = _PART_ENTRIES
) -> None:
    """Write one index in the place of several; memory stays bounded whatever their sizes.

    Args:
        indexes: In the order in which their segments are to be numbered.
        path: Where to.
        part_entries: Entries that are sorted at a time.
    """
    count = sum(len(index) for index in indexes)
    head = _head([one for index in indexes for one in index.covered], count)
    with drafted(path) as draft:
        with draft.open("xb") as file:
            file.write(head)
            file.truncate(len(head) + 2 * _WORD * count)
        merged = _map_entries(draft, len(head), count, "r+")
        at = 0
        for part in _merged_parts(indexes, -(-count // part_entries)):
            merged.halves[at : at + len(part.halves)] = part.halves
            merged.places[at : at + len(part.places)] = part.places
            at += len(part.halves)
        crc = _crc(merged)
        # What was written through the mapping is in the file's pages: syncing it takes them along.
        with draft.open("ab") as file:
            file.write(_TRAILER.pack(crc))


def _merged_parts(indexes: Sequence[Index], parts: int) -> Iterator[Run]:
    """Merge range by range: keys are hashes, so that equal ranges hold about equally many."""
    firsts = np.cumsum([0, *(len(index.covered) for index in indexes)])[:-1]
    bounds = [np.uint64((part << 64) // parts) for part in range(1, parts)]
    cuts = [
        [0, *(int(index.run.halves.searchsorted(bound)) for bound in bounds), len(index)]
        for index in indexes
    ]
    for part in range(parts):
        yield join_runs(
            [
                Run(
                    halves=index.run.halves[cut[part] : cut[part + 1]],
                    places=index.run.places[cut[part] : cut[part + 1]]
                    + np.uint64(int(first) << OFFSET_BITS),
                )
                for index, cut, first in zip(indexes, cuts, firsts, strict=True)
            ]
        )


def write_index(path: Path, covered: Sequence[Covered], run: Run) -> None:
    """Write an index file; it is there whole or not at all."""
    with drafted(path) as draft, draft.open("xb") as file:
        file.writelines(pack_index(covered, run))


@contextmanager
def drafted(path: Path) -> Iterator[Path]:
    """Give a name to write to; afterwards the file is put in its place at once, once on disk."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}{DRAFT_SUFFIX}")
    try:
        yield draft
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
