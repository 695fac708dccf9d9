"""Forget: tombstones that also keep out what says the same, or comes from the same messages."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe import ids
from memorypipe.errors import InvalidArgumentError, TableError
from memorypipe.table.blocks import FORGET_EVENT, forgotten_payload, said_hashes
from memorypipe.table.records import RunRecord
from memorypipe.table.revisions import emptied, replacing, revised, with_columns
from memorypipe.table.rows import Stamp, one_record
from memorypipe.table.run_log import RunLog
from memorypipe.table.storage import Snapshot, Where
from memorypipe.table.times import Clock, next_commit_time
from memorypipe.table.transaction import CommitResult, Transaction, runs_where
from memorypipe.table.undone import numbered

__all__ = ["FORGET_KIND", "Forget", "Forgotten", "make_forget"]

FORGET_KIND = "forget"
"""Kind of the runs that forget."""

_KEY_COLUMNS = ("record_type", "memory_id")
_Key = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Forgotten:
    """What is to be forgotten: a memory, or what a scope or a source has, or a source in a scope.

    Attributes:
        memory_id: One memory.
        scope_key: All of one scope, as from `memorypipe.ids.scope_key`.
        source_id: All that ever came from one message.
        record_type: That of `memory_id`, where records of several types have it.

    Raises:
        InvalidArgumentError: Where nothing is named, or a memory and something else.
    """

    memory_id: str | None = None
    scope_key: str | None = None
    source_id: str | None = None
    record_type: str | None = None

    def __post_init__(self) -> None:
        others = self.scope_key is not None or self.source_id is not None
        if (self.memory_id is not None) == others:
            raise InvalidArgumentError(
                "forget takes a memory_id, or a scope, or a source_id, or a source_id in a scope; "
                f"got memory_id={self.memory_id!r}, source_id={self.source_id!r} and "
                f"{'no' if self.scope_key is None else 'a'} scope."
            )

        if self.record_type is not None and self.memory_id is None:
            raise InvalidArgumentError(
                f"record_type={self.record_type!r} says which memory is meant by a memory_id; "
                "give the id too."
            )

    @property
    def name(self) -> str:
        """For the run id: no word of which memory, whose scope or what source."""
        if self.memory_id is not None:
            return ids.digest(self.memory_id, size=8).hex()
        return ids.digest(self.scope_key, self.source_id, size=8).hex()

    def rows_in(self, snapshot: Snapshot) -> pa.Table:
        """Read all revisions of what is meant; columns as from `Snapshot.locate`.

        Raises:
            InvalidArgumentError: If several records have the id, and `record_type` is None.
        """
        if self.memory_id is not None:
            rows = _revisions(snapshot, [self.memory_id])
            return one_record(rows, self.memory_id, self.record_type)
        records = self._records_in(snapshot)
        rows = _revisions(snapshot, sorted({memory_id for _, memory_id in records}))
        # Another record may have the same id.
        return rows.filter(pa.array([each in records for each in _keys(rows)], pa.bool_()))

    def check_purge(self, snapshot: Snapshot) -> None:
        """Check that erasing takes nothing but what is meant: it goes by the id alone.

        Raises:
            InvalidArgumentError: If records of several types have the id.
        """
        if self.memory_id is None:
            return
        kinds = set(_revisions(snapshot, [self.memory_id])["record_type"].to_pylist())
        if len(kinds) > 1:
            raise InvalidArgumentError(
                f"{self.memory_id!r} is the id of {len(kinds)} records, of the types "
                f"{sorted(kinds)!r}, and purge cannot tell them apart; erase it in its scope: "
                "table.erase([EraseRequest(memory_id=…, scope=…)])."
            )

    def _records_in(self, snapshot: Snapshot) -> set[_Key]:
        keys = None if self.scope_key is None else [self.scope_key]
        if self.source_id is None:
            where = Where(scope_keys=keys, rows="current")
            return set(_keys(snapshot.scan(_KEY_COLUMNS, where)))
        columns = [*_KEY_COLUMNS, "source_ids", "valid_from"]
        rows = snapshot.scan(columns, Where(scope_keys=keys))
        # What was undone is not what a memory comes from.
        log = RunLog(runs_where(snapshot))
        undone = pa.array(log.times_us(log.off), pa.int64())
        rows = rows.filter(pc.invert(pc.is_in(rows["valid_from"].cast(pa.int64()), undone)))
        cited = pa.array(_citing(rows["source_ids"], self.source_id), pa.int64())
        return set(_keys(rows.take(cited)))


def _revisions(snapshot: Snapshot, memory_ids: Sequence[str]) -> pa.Table:
    return snapshot.locate(pa.array(memory_ids, pa.string()), pa.array([], pa.string()))


def _keys(rows: pa.Table) -> Iterator[_Key]:
    return zip(*(rows[name].to_pylist() for name in _KEY_COLUMNS), strict=True)


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
    return Forget(run_id=numbered(FORGET_KIND, what.name, taken), what=what, labels=labels)


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
        named = (what.memory_id, what.scope_key, what.source_id, what.record_type)
        return ids.digest(FORGET_KIND, *named).hex()

    def build(self, snapshot: Snapshot, clock: Clock) -> Transaction | CommitResult:
        """Build the commit: a tombstone for each memory, deleted ones included.

        Raises:
            TableError: If the one memory that is named is not there.
            InvalidArgumentError: If the one id that is named is that of several.
        """
        rows = self.what.rows_in(snapshot)
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
            kind=FORGET_KIND,
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
    hashes: defaultdict[_Key, set[str]] = defaultdict(set)
    sources: defaultdict[_Key, set[str]] = defaultdict(set)
    names = [*_KEY_COLUMNS, "text_hash", "source_ids", "payload", "event"]
    for row in revisions.select(names).to_pylist():
        key = (row["record_type"], row["memory_id"])
        hashes[key].update(said_hashes(row))
        sources[key].update(row["source_ids"] or ())
    keys = list(_keys(tombstones))
    payloads = pa.array([forgotten_payload(hashes[key]) for key in keys], pa.string())
    cited = pa.array([sorted(sources[key]) or None for key in keys], pa.list_(pa.string()))
    return with_columns(tombstones, {"payload": payloads, "source_ids": cited})
