"""Forget: tombstones that also keep out what says the same, or comes from the same messages."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe import ids
from memorypipe.errors import InvalidArgumentError, TableError
from memorypipe.table.blocks import FORGET_EVENT, forgotten_payload, said_hashes
from memorypipe.table.records import RunRecord
from memorypipe.table.revisions import emptied, replacing, revised, with_columns
from memorypipe.table.rows import Stamp
from memorypipe.table.storage import Snapshot, Where
from memorypipe.table.times import Clock, next_commit_time
from memorypipe.table.transaction import CommitResult, Transaction
from memorypipe.table.undone import numbered

__all__ = ["Forget", "Forgotten", "make_forget"]

_KIND = "forget"


@dataclass(frozen=True, kw_only=True)
class Forgotten:
    """What is to be forgotten: a memory, or what a scope or a source has, or a source in a scope.

    Attributes:
        memory_id: One memory.
        scope_key: All of one scope, as from `memorypipe.ids.scope_key`.
        source_id: All that comes from one message.

    Raises:
        InvalidArgumentError: Where nothing is named, or a memory and something else.
    """

    memory_id: str | None = None
    scope_key: str | None = None
    source_id: str | None = None

    def __post_init__(self) -> None:
        others = self.scope_key is not None or self.source_id is not None
        if (self.memory_id is not None) == others:
            raise InvalidArgumentError(
                "forget takes a memory_id, or a scope, or a source_id, or a source_id in a scope; "
                f"got memory_id={self.memory_id!r}, source_id={self.source_id!r} and "
                f"{'no' if self.scope_key is None else 'a'} scope."
            )

    @property
    def name(self) -> str:
        """For the run id: a memory by its id, and no word of whose scope or what source."""
        if self.memory_id is not None:
            return self.memory_id
        return ids.digest(self.scope_key, self.source_id, size=8).hex()

    def ids_in(self, snapshot: Snapshot) -> list[str]:
        """Find the memories."""
        if self.memory_id is not None:
            return [self.memory_id]
        keys = None if self.scope_key is None else [self.scope_key]
        where = Where(scope_keys=keys, rows="current")
        rows = snapshot.scan(["memory_id", "source_ids"], where)
        if self.source_id is not None:
            rows = rows.take(pa.array(_citing(rows["source_ids"], self.source_id), pa.int64()))
        return sorted(set(rows["memory_id"].to_pylist()))


def _citing(lists: pa.ChunkedArray, source_id: str) -> list[int]:
    column = lists.combine_chunks()
    cited = pc.equal(pc.list_flatten(column), source_id)
    parents = pc.list_parent_indices(column).filter(cited)
    numbers: list[int] = pc.unique(parents).to_pylist()
    return numbers


def make_forget(
    snapshot: Snapshot, what: Forgotten, *, labels: Mapping[str, str] | None
) -> "Forget":
    """Prepare to forget, under a run id that is free."""
    taken = snapshot.scan(["memory_id"], Where(record_type="run"))["memory_id"].to_pylist()
    return Forget(run_id=numbered(_KIND, what.name, taken), what=what, labels=labels)


@dataclass(frozen=True, kw_only=True)
class Forget:
    """Builds the commit that forgets memories.

    Attributes:
        run_id: Of the commit.
        what: What to forget.
        labels: For the run row and every tombstone.
    """

    run_id: str
    what: Forgotten
    labels: Mapping[str, str] | None = None
    part: int = field(default=0, init=False)

    @property
    def content_hash(self) -> str:
        """Of what is asked."""
        what = self.what
        return ids.digest(_KIND, what.memory_id, what.scope_key, what.source_id).hex()

    def build(self, snapshot: Snapshot, clock: Clock) -> Transaction | CommitResult:
        """Build the commit: a tombstone for each memory, deleted ones included.

        Raises:
            TableError: If the one memory that is named is not there.
        """
        names = pa.array(self.what.ids_in(snapshot), pa.string())
        rows = snapshot.locate(names, pa.array([], pa.string()))
        if self.what.memory_id is not None and not rows.num_rows:
            raise TableError(
                f"There is no memory {self.what.memory_id!r} in the table, so it cannot be "
                "forgotten."
            )
        stands = pc.and_(rows["is_current"], pc.not_equal(rows["event"], FORGET_EVENT))
        current = rows.filter(stands)
        if not current.num_rows:
            return CommitResult(outcome="nothing", version=snapshot.head.number)
        moment = next_commit_time(clock, snapshot.head.committed_at)
        stamp = Stamp(moment=moment, run_id=self.run_id, labels=self.labels)
        new = revised(
            _with_evidence(emptied(current, moment), rows),
            current,
            events=pa.repeat(FORGET_EVENT, current.num_rows),
            stamp=stamp,
            vector_dim=snapshot.head.vector_dim,
        )
        run = RunRecord(
            run_id=self.run_id,
            part=self.part,
            kind=_KIND,
            number=snapshot.head.number + 1,
            committed_at=moment,
            content_hash=self.content_hash,
            deleted=int(pc.sum(pc.invert(current["deleted"])).as_py()),
            labels=self.labels,
        )
        return replacing(current, new, run=run, head=snapshot.head)


def _with_evidence(tombstones: pa.Table, revisions: pa.Table) -> pa.Table:
    """Keep on each tombstone what the memory ever said, as hashes, and where it ever came from.

    Later evidence can then be told from the same, even when the revisions are gone.
    """
    hashes: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    sources: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    names = ["record_type", "memory_id", "text_hash", "source_ids", "payload", "event"]
    for row in revisions.select(names).to_pylist():
        key = (row["record_type"], row["memory_id"])
        hashes[key].update(said_hashes(row))
        sources[key].update(row["source_ids"] or ())
    keys = list(
        zip(*(tombstones[name].to_pylist() for name in ("record_type", "memory_id")), strict=True)
    )
    payloads = pa.array([forgotten_payload(hashes[key]) for key in keys], pa.string())
    cited = pa.array([sorted(sources[key]) or None for key in keys], pa.list_(pa.string()))
    return with_columns(tombstones, {"payload": payloads, "source_ids": cited})
