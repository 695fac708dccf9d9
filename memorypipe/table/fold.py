"""Fold a batch of actions into at most one change per memory, against what the table holds.

Pure: the table's rows come in as Arrow, the decisions go out as row numbers into them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe import ids
from memorypipe.schema import TIME
from memorypipe.table.actions import Batch

__all__ = ["Change", "Conflict", "Folded", "Known", "fold", "index_known"]

_Key = tuple[str, str]  # record type, memory id
_Saying = tuple[str, str, str]  # record type, scope key, text hash

# An id that is taken makes the next ordinals interesting: so many are looked up in one go.
_ORDINALS_AHEAD = 16


@dataclass(frozen=True, kw_only=True)
class Known:
    """What the table holds about the memories and texts of a batch.

    Attributes:
        rows: As from `Snapshot.locate`.
        looked_up: Every id that was asked for: any other may be in use unseen.
        used: Records that have a row, current or not.
        current: Record to the number of its current row.
        holders: What live rows say of that which the batch adds, and which memories say it.
        scope_key, deleted, live_hash, valid_from: Columns of `rows`; `live_hash` is null where
            the row is not live, `valid_from` in microseconds since 1970.
    """

    rows: pa.Table
    looked_up: frozenset[str]
    used: frozenset[_Key]
    current: Mapping[_Key, int]
    holders: Mapping[_Saying, tuple[str, ...]]
    scope_key: Sequence[str]
    deleted: Sequence[bool]
    live_hash: Sequence[str | None]
    valid_from: Sequence[int]


@dataclass(slots=True)
class Change:
    """What becomes of one memory.

    Attributes:
        event: The one event that all steps come to.
        memory_id: Its final id.
        base: Number of the row that is closed; None for an ADD.
        steps: Numbers of the actions that led here, in order.
        says: Hash of the text as it is after these steps; None where the memory is not live.
    """

    event: Literal["ADD", "UPDATE", "DELETE"]
    memory_id: str
    base: int | None
    steps: list[int]
    says: str | None


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """Why the actions of one scope cannot be taken.

    Attributes:
        changed: Memories that changed since the actions were decided.
        absent: Memories that the scope does not have, or has no more.
    """

    changed: tuple[str, ...]
    absent: tuple[str, ...]

    @property
    def memory_ids(self) -> tuple[str, ...]:
        """All of them, sorted."""
        return tuple(sorted({*self.changed, *self.absent}))


@dataclass(kw_only=True)
class Folded:
    """What a batch comes to.

    Attributes:
        changes: One per memory that changes.
        ids: Provisional id of an ADD to the final one, where they differ.
        none: Actions that change nothing.
        duplicates: Of `none`, ADDs of what a live memory of their scope says already.
        conflicts: Scope key to why none of its actions are in `changes`.
        unseen: Ids that must be looked up before this result can be trusted.
    """

    changes: list[Change] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)
    none: int = 0
    duplicates: int = 0
    conflicts: dict[str, Conflict] = field(default_factory=dict)
    unseen: set[str] = field(default_factory=set)


def index_known(rows: pa.Table, looked_up: Iterable[str], batch: Batch) -> Known:
    """Index located rows for the fold of a batch."""
    keys = list(zip(rows["record_type"].to_pylist(), rows["memory_id"].to_pylist(), strict=True))
    scope_keys = rows["scope_key"].to_pylist()
    is_live = rows["is_live"].to_pylist()
    hashes = rows["text_hash"].to_pylist()
    live_hash = [hash_ if live else None for hash_, live in zip(hashes, is_live, strict=True)]
    holders: dict[_Saying, tuple[str, ...]] = {}
    for row in np.flatnonzero(np.asarray(_is_added(rows, batch))).tolist():
        if (hash_ := live_hash[row]) is not None:
            saying = (keys[row][0], scope_keys[row], hash_)
            holders[saying] = (*holders.get(saying, ()), keys[row][1])
    is_current = rows["is_current"].to_pylist()
    return Known(
        rows=rows,
        looked_up=frozenset(looked_up),
        used=frozenset(keys),
        current={key: row for row, key in enumerate(keys) if is_current[row]},
        holders=holders,
        scope_key=scope_keys,
        deleted=rows["deleted"].to_pylist(),
        live_hash=live_hash,
        valid_from=_microseconds(rows["valid_from"]).to_pylist(),
    )


def _microseconds(times: Any) -> Any:
    """Times as integers: comparing 50,000 of them needs no time zone."""
    return times.cast(pa.int64())


def _is_added(rows: pa.Table, batch: Batch) -> pa.Array:
    adds = batch.text_hash.filter(pc.equal(batch.actions["event"], "ADD").combine_chunks())
    return pc.is_in(rows["text_hash"], adds, skip_nulls=True)


def fold(batch: Batch, known: Known, *, base_time: datetime | None = None) -> Folded:
    """Fold a batch, scope by scope, in the order of `seq`.

    ADD then UPDATE is an ADD, ADD then DELETE is nothing, UPDATE then DELETE is a DELETE. An ADD
    of what a live memory of the scope says already is nothing, and what follows under its id goes
    to that memory. A scope with one conflict gives no change at all.

    Args:
        batch: The actions.
        known: What the table holds about them.
        base_time: Commit time that the actions were decided at: an UPDATE or DELETE of a memory
            that changed later is a conflict. None checks only that the memory is there.
    """
    folded = Folded()
    taken: set[_Key] = set()  # ids that earlier scopes of the batch have given away
    columns = _Columns.of(batch)
    base_us = None if base_time is None else _microseconds(pa.scalar(base_time, TIME)).as_py()
    start, total = 0, len(columns.event)
    while start < total:
        scope_key, stop = columns.scope_key[start], start + 1
        while stop < total and columns.scope_key[stop] == scope_key:
            stop += 1
        scope = _ScopeFold(columns, known, scope_key, base_us, taken)
        for step in range(start, stop):
            scope.take(step)
        scope.finish(folded)
        start = stop
    return folded


@dataclass(frozen=True, kw_only=True, slots=True)
class _Columns:
    """The columns that decide, as lists: a row access costs 50 times a list access."""

    scope_key: list[str]
    event: list[str]
    record_type: list[str]
    memory_id: list[str]
    text: list[str]
    text_hash: list[str]
    added: frozenset[str]  # the text hashes of ADDs

    @classmethod
    def of(cls, batch: Batch) -> "_Columns":
        names = ("scope_key", "event", "record_type", "memory_id", "text")
        lists = {name: batch.actions[name].to_pylist() for name in names}
        hashes = batch.text_hash.to_pylist()
        events = zip(lists["event"], hashes, strict=True)
        added = frozenset(hash_ for event, hash_ in events if event == "ADD")
        return cls(**lists, text_hash=hashes, added=added)


class _ScopeFold:
    """The fold of one scope: its memories as the actions so far leave them."""

    def __init__(
        self,
        columns: _Columns,
        known: Known,
        scope_key: str,
        base_us: int | None,
        taken: set[_Key],
    ) -> None:
        self._columns = columns
        self._known = known
        self._scope_key = scope_key
        self._base_us = base_us
        self._taken = taken
        self._changes: dict[_Key, Change] = {}
        self._aliases: dict[_Key, str] = {}
        self._holders: dict[_Saying, tuple[str, ...]] = {}
        self._ids: dict[str, str] = {}
        self._unseen: set[str] = set()
        self._changed: set[str] = set()
        self._absent: set[str] = set()
        self._none = 0
        self._duplicates = 0

    def take(self, step: int) -> None:
        event = self._columns.event[step]
        if event == "ADD":
            self._add(step)
        elif event == "NONE":
            self._none += 1
        elif (change := self._target(step)) is not None:
            if event == "UPDATE":
                self._update(change, step)
            else:
                self._delete(change, step)

    def finish(self, folded: Folded) -> None:
        folded.unseen |= self._unseen
        if self._changed or self._absent:
            folded.conflicts[self._scope_key] = Conflict(
                changed=tuple(sorted(self._changed)), absent=tuple(sorted(self._absent))
            )
            return
        folded.changes.extend(self._changes.values())
        folded.ids.update(self._ids)
        folded.none += self._none + self._duplicates
        folded.duplicates += self._duplicates
        self._taken.update(self._changes)

    def _add(self, step: int) -> None:
        record_type, provisional = self._columns.record_type[step], self._columns.memory_id[step]
        hash_ = self._columns.text_hash[step]
        if holders := self._who_says(record_type, hash_):
            self._duplicates += 1
            self._name(record_type, provisional, min(holders))
            return
        final = self._free_id(step)
        self._changes[record_type, final] = change = Change("ADD", final, None, [step], None)
        self._say(record_type, change, hash_)
        self._name(record_type, provisional, final)

    def _name(self, record_type: str, provisional: str, final: str) -> None:
        self._aliases[record_type, provisional] = final
        if provisional != final:
            self._ids[provisional] = final

    def _free_id(self, step: int) -> str:
        record_type, provisional = self._columns.record_type[step], self._columns.memory_id[step]
        if self._is_free((record_type, provisional)):
            return provisional
        text = self._columns.text[step]
        for ordinal in count():
            minted = ids.memory_id(record_type, self._scope_key, text, ordinal)
            if minted not in self._known.looked_up:
                ahead = range(ordinal, ordinal + _ORDINALS_AHEAD)
                self._unseen.update(
                    ids.memory_id(record_type, self._scope_key, text, each) for each in ahead
                )
            if self._is_free((record_type, minted)):
                return minted
        raise AssertionError  # count() does not end

    def _is_free(self, key: _Key) -> bool:
        return not (key in self._known.used or key in self._changes or key in self._taken)

    def _target(self, step: int) -> Change | None:
        """Find the change that an UPDATE or DELETE goes to; None where there is nothing to do."""
        record_type, named = self._columns.record_type[step], self._columns.memory_id[step]
        key = (record_type, self._aliases.get((record_type, named), named))
        change = self._changes.get(key)
        if change is None:
            change = self._stored(key, added_here=(record_type, named) in self._aliases)
            if change is None:
                return None
        elif change.event == "DELETE":
            if self._columns.event[step] == "UPDATE":
                self._absent.add(named)
            return None
        self._changes[key] = change
        return change

    def _stored(self, key: _Key, *, added_here: bool) -> Change | None:
        row = self._known.current.get(key)
        if row is None or self._known.deleted[row] or self._known.scope_key[row] != self._scope_key:
            self._absent.add(key[1])
            return None
        # An ADD of this batch that met the same text was not decided against an older one.
        changed = self._base_us is not None and self._known.valid_from[row] > self._base_us
        if changed and not added_here:
            self._changed.add(key[1])
            return None
        return Change("UPDATE", key[1], row, [], self._known.live_hash[row])

    def _update(self, change: Change, step: int) -> None:
        change.steps.append(step)
        if change.says is not None:
            self._say(self._columns.record_type[step], change, self._columns.text_hash[step])

    def _delete(self, change: Change, step: int) -> None:
        record_type = self._columns.record_type[step]
        self._say(record_type, change, None)
        if change.event == "ADD":
            del self._changes[record_type, change.memory_id]
            self._aliases.pop((record_type, self._columns.memory_id[step]), None)
            return
        change.event = "DELETE"
        change.steps.append(step)

    def _who_says(self, record_type: str, hash_: str) -> tuple[str, ...]:
        saying = (record_type, self._scope_key, hash_)
        here = self._holders.get(saying)
        return self._known.holders.get(saying, ()) if here is None else here

    def _say(self, record_type: str, change: Change, hash_: str | None) -> None:
        """Note what a memory says from now on; only what the batch adds somewhere matters."""
        name = change.memory_id
        if change.says in self._columns.added:
            others = (each for each in self._who_says(record_type, change.says) if each != name)
            self._holders[record_type, self._scope_key, change.says] = tuple(others)
        if hash_ in self._columns.added:
            holders = (*self._who_says(record_type, hash_), name)
            self._holders[record_type, self._scope_key, hash_] = holders
        change.says = hash_
