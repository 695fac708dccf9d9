"""What erase requests come to: which rows of which tables belong to them. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.table.erasing.needles import is_long
from memorypipe.table.erasing.requests import EraseRequest

__all__ = [
    "ERASED",
    "TEXT_COLUMNS",
    "Targets",
    "names_one",
    "scope_values",
    "scrub",
    "texts_of",
]

# Where tables keep what people said, and names that tell who they are.
TEXT_COLUMNS = (
    "scope_key",
    "memory_id",
    "external_id",
    "text",
    "old_memory",
    "context",
    "metadata",
    "payload",
    "rationale",
    "conversation_id",
    "source_ids",
    "facts_json",
    "raw_reply",
    "messages",
)

#: What stands in the place of a text that went.
ERASED = "[erased]"

_Named = tuple[str, str | None]  # a name, and the only scope key in which it is meant


@dataclass(frozen=True, kw_only=True)
class Targets:
    """What belongs to a list of requests.

    Attributes:
        scope_keys: Scopes that go as a whole.
        memory_ids: Memories, each with the only scope key where it is meant, or None.
        source_ids: Messages, likewise.
        evidence: All scopes of which replies, windows, facts and plans go: nobody can tell which
            of them a single memory came from.
        own_values: Values of `scope_keys` that no scope which stays has, e.g. the ids of users.
    """

    scope_keys: frozenset[str] = frozenset()
    memory_ids: frozenset[_Named] = frozenset()
    source_ids: frozenset[_Named] = frozenset()
    evidence: frozenset[str] = frozenset()
    own_values: frozenset[str] = frozenset()

    @classmethod
    def of(cls, requests: Iterable[EraseRequest]) -> "Targets":
        """Take what requests say by themselves."""
        listed = list(requests)
        scopes = {each.scope_key for each in listed if each.kind == "scope"}
        named = {each.scope_key for each in listed} - {None}
        return cls(
            scope_keys=_strings(scopes),
            memory_ids=_named((each.memory_id, each.scope_key) for each in listed),
            source_ids=_named((each.source_id, each.scope_key) for each in listed),
            evidence=_strings(named),
        )

    def with_rows(self, rows: pa.Table) -> "Targets":
        """Add the memories, and the scopes, of rows that belong to the requests.

        Args:
            rows: With `scope_key`, and perhaps `memory_id`.
        """
        scope_keys = rows["scope_key"].to_pylist()
        found: frozenset[_Named] = frozenset()
        if "memory_id" in rows.column_names:
            found = _named(zip(rows["memory_id"].to_pylist(), scope_keys, strict=True))
        return replace(
            self,
            memory_ids=self.memory_ids | found,
            evidence=self.evidence | frozenset(filter(None, scope_keys)),
        )

    def with_others(self, scope_keys: Collection[str]) -> "Targets":
        """Find out which values of the scopes that go no other scope has.

        Args:
            scope_keys: All of the table's.
        """
        others = scope_values(set(scope_keys) - self.scope_keys)
        return replace(self, own_values=scope_values(self.scope_keys) - others)

    def of_table(self, rows: pa.Table) -> pa.Array:
        """Tell which rows go for themselves: of the scopes, memories and sources.

        Args:
            rows: With any of `scope_key`, `memory_id`, `source_ids`, `message_ids`, `message_id`
                and `messages`.

        Returns:
            Booleans.
        """
        mask = np.zeros(rows.num_rows, np.bool_)
        mask |= _is_in(rows, "scope_key", self.scope_keys)
        mask |= _is_named(rows, "memory_id", self.memory_ids)
        mask |= _is_named(rows, "message_id", self.source_ids)
        for name in ("source_ids", "message_ids", "messages"):
            mask |= _holds(rows, name, self.source_ids)
        return pa.array(mask)

    def of_evidence(self, rows: pa.Table) -> pa.Array:
        """Tell which rows go as evidence, or for themselves; arguments as of `of_table`."""
        mask = np.asarray(self.of_table(rows)) | _is_in(rows, "scope_key", self.evidence)
        return pa.array(mask)

    def words(self) -> frozenset[str]:
        """Give the names that may stand in run rows and records; memories of scopes left out."""
        named = {*self.memory_ids, *self.source_ids}
        names = {name for name, key in named if key not in self.scope_keys}
        # A short value may be any word, but not where an import was told it as a constant.
        values = {v if is_long(v) else f"={v}" for v in self.own_values}
        return self.scope_keys | names | values


def scope_values(scope_keys: Iterable[str]) -> frozenset[str]:
    """Give the values of which scopes are made, e.g. the ids of users.

    Args:
        scope_keys: As from `memorypipe.ids.scope_key`; "" is none.

    Example:
        >>> scope_values(['[["user_id","u1"]]', ""])
        frozenset({'u1'})
    """
    pairs: list[Any] = [pair for key in scope_keys if key for pair in orjson.loads(key)]
    return frozenset(value for _, value in pairs)


def _strings(values: Iterable[str | None]) -> frozenset[str]:
    return frozenset(value for value in values if value is not None)


def _named(pairs: Iterable[tuple[str | None, str | None]]) -> frozenset[_Named]:
    return frozenset((name, scope_key) for name, scope_key in pairs if name is not None)


def _is_in(rows: pa.Table, column: str, values: Collection[str]) -> Any:
    if not values or column not in rows.column_names:
        return False
    found = pc.is_in(rows[column], pa.array(list(values), pa.string()))
    return np.asarray(pc.fill_null(found, False))


def _is_named(rows: pa.Table, column: str, named: Collection[_Named]) -> Any:
    """Tell which rows hold one of some names, in the scope that it is meant in."""
    if not named or column not in rows.column_names:
        return False
    hit = np.flatnonzero(_is_in(rows, column, {name for name, _ in named}))
    return _where_meant(rows, rows[column].take(pa.array(hit)).to_pylist(), hit, named)


def _holds(rows: pa.Table, column: str, named: Collection[_Named]) -> Any:
    """The same for a column of lists, of names or of messages with an `id`."""
    if not named or column not in rows.column_names:
        return False
    lists = rows[column].combine_chunks()
    values = pc.list_flatten(lists)
    if pa.types.is_struct(values.type):
        values = values.field("id")
    parents = np.asarray(pc.list_parent_indices(lists))
    names = pa.array([name for name, _ in named], pa.string())
    hit = np.flatnonzero(np.asarray(pc.fill_null(pc.is_in(values, names), False)))
    return _where_meant(rows, values.take(pa.array(hit)).to_pylist(), parents[hit], named)


def _where_meant(
    rows: pa.Table, found: Sequence[str], places: Any, named: Collection[_Named]
) -> Any:
    mask = np.zeros(rows.num_rows, np.bool_)
    has_scope = "scope_key" in rows.column_names
    scope_keys = (
        rows["scope_key"].take(pa.array(places)).to_pylist() if has_scope else [None] * len(places)
    )
    for name, place, scope_key in zip(found, places, scope_keys, strict=True):
        if (name, None) in named or (name, scope_key) in named:
            mask[place] = True
    return mask


def texts_of(rows: pa.Table) -> set[str]:
    """Give what rows say, and the names in them that tell whose they are."""
    texts: set[str] = set()
    for name in TEXT_COLUMNS:
        if name not in rows.column_names:
            continue
        values = rows[name].combine_chunks()
        if pa.types.is_list(values.type):
            values = pc.list_flatten(values)
        if pa.types.is_struct(values.type):
            values = values.field("content")
        texts.update(pc.unique(values.drop_null()).to_pylist())
    return texts


def scrub(value: Any, words: Collection[str]) -> Any:
    """Take words out of JSON values: strings that hold one, and entries under such a name.

    Args:
        value: JSON values.
        words: What must not be left.

    Example:
        >>> scrub({"held": {"user-001": "no"}, "why": ["see user-001", "x"]}, ["user-001"])
        {'held': {}, 'why': ['[erased]', 'x']}
    """
    if isinstance(value, str):
        return ERASED if names_one(value, words) else value
    if isinstance(value, Mapping):
        return {
            name: scrub(each, words) for name, each in value.items() if not names_one(name, words)
        }
    if isinstance(value, list | tuple):
        return [scrub(each, words) for each in value]
    return value


def names_one(text: str, words: Collection[str]) -> bool:
    """Tell whether a text holds one of some words; a short word must be all of it."""
    return text in words or any(is_long(word) and word in text for word in words)
