"""The memory table: open it, read it, commit to it."""

import os
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.errors import InvalidArgumentError
from memorypipe.id_key import IdKeySource
from memorypipe.llm.embed.resolve import resolve_embedder
from memorypipe.llm.embed.types import Embedder
from memorypipe.table.actions import batch_hash, check_actions, check_ledger
from memorypipe.table.backends import find_backend, open_storage
from memorypipe.table.changing import Changing
from memorypipe.table.commit import BatchCommit, CommitRequest
from memorypipe.table.embedding import check_same, embedder_of, new_head
from memorypipe.table.erasing.erased import named_again
from memorypipe.table.guards import Guards, MaxRetired
from memorypipe.table.id_keys import table_key, with_id_key
from memorypipe.table.ledger import read_ledger_keys
from memorypipe.table.parquet.mirror import mirrored
from memorypipe.table.past import Moment, find_moment
from memorypipe.table.reading import Reader
from memorypipe.table.records import runs_table
from memorypipe.table.reembed import DEFAULT_BATCH_ROWS, Reembed
from memorypipe.table.reprocess import Reprocess, keys_left
from memorypipe.table.side_by_side import begun
from memorypipe.table.storage import Storage
from memorypipe.table.times import Clock, now_utc, read_clock
from memorypipe.table.transaction import (
    Builder,
    CommitResult,
    result_of,
    runs_where,
)
from memorypipe.table.transfer_import import ImportCommit
from memorypipe.table.undone import counted_ledgers, undone_numbers

if TYPE_CHECKING:  # a tenth of a second that those who open a table need not wait for
    from memorypipe.table.auditing.report import AuditReport

__all__ = ["MemoryTable", "TableView"]

_ON_CONFLICT = ("raise", "skip")


class TableView(Reader):
    """The table as it stood at one commit; later commits and maintenance do not change it.

    Attributes:
        version: Number of that commit.
        commit_time: Its time, UTC.
    """

    def __init__(self, storage: Storage, clock: Clock, moment: Moment) -> None:
        super().__init__(storage, clock, moment)
        self.version = moment.version
        self.commit_time = moment.commit_time


class MemoryTable(Changing):
    """A table of memories with their whole history; made by `open`.

    Reads see the newest version at each call. An instance holds no connection: it may be shared
    by threads and pickled.
    """

    @classmethod
    def open(  # noqa: PLR0913  # one keyword per independent choice of a table
        cls,
        uri: str | os.PathLike[str],
        *,
        backend: str | None = None,
        create: bool = True,
        vector_dim: int | None = None,
        embedder: str | Embedder | None = None,
        mirror: str | os.PathLike[str] | None = None,
        id_key: IdKeySource | None = None,
        clock: Clock = now_utc,
    ) -> "MemoryTable":
        """Open a table, making an empty one where there is none.

        Args:
            uri: A directory, or the address of a prefix of an object store.
            backend: ``"lance"`` or ``"parquet"``; None for the one that the table has, or
                ``"lance"``.
            create: Whether a missing table is made.
            vector_dim: Width of `vector`; None for the table's, or that of the embedder for a new
                one. A new table with a width and no `embedder` has the caller's own vectors.
            embedder: What makes the vectors: ``"wordllama"``, ``"none"``, or an embedder, as
                `EndpointEmbedder`. None for the table's own where it needs no address, and for a
                new table ``"wordllama"`` where the extra ``embed`` is installed, else ``"none"``.
            mirror: A folder that this table's commits keep as plain Parquet with exactly the live
                rows: one file, that is replaced at once, for tools that know nothing of us.
            id_key: Where the key comes from that ids and hashes of a new table are made with, so
                that nobody without it can tell from an export whether a guess is right:
                ``"env:NAME"``, ``"file:PATH"``, or what gives it when called. None for no key,
                or that of a table that has one, from the variable ``MEMORYPIPE_ID_KEY``.
            clock: Gives commit times and decides what has expired; must give aware times.

        Raises:
            TableNotFoundError: If there is no table and `create` is False.
            InvalidArgumentError: For an unknown back end, or another back end, `vector_dim`,
                `embedder` or `id_key` than the table's.
            TableError: If the table cannot be read, or the mirror cannot be written.
            ModelError: For a new table, where an endpoint does not tell the width of its vectors.
        """
        path = _path(uri)
        storage = open_storage(path, backend)
        if create and not storage.exists():
            now = read_clock(clock)
            storage.create(with_id_key(new_head(now, embedder, vector_dim), id_key))
        head = storage.snapshot().head
        if vector_dim not in (None, head.vector_dim):
            raise InvalidArgumentError(
                f"The table at {path!r} has vectors of {head.vector_dim} dimensions, not "
                f"{vector_dim!r}; leave vector_dim out to take the table's."
            )
        checked = check_same(embedder, head, path)
        key = table_key(id_key, head, path)
        if mirror is not None:
            storage = mirrored(storage, path, os.fspath(mirror), clock)
        return cls(path, storage, clock, checked, key)

    @classmethod
    def exists(cls, uri: str | os.PathLike[str]) -> bool:
        """Tell whether there is a memory table at a place."""
        return find_backend(_path(uri)) is not None

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

    @property
    def embedder(self) -> str | None:
        """Name of the embedder that made all vectors; None: the table has none of its own."""
        return self._storage.snapshot().head.settings.embedder

    def find_embedder(self) -> Embedder | None:
        """Give the table's embedder; None where it has none.

        Raises:
            TableError: Where it needs an address, and `open` was not given it: such a table can
                be read, but takes no new text.
        """
        return embedder_of(self._embedder, self._storage.snapshot().head)

    def read_id_key(self) -> bytes:
        """Read the key that ids and hashes are made with; `memorypipe.id_key.NO_ID_KEY`: none.

        Raises:
            InvalidArgumentError: If it was not given, or is not the table's: such a table can be
                read, but takes no new text.
        """
        return self._id_key.read()

    def reembed(
        self, embedder: str | Embedder, *, batch_rows: int = DEFAULT_BATCH_ROWS
    ) -> CommitResult:
        """Move to another embedder: give all live rows its vectors, in one atomic commit.

        All rows are written anew, a batch at a time. Commits beside it come first, and what they
        changed is embedded too; it lands once none comes while the rows are written. Indexes are
        built anew by the next `optimize`.

        Args:
            embedder: As for `open`; ``"none"`` takes all vectors away.
            batch_rows: Rows that are in memory at a time.

        Returns:
            With the outcome ``"nothing"`` where the table has this embedder already.

        Raises:
            InvalidArgumentError: For what is no embedder.
            ModelError: If the embedder fails; nothing was changed.
            TableVersionError: If the table was written by a newer library.
            TableError: If it could not commit; the message says whether that is certain.
        """
        given, head = resolve_embedder(embedder), self._storage.snapshot().head
        commit = Reembed(
            given, vector_dim=head.vector_dim, number=head.number, batch_rows=batch_rows
        )
        with closing(commit):
            result = self._change(commit)
        self._embedder = given
        return result

    def as_of(self, time_or_version: datetime | int) -> TableView:
        """Read the table as it stood at a moment of commit time, whatever was committed since.

        Args:
            time_or_version: An aware time, or a version as `version` gave it. What had expired by
                that time counts as expired.

        Raises:
            InvalidArgumentError: For a time without a zone or before the table was made, or a
                version that the table does not have.
            HistoryGoneError: For a moment before the horizon that vacuum and erasure have left;
                a view raises it too, once they come to its moment.
        """
        moment = find_moment(self._storage.snapshot(), time_or_version)
        return TableView(self._storage, self._clock, moment)

    def at(self, version: int) -> TableView:
        """Read the table as it stood at a version; as `as_of`."""
        return self.as_of(version)

    def runs(self) -> pa.Table:
        """List the commits, newest last, with the schema `memorypipe.table.records.RUNS`.

        `kind` says what a commit did (``"commit"``, ``"undo"``, ``"forget"``, ``"restore"``, …);
        `info` is what the caller told, and of an undo the runs that it took back (`undoes`) and
        those whose messages it opened (`reopens`).
        """
        runs = runs_where(self._storage.snapshot())
        return runs_table(runs, undone_numbers(runs))

    def ledger_keys(self, *, reprocess: Reprocess | None = None) -> pa.Array:
        """Read the keys of all messages that committed runs have dealt with.

        Those of runs that were undone with `reopen` are not among them.

        Args:
            reprocess: Which of them are left out, as they are to be taken again; None: none.

        Returns:
            `fixed_size_binary(16)` as from `memorypipe.ids.ledger_key`, sorted, each once.
        """
        runs = runs_where(self._storage.snapshot())
        if reprocess is not None:
            return keys_left(self.uri, runs, reprocess)
        return read_ledger_keys(self.uri, counted_ledgers(runs))

    def audit(
        self,
        scope: Mapping[str, Any] | None = None,
        *,
        examples: int = 5,
        large_scope: int = 1000,
    ) -> "AuditReport":
        """Look for what is wrong in the live memories; changes nothing, asks no model.

        Duplicates and near duplicates, what may not hold together, memories whose run,
        conversation or messages nobody knows, those without time, source or vector, and junk:
        empty texts, questions, what an assistant says, pieces of a log, orders to the memory
        system. Rules find these, and a rule can be wrong: look at the examples.

        Args:
            scope: As for `to_arrow`.
            examples: How many memories each check shows.
            large_scope: A scope with more memories than this is told of.

        Raises:
            InvalidArgumentError: For values that cannot work.
        """
        from memorypipe.table.auditing.audit import (  # noqa: PLC0415  # see above
            AUDIT_COLUMNS,
            AuditSettings,
            audit_table,
        )

        settings = AuditSettings(examples=examples, large_scope=large_scope)
        read = self.pinned(scope, AUDIT_COLUMNS)
        return audit_table(read, self._storage.snapshot(), self.uri, settings)

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
        imports: bool = False,
        revisions: bool = True,
        max_retired: MaxRetired = "auto",
        accept_guards: Collection[str] = (),
    ) -> CommitResult:
        """Apply actions in one atomic commit, or nothing.

        Actions on one memory are folded to one change; an ADD of what a live memory of its scope
        says already changes nothing. The same run committed again changes nothing either. A scope
        that was erased is held back, with a reason that begins with ``"erased: "``.

        Args:
            actions: Schema `memorypipe.schema.ACTIONS`; taken in the order of `seq` in each scope.
            run_id: Names the run; with `part`, once per table.
            part: Which of several commits under one run id, from 0.
            base_version: Version that the actions were decided against. A memory of an UPDATE or
                DELETE that changed later is a conflict; None checks only that it is there. Where
                the table has moved to another embedder later, the vectors of the actions are made
                anew.
            ledger: Schema `memorypipe.schema.LEDGER`: the messages that the run has dealt with,
                recorded exactly when the actions are.
            info: JSON values for the run row.
            labels: For the run row and every new revision.
            on_conflict: ``"raise"``, or ``"skip"`` to hold back every scope with a conflict.
            imports: Whether the actions take another store over: the event of what they add is
                ``"IMPORT"``, and so is the kind of the run.
            revisions: Whether the revisions that the run closes are kept for as long as the table
                says; else maintenance may drop them at once: neither this run nor those that had
                written them can be undone then, and no earlier moment of the table be read.
            max_retired: Most memories of a scope that the run may delete, all its parts together;
                ``"auto"``: 10, or half of the live ones where that is more; None: all. A scope
                with more is held back whole, with a reason that begins with ``"guard: "``.
            accept_guards: Keys of scopes in which it may delete as many as it likes.

        Raises:
            ConflictError: If memories changed or are not there; nothing was committed.
            RunConflictError: If this run is in the table with other actions.
            InvalidArgumentError: For actions that no table can take, or without the key of the
                table's ids.
            TableVersionError: If the table was written by a newer library.
            TableError: If it could not commit; the message says whether that is certain.
        """
        _check_options(run_id, part, on_conflict)
        guards = Guards(max_retired=max_retired, accepted=frozenset(accept_guards))
        batch, rows = check_actions(actions, self.read_id_key()), check_ledger(ledger)
        request = CommitRequest(
            batch=batch,
            ledger=rows,
            content_hash=begun(
                lambda: batch_hash(batch, rows), rows=batch.actions.num_rows + rows.num_rows
            ),
            run_id=run_id,
            part=part,
            base_version=base_version,
            info={} if info is None else info,
            labels=labels,
            on_conflict=on_conflict,
            has_revisions=revisions,
            guards=guards,
        )
        commit: Builder = BatchCommit(self.uri, request)
        if imports:
            commit = ImportCommit(commit)
        result = self._change(commit)
        scope_keys = [*batch.scopes, *pc.unique(rows["scope_key"]).to_pylist()]
        return replace(result, held_back=named_again(result.held_back, scope_keys))

    def preview_commit(
        self, actions: pa.Table, *, run_id: str, base_version: int | None = None
    ) -> CommitResult:
        """Say what a commit of actions would do now; nothing is committed.

        Args:
            actions: As for `commit`, and so are all others.
            run_id: Whose earlier parts count for what it may delete.
            base_version: The version that they were decided against.

        Returns:
            As of a commit with ``on_conflict="skip"``; `version` is that of the table.

        Raises:
            InvalidArgumentError: For actions that no table can take.
        """
        batch, rows = check_actions(actions, self.read_id_key()), check_ledger(None)
        request = CommitRequest(
            batch=batch,
            ledger=rows,
            content_hash=lambda: "",
            run_id=run_id,
            part=0,
            base_version=base_version,
            info={},
            labels=None,
            on_conflict="skip",
        )
        snapshot = self._storage.snapshot()
        built = BatchCommit(self.uri, request).build(snapshot, self._clock)
        result = built if isinstance(built, CommitResult) else result_of(built.run, "nothing")
        held_back = named_again(result.held_back, batch.scopes)
        return replace(result, version=snapshot.head.number, held_back=held_back)


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
