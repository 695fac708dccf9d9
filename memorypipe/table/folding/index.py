"""What the fold looks at, action by action: lists and dictionaries made of Arrow columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.table.actions import Batch
from memorypipe.table.folding.changes import Changes

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
        added: The text hashes of ADDs.
    """

    number: list[int]
    scope_key: list[str]
    event: list[str]
    record_type: list[str]
    memory_id: list[str]
    text: list[str]
    text_hash: list[str]
    added: frozenset[str]

    @classmethod
    def of(cls, batch: Batch, numbers: Any) -> "Steps":
        """Read actions by their numbers (numpy)."""
        names = ("scope_key", "event", "record_type", "memory_id", "text")
        rows = batch.actions.select(names).take(pa.array(numbers))
        lists = {name: rows[name].to_pylist() for name in names}
        hashes = batch.text_hash.take(pa.array(numbers)).to_pylist()
        events = zip(lists["event"], hashes, strict=True)
        added = frozenset(hash_ for event, hash_ in events if event == "ADD")
        return cls(**lists, number=numbers.tolist(), text_hash=hashes, added=added)


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
        scope_key, deleted, live_hash, valid_from: Columns of `rows`; `live_hash` is null where
            the row is not live, `valid_from` in microseconds since 1970.
    """

    numbers: Any
    looked_up: frozenset[str]
    used: frozenset[Key]
    current: Mapping[Key, int]
    vacant: Mapping[Key, int]
    holders: Mapping[Saying, tuple[str, ...]]
    scope_key: Sequence[str]
    deleted: Sequence[bool]
    live_hash: Sequence[str | None]
    valid_from: Sequence[int]


def index_known(known: Known, simple: Changes, steps: Steps) -> Index:
    """Index what the scopes that are no simple ones may meet.

    Args:
        known: What the table holds.
        simple: The changes of the simple scopes.
        steps: The actions of the others.
    """
    # The memories of a simple change have its scope, and no other action names them.
    numbers = np.flatnonzero(~np.asarray(pc.is_in(known.rows["memory_id"], simple.memory_id)))
    rows = known.rows.take(pa.array(numbers))
    keys = list(zip(rows["record_type"].to_pylist(), rows["memory_id"].to_pylist(), strict=True))
    scope_keys = rows["scope_key"].to_pylist()
    is_live = rows["is_live"].to_pylist()
    hashes = rows["text_hash"].to_pylist()
    live_hash = [hash_ if live else None for hash_, live in zip(hashes, is_live, strict=True)]
    holders: dict[Saying, tuple[str, ...]] = {}
    for row, hash_ in enumerate(live_hash):
        if hash_ is not None and hash_ in steps.added:
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
        live_hash=live_hash,
        valid_from=microseconds(rows["valid_from"]).to_pylist(),
    )


def _is_taken_back(rows: pa.Table) -> Any:
    gone = pc.and_(rows["is_current"], rows["deleted"])
    return pc.and_(gone, pc.equal(rows["event"], "UNDO"))


def microseconds(times: Any) -> Any:
    """Times as integers: comparing 50,000 of them needs no time zone."""
    return times.cast(pa.int64())
