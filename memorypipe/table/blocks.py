"""What was forgotten does not come back from the same evidence.

A tombstone that `forget` left blocks, in its scope and while it stands, every ADD and UPDATE that
says what the memory ever said, or that comes from a message it ever came from. Evidence later
than the forgetting is a new statement and passes.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.table.actions import Batch
from memorypipe.table.storage import Snapshot, Where

__all__ = [
    "BLOCK_COLUMNS",
    "FORGET_EVENT",
    "Blocks",
    "blocks_of",
    "forgotten_payload",
    "read_blocks",
    "said_hashes",
    "without_blocked",
]

FORGET_EVENT = "FORGET"

BLOCK_COLUMNS = ("scope_key", "event", "updated_at", "text_hash", "source_ids", "payload")
_HASHES = "forgotten_text_hashes"

_Evidence = tuple[str, str]  # scope key, and a text hash or a source id


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """What is forgotten in some scopes.

    Attributes:
        scope_keys: The scopes in which anything is.
        texts: Scope key and text hash, to when it was last forgotten (UTC).
        sources: Scope key and source id, likewise.
    """

    scope_keys: frozenset[str] = frozenset()
    texts: Mapping[_Evidence, datetime] = field(default_factory=dict)
    sources: Mapping[_Evidence, datetime] = field(default_factory=dict)

    def stop(
        self, scope_key: str, text_hash: str, source_ids: Iterable[str], said: datetime | None
    ) -> bool:
        """Tell whether an action may not be taken.

        Args:
            scope_key: Its scope.
            text_hash: Of what it says.
            source_ids: The messages it comes from; one that is blocked is enough.
            said: When it was said (UTC); None where nobody knows, which is not later.
        """
        times = [self.texts.get((scope_key, text_hash))]
        times += [self.sources.get((scope_key, source)) for source in source_ids]
        return any(time is not None and (said is None or said <= time) for time in times)


def forgotten_payload(text_hashes: Collection[str]) -> str:
    """Write what a forgotten memory said, as the `payload` of its tombstone.

    Args:
        text_hashes: Of all its revisions.
    """
    return orjson.dumps({_HASHES: sorted(text_hashes)}).decode()


def read_blocks(snapshot: Snapshot, scope_keys: Collection[str]) -> Blocks:
    """Read what is forgotten in some scopes; nothing is read where nothing ever was."""
    if not snapshot.head.has_forgotten:
        return Blocks()
    where = Where(scope_keys=scope_keys, events=[FORGET_EVENT], rows="current")
    return blocks_of(snapshot.scan(BLOCK_COLUMNS, where))


def blocks_of(tombstones: pa.Table) -> Blocks:
    """Make blocks of what was forgotten.

    Args:
        tombstones: That `forget` left and that stand; `BLOCK_COLUMNS`.
    """
    texts: dict[_Evidence, datetime] = {}
    sources: dict[_Evidence, datetime] = {}
    rows = tombstones.to_pylist()
    for row in rows:
        for found, values in ((texts, said_hashes(row)), (sources, row["source_ids"] or ())):
            for value in values:
                key = (row["scope_key"], value)
                found[key] = max(row["updated_at"], found.get(key, row["updated_at"]))
    keys = frozenset(row["scope_key"] for row in rows)
    return Blocks(scope_keys=keys, texts=texts, sources=sources)


def said_hashes(row: Mapping[str, Any]) -> Iterator[str]:
    """Give the hashes of what a revision says, or of all that a forgotten memory said.

    Args:
        row: `event`, `text_hash` and `payload` of a revision.
    """
    if row["text_hash"] is not None:
        yield row["text_hash"]
    if row["event"] == FORGET_EVENT and row["payload"] is not None:
        yield from orjson.loads(row["payload"]).get(_HASHES, ())


def without_blocked(batch: Batch, blocks: Blocks) -> tuple[Batch, Counter[str]]:
    """Turn what is blocked into NONE, and what follows it into what it then means.

    An UPDATE by later evidence of a memory whose ADD is blocked is an ADD; a DELETE of it is
    nothing.

    Args:
        batch: The actions of a commit.
        blocks: What is forgotten in their scopes.

    Returns:
        The batch, and how many actions of each scope are blocked.
    """
    concerned = pc.is_in(batch.actions["scope_key"], pa.array(blocks.scope_keys, pa.string()))
    steps = np.flatnonzero(np.asarray(concerned))
    blocked: Counter[str] = Counter()
    events = _decide(batch, blocks, steps, blocked) if len(steps) else {}
    return (_with_events(batch, events) if events else batch), blocked


def _decide(batch: Batch, blocks: Blocks, steps: Any, blocked: Counter[str]) -> dict[int, str]:
    """Find the actions that become others; count those that are blocked."""
    names = ["scope_key", "record_type", "memory_id", "event", "source_ids", "event_time"]
    rows = batch.actions.select(names).take(pa.array(steps)).to_pylist()
    hashes = batch.text_hash.take(pa.array(steps)).to_pylist()
    absent: set[tuple[str, str, str]] = set()  # records whose ADD is blocked
    events: dict[int, str] = {}
    for step, row, hash_ in zip(steps.tolist(), rows, hashes, strict=True):
        key = (row["scope_key"], row["record_type"], row["memory_id"])
        says = row["event"] in {"ADD", "UPDATE"}
        if says and blocks.stop(key[0], hash_, row["source_ids"] or (), row["event_time"]):
            events[step] = "NONE"
            blocked[key[0]] += 1
            if row["event"] == "ADD":
                absent.add(key)
        elif key in absent and row["event"] == "DELETE":
            events[step] = "NONE"
        elif key in absent and says:
            absent.remove(key)
            events[step] = "ADD"
    return events


def _with_events(batch: Batch, events: Mapping[int, str]) -> Batch:
    listed = batch.actions["event"].to_pylist()
    for step, event in events.items():
        listed[step] = event
    column = pa.array(listed, pa.string())
    index = batch.actions.schema.get_field_index("event")
    field = batch.actions.schema.field(index)
    says = pc.is_in(column, pa.array(["ADD", "UPDATE"]))
    return replace(
        batch,
        actions=batch.actions.set_column(index, field, column),
        text_hash=pc.if_else(says, batch.text_hash, pa.scalar(None, pa.string())),
    )
