"""The manifest: one immutable JSON file per version that says what the table is made of.

Scopes are spread over buckets by a hash of their key; a bucket owns a range of hashes and has
files of its own. A bucket that grows too big is split where its range can be, so a small table
has few files and a commit to a big one still rewrites little.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from zlib import crc32

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from memorypipe.errors import TableError, TableVersionError
from memorypipe.table.records import Head, read_head

__all__ = [
    "HASHES",
    "MANIFESTS",
    "DataFile",
    "Kind",
    "Manifest",
    "manifest_name",
    "scope_hash",
    "scope_hashes",
    "version_of",
]

Kind = Literal["current", "past", "run"]

MANIFESTS = "manifests"
HASHES = 1 << 32  # buckets own ranges of the numbers below

_FORMAT = 1
_SUFFIX = ".json"
_DIGITS = 20


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """A Parquet file of the table.

    Attributes:
        name: Relative to the table's folder.
        kind: ``"current"`` revisions, ``"past"`` ones, or ``"run"`` rows.
        bucket: Lowest hash of the bucket whose rows it holds; 0 for run rows.
        rows: How many.
        size_bytes: Of the file.
    """

    name: str
    kind: Kind
    bucket: int
    rows: int
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What one version of the table is made of.

    Attributes:
        version: Counts every change, maintenance included, from 1.
        token: No two manifests have the same.
        head_row: The columns `revision`, `valid_from` and `payload` of the head row.
        bounds: Lowest hash of each bucket, rising from 0.
        files: Of all buckets.
    """

    version: int
    token: str
    head_row: dict[str, Any]
    bounds: tuple[int, ...]
    files: tuple[DataFile, ...]

    @property
    def head(self) -> Head:
        """The head row, read."""
        return read_head(self.head_row)

    def bucket(self, scope_key: str) -> int:
        """Give the lowest hash of the bucket of a scope."""
        return self.bounds[bisect_right(self.bounds, scope_hash(scope_key)) - 1]

    def buckets(self, hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the lowest hash of the bucket of each hash."""
        bounds = np.array(self.bounds, np.int64)
        return bounds[np.searchsorted(bounds, hashes, side="right") - 1]

    def end(self, bucket: int) -> int:
        """Give the first hash behind a bucket."""
        place = bisect_right(self.bounds, bucket)
        return self.bounds[place] if place < len(self.bounds) else HASHES

    def encode(self) -> bytes:
        """Write it as JSON."""
        head = self.head_row | {"valid_from": self.head_row["valid_from"].isoformat()}
        files = [vars(file) for file in self.files]
        return orjson.dumps(
            {
                "format": _FORMAT,
                "version": self.version,
                "token": self.token,
                "head": head,
                "bounds": self.bounds,
                "files": files,
            }
        )

    @classmethod
    def decode(cls, data: bytes, uri: str) -> "Manifest":
        """Read it from JSON.

        Args:
            data: The file.
            uri: Of the table, for messages.

        Raises:
            TableVersionError: If a newer library wrote it.
            TableError: If it is no manifest.
        """
        try:
            values = orjson.loads(data)
            if values["format"] > _FORMAT:
                raise TableVersionError(
                    f"The Parquet table at {uri!r} has manifests of format {values['format']}; "
                    f"this library reads {_FORMAT}: upgrade memorypipe."
                )
            head = values["head"]
            return cls(
                version=values["version"],
                token=values["token"],
                head_row=head | {"valid_from": datetime.fromisoformat(head["valid_from"])},
                bounds=tuple(values["bounds"]),
                files=tuple(DataFile(**file) for file in values["files"]),
            )
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise TableError(f"A manifest of the table at {uri!r} cannot be read.") from error


def manifest_name(version: int) -> str:
    """Name the manifest of a version; names sort as versions do."""
    return f"{MANIFESTS}/{version:0{_DIGITS}}{_SUFFIX}"


def version_of(name: str) -> int | None:
    """Read the version from a manifest's name; None where it is something else's.

    Example:
        >>> version_of(manifest_name(7)), version_of("manifests/.5f.tmp")
        (7, None)
    """
    digits = name.removeprefix(f"{MANIFESTS}/").removesuffix(_SUFFIX)
    return int(digits) if len(digits) == _DIGITS and digits.isdecimal() else None


def scope_hash(scope_key: str) -> int:
    """Hash a scope key to a number below `HASHES`, the same everywhere and for ever."""
    return crc32(scope_key.encode())


def scope_hashes(scope_keys: pa.ChunkedArray) -> NDArray[np.int64]:
    """Hash a column of scope keys; each key that repeats is hashed once."""
    column = scope_keys.combine_chunks().dictionary_encode()
    hashes = _hash_all(column.dictionary.to_pylist())
    places: NDArray[np.int32] = np.asarray(column.indices)
    return hashes[places]


def _hash_all(scope_keys: Iterable[str]) -> NDArray[np.int64]:
    return np.fromiter(map(scope_hash, scope_keys), np.int64)
