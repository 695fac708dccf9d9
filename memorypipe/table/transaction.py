"""How anything is committed: build, compare-and-swap, and what to do when that fails.

An attempt lands, surely does not land, or leaves it unknown. After the last two, a fresh snapshot
decides: if the run row is there, the commit has landed, whoever it was that brought it there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.errors import (
    InvalidArgumentError,
    RunConflictError,
    TableError,
    TableVersionError,
)
from memorypipe.llm.embed.types import Embedder
from memorypipe.schema import TABLE_FORMAT_VERSION
from memorypipe.table.blocks import FORGET_EVENT
from memorypipe.table.embedding import Revector, Vectors
from memorypipe.table.erasing.erased import erased_run_name
from memorypipe.table.records import RunRecord, Settings, head_row, read_runs, run_row
from memorypipe.table.storage import (
    RaceLostError,
    Snapshot,
    Storage,
    UnknownOutcomeError,
    Where,
)
from memorypipe.table.times import Clock

__all__ = [
    "RUN_COLUMNS",
    "Builder",
    "CommitResult",
    "Outcome",
    "Transaction",
    "check_writable",
    "moment_of",
    "result_of",
    "runs_where",
    "transact",
]

Outcome = Literal["landed", "already_landed", "nothing"]

# What `memorypipe.table.records.read_runs` reads.
RUN_COLUMNS = ("run_id", "revision", "valid_from", "model", "prompt_hash", "labels", "payload")

# Every lost race means that another commit landed, so a loser moves on; this many in a row say
# that something else is wrong.
_MAX_RACES = 100
_MAX_UNKNOWN = 3


@dataclass(frozen=True, kw_only=True)
class CommitResult:
    """What became of a commit.

    Attributes:
        outcome: ``"landed"``; ``"already_landed"``: the run was in the table, nothing changed;
            ``"nothing"``: there was nothing to commit, nothing changed.
        version: The table's version that holds the commit, or the newest for ``"nothing"``.
        added: Memories added.
        updated: Memories updated.
        deleted: Memories deleted.
        none: Actions that changed nothing.
        duplicates: Of `none`, ADDs of what a live memory of their scope says already.
        blocked: Of `none`, ADDs and UPDATEs of what was forgotten in their scope.
        ids: Provisional id of an ADD to the id of the memory that says it, where they differ.
        held_back: Scope key to the reason why none of its actions were taken, and none of its
            ledger rows.
    """

    outcome: Outcome
    version: int
    added: int = 0
    updated: int = 0
    deleted: int = 0
    none: int = 0
    duplicates: int = 0
    blocked: int = 0
    ids: Mapping[str, str] = field(default_factory=dict)
    held_back: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Transaction:
    """What one atomic commit writes beside its run row and the head.

    Attributes:
        closed: `storage.ADDRESS` of the rows to take out.
        rows: What to put in, in the table's schema: closed revisions and new ones.
        run: The run record of the commit.
        settings: The table's settings from this commit on; None leaves them as they are.
        revector: Makes the vectors of all rows anew; then nothing is closed. None leaves them.
    """

    closed: pa.Array
    rows: pa.Table
    run: RunRecord
    settings: Settings | None = None
    revector: Revector | None = None


class Builder(Protocol):
    """What makes the transaction of one kind of commit, anew for each attempt."""

    @property
    def run_id(self) -> str:
        """Names the run; with `part`, once per table."""
        ...

    @property
    def part(self) -> int:
        """Which of several commits under one run id, from 0."""
        ...

    @property
    def content_hash(self) -> str:
        """Of what is asked: tells "again" from "something else" under the same run id."""
        ...

    def build(self, snapshot: Snapshot, clock: Clock) -> Transaction | CommitResult:
        """Make the transaction against a snapshot; a result where there is nothing to commit.

        The run record's `number` is one more than the head's, its `committed_at` comes from
        `memorypipe.table.times.next_commit_time`.
        """
        ...


def transact(
    storage: Storage, builder: Builder, clock: Clock, embedder: Embedder | None = None
) -> CommitResult:
    """Commit what a builder makes: all of it in one atomic step, or nothing.

    Live rows that the builder leaves without a vector get one where the table has an embedder;
    no text is embedded twice, however many races are lost.

    Args:
        storage: The back end.
        builder: What to commit; asked again on a fresh snapshot after a lost race.
        clock: Gives the commit time, read anew at each attempt.
        embedder: That of the table; None where it is a local one, or the table has none.

    Raises:
        ModelError: If the embedder fails.
        RunConflictError: If the run is in the table with other content.
        TableVersionError: If the table is newer than this library.
        TableError: If it could not commit; the message says what is known.
    """
    vectors = Vectors(embedder)
    races = 0
    unknown: list[UnknownOutcomeError] = []
    while True:
        try:
            with storage.turn(races):
                snapshot = storage.snapshot()
                if (run := _find_run(snapshot, builder)) is not None:
                    return result_of(run, "landed" if unknown else "already_landed")
                check_writable(snapshot)
                return _attempt(snapshot, builder, clock, vectors)
        except RaceLostError as error:
            races += 1
            if races >= _MAX_RACES:
                raise TableError(
                    f"Run {builder.run_id!r} has not landed: {races} other commits came first. "
                    "Nothing was changed; try again."
                ) from error
        except UnknownOutcomeError as error:
            unknown.append(error)
            if len(unknown) >= _MAX_UNKNOWN:
                raise TableError(
                    f"Whether run {builder.run_id!r} has landed is unknown: {error} Commit it "
                    "again with the same run_id: what has landed is not done twice."
                ) from error


def _find_run(snapshot: Snapshot, builder: Builder) -> RunRecord | None:
    for run in runs_where(snapshot, run_id=builder.run_id):
        if run.part != builder.part:
            continue
        if run.content_hash != builder.content_hash:
            raise RunConflictError(
                f"Run {builder.run_id!r} (part {builder.part}) is in the table as version "
                f"{run.number}, with other actions or ledger rows; use another run_id."
            )
        return run
    return None


def check_writable(snapshot: Snapshot) -> None:
    """Check that this library may write to the table.

    Raises:
        TableVersionError: If it is newer.
    """
    if snapshot.head.format_version > TABLE_FORMAT_VERSION:
        raise TableVersionError(
            f"The table has format version {snapshot.head.format_version}, this library writes "
            f"{TABLE_FORMAT_VERSION}: upgrade memorypipe to write to it. Reading goes on working."
        )


def _attempt(snapshot: Snapshot, builder: Builder, clock: Clock, vectors: Vectors) -> CommitResult:
    built = builder.build(snapshot, clock)
    if isinstance(built, CommitResult):
        return built
    forgets = pc.any(pc.equal(built.rows["event"], FORGET_EVENT)).as_py()
    head = snapshot.head.after_commit(built.run.committed_at, built.settings, forgets=bool(forgets))
    if built.revector is not None:
        head = replace(head, vector_dim=built.revector.dim)
    run = run_row(built.run, head.vector_dim)
    rows = pa.concat_tables([vectors.fill_rows(built.rows, head), run])
    if built.revector is not None:
        snapshot.replace_vectors(built.revector, rows=rows, head=head_row(head))
    else:
        snapshot.commit(closed=built.closed, rows=rows, head=head_row(head))
    return result_of(built.run, "landed")


def result_of(run: RunRecord, outcome: Outcome) -> CommitResult:
    """Say what a run record says, as the result of its commit."""
    return CommitResult(
        outcome=outcome,
        version=run.number,
        added=run.added,
        updated=run.updated,
        deleted=run.deleted,
        none=run.none,
        duplicates=run.duplicates,
        blocked=run.blocked,
        ids=run.ids,
        held_back=run.held_back,
    )


def runs_where(snapshot: Snapshot, *, run_id: str | None = None) -> list[RunRecord]:
    """Read the run rows, oldest first; of one run, or all."""
    names = None if run_id is None else [run_id, erased_run_name(run_id)]
    where = Where(record_type="run", memory_ids=names)
    return read_runs(snapshot.scan(RUN_COLUMNS, where))


def moment_of(snapshot: Snapshot, version: int) -> datetime:
    """Look up the commit time of a version.

    Raises:
        InvalidArgumentError: If the table has no such version.
    """
    head = snapshot.head
    if not 0 <= version <= head.number:
        raise InvalidArgumentError(
            f"The table has no version {version!r}; its versions are 0 to {head.number}."
        )
    if version == head.number:
        return head.committed_at
    if version == 0:
        return head.created_at
    runs = snapshot.scan(["revision", "valid_from"], Where(record_type="run"))
    found = runs.filter(pc.equal(runs["revision"], version))["valid_from"].to_pylist()
    if found:
        moment: datetime = found[0]
        return moment
    raise TableError(f"The table has no run row of its version {version!r}.")
