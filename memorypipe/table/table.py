"""The memory table: open it, read it, commit to it."""

import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa

from memorypipe.errors import InvalidArgumentError
from memorypipe.schema import DEFAULT_VECTOR_DIM
from memorypipe.table.actions import batch_hash, check_actions, check_ledger
from memorypipe.table.commit import BatchCommit, CommitRequest
from memorypipe.table.lance import LanceStorage
from memorypipe.table.ledger import read_ledger_keys
from memorypipe.table.reading import Reader
from memorypipe.table.records import Head, runs_table
from memorypipe.table.storage import Storage
from memorypipe.table.times import Clock, now_utc, read_clock
from memorypipe.table.transaction import CommitResult, moment_of, runs_where, transact

__all__ = ["MemoryTable", "TableView"]

_BACKENDS = ("lance",)
_ON_CONFLICT = ("raise", "skip")


class TableView(Reader):
    """The table as it stood at one commit; later commits and maintenance do not change it.

    Attributes:
        version: Number of that commit.
        commit_time: Its time, UTC.
    """

    def __init__(self, storage: Storage, clock: Clock, version: int, moment: datetime) -> None:
        super().__init__(storage, clock, moment)
        self.version = version
        self.commit_time = moment


class MemoryTable(Reader):
    """A table of memories with their whole history; made by `open`.

    Reads see the newest version at each call. An instance holds no connection: it may be shared
    by threads and pickled.
    """

    def __init__(self, uri: str, storage: Storage, clock: Clock = now_utc) -> None:
        super().__init__(storage, clock)
        self.uri = uri

    @classmethod
    def open(
        cls,
        uri: str | os.PathLike[str],
        *,
        backend: str | None = None,
        create: bool = True,
        vector_dim: int | None = None,
        clock: Clock = now_utc,
    ) -> "MemoryTable":
        """Open a table, making an empty one where there is none.

        Args:
            uri: A directory, or an object-store URI that Lance can commit to.
            backend: ``"lance"``; None for the one that the table has, or the default.
            create: Whether a missing table is made.
            vector_dim: Width of `vector`; None for the table's, or `DEFAULT_VECTOR_DIM` for a new
                one.
            clock: Gives commit times and decides what has expired; must give aware times.

        Raises:
            TableNotFoundError: If there is no table and `create` is False.
            InvalidArgumentError: For an unknown back end, or another `vector_dim` than the
                table's.
        """
        if backend not in (None, *_BACKENDS):
            raise InvalidArgumentError(f"Unknown backend {backend!r}; choices: {_BACKENDS!r}.")
        path = _path(uri)
        storage = LanceStorage(path)
        if create and not storage.exists():
            now = read_clock(clock)
            dim = DEFAULT_VECTOR_DIM if vector_dim is None else vector_dim
            storage.create(Head(number=0, committed_at=now, created_at=now, vector_dim=dim))
        stored = storage.snapshot().head.vector_dim
        if vector_dim not in (None, stored):
            raise InvalidArgumentError(
                f"The table at {path!r} has vectors of {stored} dimensions, not {vector_dim!r}; "
                "leave vector_dim out to take the table's."
            )
        return cls(path, storage, clock)

    @classmethod
    def exists(cls, uri: str | os.PathLike[str]) -> bool:
        """Tell whether there is a memory table at a place."""
        return LanceStorage(_path(uri)).exists()

    @property
    def version(self) -> int:
        """Number of commits so far; maintenance does not change it."""
        return self._storage.snapshot().head.number

    @property
    def commit_time(self) -> datetime:
        """Time of the newest commit (of creation, before the first), UTC."""
        return self._storage.snapshot().head.committed_at

    @property
    def vector_dim(self) -> int:
        """Width of `vector`."""
        return self._storage.snapshot().head.vector_dim

    def at(self, version: int) -> TableView:
        """Read the table as it stood at a version.

        Raises:
            InvalidArgumentError: If the table has no such version.
        """
        moment = moment_of(self._storage.snapshot(), version)
        return TableView(self._storage, self._clock, version, moment)

    def runs(self) -> pa.Table:
        """List the commits, newest last, with the schema `memorypipe.table.records.RUNS`."""
        return runs_table(runs_where(self._storage.snapshot()))

    def ledger_keys(self) -> pa.Array:
        """Read the keys of all messages that committed runs have dealt with.

        Returns:
            `fixed_size_binary(16)` as from `memorypipe.ids.ledger_key`, sorted, each once.
        """
        runs = runs_where(self._storage.snapshot())
        return read_ledger_keys(self.uri, [run.ledger for run in runs if run.ledger is not None])

    def commit(  # noqa: PLR0913  # one keyword per independent choice of a commit
        self,
        actions: pa.Table,
        *,
        run_id: str,
        part: int = 0,
        base_version: int | None = None,
        ledger: pa.Table | None = None,
        info: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
        on_conflict: Literal["raise", "skip"] = "raise",
    ) -> CommitResult:
        """Apply actions in one atomic commit, or nothing.

        Actions on one memory are folded to one change; an ADD of what a live memory of its scope
        says already changes nothing. The same run committed again changes nothing either.

        Args:
            actions: Schema `memorypipe.schema.ACTIONS`; taken in the order of `seq` in each scope.
            run_id: Names the run; with `part`, once per table.
            part: Which of several commits under one run id, from 0.
            base_version: Version that the actions were decided against. A memory of an UPDATE or
                DELETE that changed later is a conflict; None checks only that it is there.
            ledger: Schema `memorypipe.schema.LEDGER`: the messages that the run has dealt with,
                recorded exactly when the actions are.
            info: JSON values for the run row.
            labels: For the run row and every new revision.
            on_conflict: ``"raise"``, or ``"skip"`` to hold back every scope with a conflict.

        Raises:
            ConflictError: If memories changed or are not there; nothing was committed.
            RunConflictError: If this run is in the table with other actions.
            InvalidArgumentError: For actions that no table can take.
            TableVersionError: If the table was written by a newer library.
            TableError: If it could not commit; the message says whether that is certain.
        """
        _check_options(run_id, part, on_conflict)
        batch, rows = check_actions(actions), check_ledger(ledger)
        request = CommitRequest(
            batch=batch,
            ledger=rows,
            content_hash=batch_hash(batch, rows),
            run_id=run_id,
            part=part,
            base_version=base_version,
            info={} if info is None else info,
            labels=labels,
            on_conflict=on_conflict,
        )
        result = transact(self._storage, BatchCommit(self.uri, request), self._clock)
        if result.outcome == "landed":
            self._storage.tidy()
        return result


def _path(uri: str | os.PathLike[str]) -> str:
    path = os.fspath(uri)
    if not path.strip():
        raise InvalidArgumentError(f"The table's place must not be blank, got {path!r}.")
    return path.rstrip("/")


def _check_options(run_id: str, part: int, on_conflict: str) -> None:
    if not run_id.strip():
        raise InvalidArgumentError(f"run_id must not be blank, got {run_id!r}.")
    if part < 0:
        raise InvalidArgumentError(f"part must be 0 or more, got {part!r}.")
    if on_conflict not in _ON_CONFLICT:
        raise InvalidArgumentError(
            f"Unknown on_conflict {on_conflict!r}; choices: {_ON_CONFLICT!r}."
        )
