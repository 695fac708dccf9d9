"""What a table knows already of the memories of another store."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe import ids
from memorypipe.pipeline.import_mapping import Imported
from memorypipe.table.pinned import PinnedRead
from memorypipe.table.rows import STATES
from memorypipe.table.table import MemoryTable

__all__ = ["Asked", "KnownMemories", "KnownMemory", "asked_of", "look_up"]

_COLUMNS = (
    *("record_type", "memory_id", "external_id", "scope_key", "text", "text_hash"),
    *("is_current", "is_live", "deleted"),
)

_Place = tuple[str, str, str]  # record type, scope key, and an id or a text's hash


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What one record is looked up by.

    Attributes:
        record_type: Its kind.
        scope_key: Of its scope.
        text_hash: Of its text.
        memory_id: The id that it names; None: it names none.
        external_id: Its id in the store it comes from; None: it has none.
        minted: The id that its text gets.
    """

    record_type: str
    scope_key: str
    text_hash: str
    memory_id: str | None
    external_id: str | None
    minted: str


@dataclass(kw_only=True, slots=True)
class KnownMemory:
    """One memory of the table.

    Attributes:
        memory_id: Its id.
        said: Hashes of all texts that it ever had.
        text: Its text now; None where it is deleted.
        text_hash: Of its text now; of what it said last where it is deleted.
        is_live: Whether it is current, not deleted, and valid.
    """

    memory_id: str
    said: set[str] = field(default_factory=set)
    text: str | None = None
    text_hash: str | None = None
    is_live: bool = False


class KnownMemories:
    """Finds the memory that a record was imported to, or that says the same."""

    def __init__(self) -> None:
        self._by_id: dict[_Place, KnownMemory] = {}
        self._by_external_id: dict[_Place, KnownMemory] = {}
        self._by_text: dict[_Place, KnownMemory] = {}

    def add(self, row: dict[str, Any]) -> None:
        """Take a revision in."""
        place = (row["record_type"], row["scope_key"])
        memory = self._by_id.setdefault(
            (*place, row["memory_id"]), KnownMemory(memory_id=row["memory_id"])
        )
        if row["text_hash"] is not None:
            memory.said.add(row["text_hash"])
        if row["external_id"] is not None:
            self._by_external_id.setdefault((*place, row["external_id"]), memory)
        if row["is_current"]:
            memory.text = None if row["deleted"] else row["text"]
            memory.text_hash, memory.is_live = row["text_hash"], row["is_live"]
        if row["is_live"] and row["text_hash"] is not None:
            self._by_text.setdefault((*place, row["text_hash"]), memory)

    def find(self, asked: Asked) -> KnownMemory | None:
        """Find the memory that a record is: by its own id, its external one, or its text's."""
        place = (asked.record_type, asked.scope_key)
        if asked.memory_id is not None:
            return self._by_id.get((*place, asked.memory_id))
        if asked.external_id is not None:
            found = self._by_external_id.get((*place, asked.external_id))
            if found is not None:
                return found
        return self._by_id.get((*place, asked.minted))

    def who_says(self, asked: Asked) -> KnownMemory | None:
        """Find a live memory of the scope with the same text."""
        return self._by_text.get((asked.record_type, asked.scope_key, asked.text_hash))


def asked_of(memory: Imported) -> Asked:
    """Say what a record is looked up by."""
    key = ids.scope_key(memory.scope)
    return Asked(
        record_type=memory.record_type,
        scope_key=key,
        text_hash=ids.text_hash(memory.text),
        memory_id=memory.values.get("memory_id"),
        external_id=memory.values.get("external_id"),
        minted=ids.memory_id(memory.record_type, key, memory.text),
    )


def look_up(table: MemoryTable | None, asked: Iterable[Asked]) -> KnownMemories:
    """Look records up in one pass over the newest version of a table.

    Args:
        table: None: nothing is known.
        asked: The records.
    """
    known = KnownMemories()
    if table is None:
        return known
    wanted = defaultdict[str, set[str]](set)
    for each in asked:
        wanted["memory_id"].update(filter(None, (each.memory_id, each.minted)))
        wanted["text_hash"].add(each.text_hash)
        if each.external_id is not None:
            wanted["external_id"].add(each.external_id)
    for rows in _matching(table.pinned(None, _COLUMNS, STATES), wanted):
        for row in rows.to_pylist():
            known.add(row)
    return known


def _matching(read: PinnedRead, wanted: dict[str, set[str]]) -> Iterable[pa.Table]:
    values = {name: pa.array(sorted(each), pa.string()) for name, each in wanted.items()}
    for rows in read.tables():
        hit = pa.scalar(False)
        for name, each in values.items():
            hit = pc.or_(hit, pc.is_in(rows[name], each, skip_nulls=True))
        yield rows.filter(hit)
