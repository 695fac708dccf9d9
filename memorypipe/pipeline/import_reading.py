"""Reading the export of another store: memories, what is no memory, what cannot be read."""

import hashlib
from collections import Counter
from dataclasses import dataclass, field, replace

import orjson

from memorypipe.errors import InvalidArgumentError
from memorypipe.logs.records import Record, Reject
from memorypipe.pipeline.import_known import Asked, asked_of
from memorypipe.pipeline.import_mapping import (
    Imported,
    ImportMapping,
    SkippedError,
    UnreadableError,
    read_memory,
)
from memorypipe.pipeline.import_sources import parquet_embedder, read_export
from memorypipe.table.table import MemoryTable

__all__ = ["ImportRead", "read_import"]


@dataclass(kw_only=True)
class ImportRead:
    """What was read of an export.

    Attributes:
        memories: In the order of the files, each with what it is looked up by.
        places: Per memory, its file and line.
        rejects: Records of which no memory can be made.
        skipped: Why records are no memories to take over, and how many.
        digest: Hash of the memories.
    """

    memories: list[tuple[Imported, Asked]] = field(default_factory=list)
    places: list[tuple[str, int]] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    digest: str = ""

    @property
    def records(self) -> int:
        """How many records there were."""
        return len(self.memories) + len(self.rejects) + self.skipped.total()


def read_import(
    path: str,
    mapping: ImportMapping,
    *,
    table: MemoryTable | None = None,
    vectors_by: str | None = None,
) -> ImportRead:
    """Read the memories of an export.

    Args:
        path: A file, a directory, or a pattern.
        mapping: Which field is what.
        table: Where they are to go; None where there is none yet: no vectors are taken.
        vectors_by: Name of the embedder that made the vectors of the export; None: the one that a
            Parquet export names itself. Vectors are taken only where it made the table's, too.

    Raises:
        InvalidArgumentError: For `vectors_by` that is not the table's, or where nothing is read.
        LogFormatError: If a file is not of that kind.
    """
    mapping = replace(mapping, takes_vectors=_takes_vectors(path, mapping, table, vectors_by))
    read, seen = ImportRead(), _Seen()
    hasher = hashlib.blake2b(digest_size=12)
    for record in read_export(path, mapping.source):
        memory = _read_one(record, mapping, read)
        if memory is None:
            continue
        asked = asked_of(memory)
        if (reason := seen.why_not(asked, record)) is not None:
            read.rejects.append(record.reject(reason))
            continue
        parts = (memory.scope, memory.text, memory.record_type, memory.values)
        hasher.update(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS))
        read.memories.append((memory, asked))
        read.places.append((record.source, record.line))
    read.digest = hasher.hexdigest()
    return read


def _read_one(record: Record, mapping: ImportMapping, read: ImportRead) -> Imported | None:
    if record.problem is not None:
        read.rejects.append(record.reject(record.problem))
        return None
    try:
        return read_memory(record.value, mapping)
    except UnreadableError as error:
        read.rejects.append(record.reject(str(error)))
    except SkippedError as error:
        read.skipped[str(error)] += 1
    return None


class _Seen:
    """The ids of an export: each may stand for one memory only."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str, str | None, str | None], int] = {}

    def why_not(self, asked: Asked, record: Record) -> str | None:
        if asked.memory_id is None and asked.external_id is None:
            return None
        # Either alone would do, but some stores reuse ids from one scope to the next.
        key = (asked.record_type, asked.scope_key, asked.memory_id, asked.external_id)
        line = self._places.setdefault(key, record.line)
        if line == record.line:
            return None
        return f"The id {asked.memory_id or asked.external_id!r} stands for line {line} already."


def _takes_vectors(
    path: str, mapping: ImportMapping, table: MemoryTable | None, vectors_by: str | None
) -> bool:
    """Whether the vectors of an export were made by the table's embedder."""
    own = None if table is None else table.embedder
    if vectors_by is not None and table is not None and vectors_by != own:
        raise InvalidArgumentError(
            f"The vectors of the export were made by {vectors_by!r}, those of the table by "
            f"{own!r}; leave vectors_by (--vectors-by) out to have the table make them anew."
        )
    if vectors_by is None and mapping.source == "parquet":
        vectors_by = parquet_embedder(path)
    return own is not None and vectors_by == own
