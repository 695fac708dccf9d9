"""Reading the export of another store: memories, what is no memory, what cannot be read."""

import hashlib
from collections import Counter
from dataclasses import dataclass, field, replace

import orjson

from memorypipe.errors import InvalidArgumentError
from memorypipe.id_key import NO_ID_KEY
from memorypipe.llm.embed.resolve import NO_EMBEDDER
from memorypipe.logs.records import MAX_EXCERPT_CHARS, Record, Reject
from memorypipe.pipeline.imports.known import Asked, KnownMemories, asked_of
from memorypipe.pipeline.imports.mapping import (
    Imported,
    ImportMapping,
    SkippedError,
    UnreadableError,
    read_memory,
)
from memorypipe.pipeline.imports.sources import parquet_embedder, read_export
from memorypipe.table.table import MemoryTable

__all__ = ["ImportRead", "read_import", "without_unsure"]


@dataclass(kw_only=True)
class ImportRead:
    """What was read of an export.

    Attributes:
        memories: In the order of the files, each with what it is looked up by.
        places: Per memory, its file and line.
        rejects: Records of which no memory can be made.
        skipped: Why records are no memories to take over, and how many.
        digest: Hash of the memories.
        vectors_left_out: How many of the memories come with a vector that is not taken over.
    """

    memories: list[tuple[Imported, Asked]] = field(default_factory=list)
    places: list[tuple[str, int]] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    digest: str = ""
    vectors_left_out: int = 0

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
    id_key: bytes = NO_ID_KEY,
) -> ImportRead:
    """Read the memories of an export.

    Args:
        path: A file, a directory, or a pattern.
        mapping: Which field is what.
        table: Where they are to go; None where there is none yet: no vectors are taken.
        vectors_by: Name of the embedder that made the vectors of the export, ``"none"`` where
            they are the caller's own; None: what a Parquet export of ours says itself. Vectors
            are taken only where the table's come from the same, and are as wide.
        id_key: What the table's ids and hashes are made with.

    Raises:
        InvalidArgumentError: For `vectors_by` that is not the table's, or where nothing is read.
        LogFormatError: If a file is not of that kind.
    """
    mapping = replace(mapping, takes_vectors=_takes_vectors(path, mapping, table, vectors_by))
    width = table.vector_dim if table is not None and mapping.takes_vectors else 0
    read, seen = ImportRead(), _Seen()
    hasher = hashlib.blake2b(digest_size=12)
    for record in read_export(path, mapping.source):
        memory = _read_one(record, mapping, read)
        if memory is None:
            continue
        asked = asked_of(memory, mapping.store, id_key)
        if (reason := seen.why_not(asked, record)) is not None:
            read.rejects.append(record.reject(reason))
            continue
        memory, is_whole = _with_fitting(memory, record, mapping, width)
        read.vectors_left_out += not is_whole
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


def _with_fitting(
    memory: Imported, record: Record, mapping: ImportMapping, width: int
) -> tuple[Imported, bool]:
    """Take a vector of another width out of a memory; and tell whether it has what it came with."""
    brought = record.value.get(mapping.fields.get("vector"))
    if brought is None or (width and len(brought) == width):
        return memory, True
    values = {name: each for name, each in memory.values.items() if name != "vector"}
    return replace(memory, values=values), False


def without_unsure(read: ImportRead, known: KnownMemories) -> ImportRead:
    """Reject the records whose id the table knows, and nobody said that it means the same.

    Args:
        read: The export.
        known: What the table knows of it.
    """
    kept = replace(read, memories=[], places=[], rejects=list(read.rejects))
    for place, (memory, asked) in zip(read.places, read.memories, strict=True):
        found = known.find(asked)
        if found is None or found.by != "unsure":
            kept.memories.append((memory, asked))
            kept.places.append(place)
            continue
        reason = (
            f"The id {asked.memory_id or asked.external_id!r} stands for another text in the "
            f"table, memory {found.memory.memory_id!r}, and nothing says that both come from the "
            "same store: name it in every import with store (--store), or ask for the update "
            "with update (--update)."
        )
        excerpt = memory.text[:MAX_EXCERPT_CHARS]
        source, line = place
        kept.rejects.append(Reject(source=source, line=line, reason=reason, excerpt=excerpt))
    return kept


class _Seen:
    """The ids of an export: each may stand for one memory only."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str, str | None, str | None], tuple[str, int]] = {}

    def why_not(self, asked: Asked, record: Record) -> str | None:
        if asked.memory_id is None and asked.external_id is None:
            return None
        # Either alone would do, but some stores reuse ids from one scope to the next.
        key = (asked.record_type, asked.scope_key, asked.memory_id, asked.external_id)
        place = (record.source, record.line)
        source, line = self._places.setdefault(key, place)
        if (source, line) == place:
            return None
        where = "" if source == record.source else f" of {source}"
        return (
            f"The id {asked.memory_id or asked.external_id!r} stands for line {line}{where} "
            "already."
        )


def _takes_vectors(
    path: str, mapping: ImportMapping, table: MemoryTable | None, vectors_by: str | None
) -> bool:
    """Whether the vectors of an export come from where the table's come from."""
    own = None if table is None else table.embedder or NO_EMBEDDER
    if vectors_by is not None and table is not None and vectors_by != own:
        raise InvalidArgumentError(
            f"The vectors of the export were made by {vectors_by!r}, those of the table by "
            f"{own!r}; leave vectors_by (--vectors-by) out to have the table make them anew."
        )
    if vectors_by is None and mapping.source == "parquet":
        vectors_by = parquet_embedder(path)
    return own is not None and vectors_by == own
