"""What the fold looks at, action by action: lists and dictionaries made of Arrow columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.schema import TIME
from memorypipe.table.actions import Batch
from memorypipe.table.folding.changes import Changes
from memorypipe.table.rows import expired_by

__all__ = ["Index", "Key", "Known", "Saying", "Steps", "index_known", "microseconds"]

Key = tuple[str, str]  # record type, memory id
Saying = tuple[str, str, str]  # record type, scope key, text hash


@dataclass(frozen=True, kw_only=True)
class Known:
    """What the table holds about the memories and texts of a batch.

    Attributes:
        rows: As from `Snapshot.locate`.
        looked_up: Strings, every id that was asked for: any other may be in use unseen.
    """

    rows: pa.Table
    looked_up: pa.Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """Some actions of a batch as lists: a row access costs 50 times a list access.

    Attributes:
        number: Of each action in the batch.
        scope_key, event, record_type, memory_id, text, text_hash: Columns of the batch.
        has_expired: Whether what it says has; None where it does not say until when it holds.
        added: The text hashes of ADDs.
        id_key: What ids are made with.
    """

    number: list[int]
    scope_key: list[str]
    event: list[str]
    record_type: list[str]
    memory_id: list[str]
    text: list[str]
    text_hash: list[str]
    has_expired: list[bool | None]
    added: frozenset[str]
    id_key: bytes

    @classmethod
    def of(cls, batch: Batch, numbers: Any, now: datetime) -> "Steps":
        """Read actions by their numbers (numpy); `now` decides what has expired, UTC."""
        names = ("scope_key", "event", "record_type", "memory_id", "text")
        rows = batch.actions.select(names).take(pa.array(numbers))
        lists = {name: rows[name].to_pylist() for name in names}
        hashes = batch.text_hash.take(pa.array(numbers)).to_pylist()
        expires = batch.actions["expires_at"].take(pa.array(numbers))
        has_expired = pc.less_equal(expires, pa.scalar(now, TIME)).to_pylist()
        events = zip(lists["event"], hashes, strict=True)
        added = frozenset(hash_ for event, hash_ in events if event == "ADD")
        return cls(
            **lists,
            number=numbers.tolist(),
            text_hash=hashes,
            has_expired=has_expired,
            added=added,
            id_key=batch.id_key,
        )


@dataclass(frozen=True, kw_only=True)
class Index:
    """Known rows by what the fold asks for.

    Rows have numbers of their own here.

    Attributes:
        numbers: Numbers of the rows in `Known.rows` (numpy).
        looked_up: Every id that was asked for: any other may be in use unseen.
        used: Records that have a row, current or not, and are not vacant.
        current: Record to the number of its current row.
        vacant: Of `current`, records that are as if they had never been: an undo took them back.
        holders: What live rows say of that which the batch adds, and which memories say it.
        scope_key, deleted, is_live, has_expired, text_hash, valid_from: Columns of `rows`;
            `valid_from` in microseconds since 1970.
    """

    numbers: Any
    looked_up: frozenset[str]
    used: frozenset[Key]
    current: Mapping[Key, int]
    vacant: Mapping[Key, int]
    holders: Mapping[Saying, tuple[str, ...]]
    scope_key: Sequence[str]
    deleted: Sequence[bool]
    is_live: Sequence[bool]
    has_expired: Sequence[bool]
    text_hash: Sequence[str | None]
    valid_from: Sequence[int]


# What `index_known` looks at.
_COLUMNS = (
    "record_type",
    "memory_id",
    "scope_key",
    "text_hash",
    "is_current",
    "is_live",
    "expires_at",
    "deleted",
    "event",
    "valid_from",
)


def index_known(
    known: Known, simple: Changes, simple_types: pa.Array, steps: Steps, now: datetime
) -> Index:
    """Index what the scopes that are no simple ones may meet.

    Args:
        known: What the table holds.
        simple: The changes of the simple scopes.
        simple_types: Record type of each of them.
        steps: The actions of the others.
        now: What has expired by then (UTC) says nothing.
    """
    # The memories of a simple change have its scope, and no other action names them.
    is_simple = _are_named(known.rows, simple.memory_id, simple_types)
    numbers = np.flatnonzero(~np.asarray(is_simple))
    rows = known.rows.select(list(_COLUMNS)).take(pa.array(numbers))
    keys = list(zip(rows["record_type"].to_pylist(), rows["memory_id"].to_pylist(), strict=True))
    scope_keys = rows["scope_key"].to_pylist()
    is_live = rows["is_live"].to_pylist()
    has_expired = expired_by(rows, now).to_pylist()
    hashes = rows["text_hash"].to_pylist()
    holders: dict[Saying, tuple[str, ...]] = {}
    for row, hash_ in enumerate(hashes):
        if hash_ in steps.added and is_live[row] and not has_expired[row]:
            saying = (keys[row][0], scope_keys[row], hash_)
            holders[saying] = (*holders.get(saying, ()), keys[row][1])
    is_current = rows["is_current"].to_pylist()
    current = {key: row for row, key in enumerate(keys) if is_current[row]}
    taken_back = np.flatnonzero(np.asarray(_is_taken_back(rows))).tolist()
    vacant = {keys[row]: row for row in taken_back}
    return Index(
        numbers=numbers,
        looked_up=frozenset(known.looked_up.to_pylist()),
        used=frozenset(keys) - vacant.keys(),
        current=current,
        vacant=vacant,
        holders=holders,
        scope_key=scope_keys,
        deleted=rows["deleted"].to_pylist(),
        is_live=is_live,
        has_expired=has_expired,
        text_hash=hashes,
        valid_from=microseconds(rows["valid_from"]).to_pylist(),
    )


def _are_named(rows: pa.Table, memory_ids: pa.Array, record_types: pa.Array) -> Any:
    """Tell which rows are of records that are named; no id is named twice."""
    places = pc.index_in(rows["memory_id"], memory_ids)
    return pc.fill_null(pc.equal(rows["record_type"], record_types.take(places)), False)


def _is_taken_back(rows: pa.Table) -> Any:
    gone = pc.and_(rows["is_current"], rows["deleted"])
    return pc.and_(gone, pc.equal(rows["event"], "UNDO"))


def microseconds(times: Any) -> Any:
    """Times as integers: comparing 50,000 of them needs no time zone."""
    return times.cast(pa.int64())
