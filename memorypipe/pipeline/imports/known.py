"""What a table knows already of the memories of another store."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe import ids
from memorypipe.id_key import NO_ID_KEY
from memorypipe.pipeline.imports.mapping import Imported
from memorypipe.table.pinned import PinnedRead
from memorypipe.table.rows import STATES
from memorypipe.table.table import MemoryTable
from memorypipe.table.transfer_import import IMPORT_KIND

__all__ = ["Asked", "Found", "KnownMemories", "KnownMemory", "asked_of", "look_up"]

_COLUMNS = (
    *("record_type", "memory_id", "external_id", "scope_key", "text", "text_hash"),
    *("is_current", "is_live", "deleted", "updated_at", "run_id"),
)

# Ids that were minted from scope and text, which no other store gives to anything else.
_MINTED = "mem_"

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
        store: The store it comes from, by the name that its user has for it; None: not said.
        updated_at: When it was changed there last, UTC; None: not said.
    """

    record_type: str
    scope_key: str
    text_hash: str
    memory_id: str | None
    external_id: str | None
    minted: str
    store: str | None = None
    updated_at: datetime | None = None


@dataclass(kw_only=True, slots=True)
class KnownMemory:
    """One memory of the table.

    Attributes:
        memory_id: Its id.
        said: Hashes of all texts that it ever had.
        text: Its text now; None where it is deleted.
        text_hash: Of its text now; of what it said last where it is deleted.
        is_live: Whether it is current, not deleted, and valid.
        is_imported: Whether an import gave it its text now; else it was changed here since.
        updated_at: When it was changed last, UTC.
        origins: The external ids it was imported under, each with the store, None: not said.
    """

    memory_id: str
    said: set[str] = field(default_factory=set)
    text: str | None = None
    text_hash: str | None = None
    is_live: bool = False
    is_imported: bool = False
    updated_at: datetime | None = None
    origins: set[tuple[str | None, str | None]] = field(default_factory=set)

    def has_had(self, asked: Asked) -> bool:
        """Tell whether a record is nothing new: this is what it says, or has moved on from.

        What an import brought, the store may take back: then it says something new, unless the
        record is older than what is here.
        """
        if asked.text_hash not in self.said:
            return False
        if asked.text_hash == self.text_hash or not self.is_imported:
            return True
        if asked.updated_at is None or self.updated_at is None:
            return False
        return asked.updated_at < self.updated_at

    def comes_from(self, asked: Asked) -> bool:
        """Tell whether it was imported from the named store that a record comes from."""
        return asked.store is not None and any(store == asked.store for _, store in self.origins)


class Found(NamedTuple):
    """The memory that a record is.

    Attributes:
        memory: The memory.
        by: How sure that is: ``"id"``; ``"text"``: it once said the same and nothing else links
            them; ``"unsure"``: it has the id of the record and never said this, and nothing tells
            whether both come from the same store.
    """

    memory: KnownMemory
    by: Literal["id", "text", "unsure"]


class KnownMemories:
    """Finds the memory that a record was imported to, or that says the same.

    Args:
        stores: Run id to the name of the store, for each import.
        update: Whether the user says that ids mean the same wherever they come from.
    """

    def __init__(self, stores: Mapping[str, str | None], *, update: bool = False) -> None:
        self._stores = stores
        self._update = update
        self._by_id: dict[_Place, KnownMemory] = {}
        self._by_external_id = defaultdict[_Place, dict[str, KnownMemory]](dict)
        self._by_text: dict[_Place, KnownMemory] = {}

    def add(self, row: dict[str, Any]) -> None:
        """Take a revision in."""
        place = (row["record_type"], row["scope_key"])
        memory = self._by_id.setdefault(
            (*place, row["memory_id"]), KnownMemory(memory_id=row["memory_id"])
        )
        if row["text_hash"] is not None:
            memory.said.add(row["text_hash"])
        is_imported = row["run_id"] in self._stores
        if is_imported:
            memory.origins.add((row["external_id"], self._stores[row["run_id"]]))
        if row["external_id"] is not None:
            self._by_external_id[*place, row["external_id"]][memory.memory_id] = memory
        if row["is_current"]:
            memory.text = None if row["deleted"] else row["text"]
            memory.text_hash, memory.is_live = row["text_hash"], row["is_live"]
            memory.is_imported, memory.updated_at = is_imported, row["updated_at"]
        if row["is_live"] and row["text_hash"] is not None:
            self._by_text.setdefault((*place, row["text_hash"]), memory)

    def find(self, asked: Asked) -> Found | None:
        """Find the memory that a record is: by its own id, its external one, or its text's."""
        place = (asked.record_type, asked.scope_key)
        if asked.memory_id is not None:
            memory = self._by_id.get((*place, asked.memory_id))
            is_minted = asked.memory_id.startswith(_MINTED)
            return None if memory is None else self._found(memory, asked, is_sure=is_minted)
        if asked.external_id is not None:
            memory = self._imported_as(asked, (*place, asked.external_id))
            found = None if memory is None else self._found(memory, asked)
            # The same id of a store that has a name, and of one that has not, are two.
            if found is not None and (found.by == "id" or asked.store is None):
                return found
        memory = self._by_id.get((*place, asked.minted))
        return None if memory is None else Found(memory, "text")

    def _found(self, memory: KnownMemory, asked: Asked, *, is_sure: bool = False) -> Found:
        is_sure = is_sure or self._update or memory.comes_from(asked)
        return Found(memory, "id" if is_sure or asked.text_hash in memory.said else "unsure")

    def _imported_as(self, asked: Asked, place: _Place) -> KnownMemory | None:
        """Choose among the memories with an external id: of its store before one of none."""
        known = self._by_external_id.get(place, {}).values()
        origin = (asked.external_id, asked.store)
        for memory in known if asked.store is not None else ():
            if origin in memory.origins:
                return memory
        unnamed = [
            memory
            for memory in known
            if asked.store is None or {store for _, store in memory.origins} <= {None}
        ]
        says = (memory for memory in unnamed if asked.text_hash in memory.said)
        return next(says, unnamed[0] if unnamed else None)

    def who_says(self, asked: Asked) -> KnownMemory | None:
        """Find a live memory of the scope with the same text."""
        return self._by_text.get((asked.record_type, asked.scope_key, asked.text_hash))


def asked_of(memory: Imported, store: str | None, key: bytes = NO_ID_KEY) -> Asked:
    """Say what a record of a store is looked up by; `key` is that of the table's ids."""
    scope_key = ids.scope_key(memory.scope)
    return Asked(
        record_type=memory.record_type,
        scope_key=scope_key,
        text_hash=ids.text_hash(memory.text, key=key),
        memory_id=memory.values.get("memory_id"),
        external_id=memory.values.get("external_id"),
        minted=ids.memory_id(memory.record_type, scope_key, memory.text, key=key),
        store=store,
        updated_at=memory.values.get("updated_at"),
    )


def look_up(
    table: MemoryTable | None, asked: Iterable[Asked], *, update: bool = False
) -> KnownMemories:
    """Look records up in one pass over the newest version of a table.

    Args:
        table: None: nothing is known.
        asked: The records.
        update: As for `KnownMemories`.
    """
    if table is None:
        return KnownMemories({}, update=update)
    known = KnownMemories(_stores(table), update=update)
    wanted = defaultdict[str, set[str]](set)
    for each in asked:
        wanted["memory_id"].update(filter(None, (each.memory_id, each.minted)))
        wanted["text_hash"].add(each.text_hash)
        if each.external_id is not None:
            wanted["external_id"].add(each.external_id)
    if not wanted:
        return known
    for rows in _matching(table.pinned(None, _COLUMNS, STATES), wanted):
        for row in rows.to_pylist():
            known.add(row)
    return known


def _stores(table: MemoryTable) -> dict[str, str | None]:
    """Read from which store each import came."""
    runs = table.runs().select(["run_id", "kind", "info"]).to_pylist()
    return {
        run["run_id"]: orjson.loads(run["info"]).get("source", {}).get("store")
        for run in runs
        if run["kind"] == IMPORT_KIND
    }


def _matching(read: PinnedRead, wanted: dict[str, set[str]]) -> Iterable[pa.Table]:
    values = {name: pa.array(sorted(each), pa.string()) for name, each in wanted.items()}
    for rows in read.tables():
        hit = pa.scalar(False)
        for name, each in values.items():
            hit = pc.or_(hit, pc.is_in(rows[name], each, skip_nulls=True))
        yield rows.filter(hit)
