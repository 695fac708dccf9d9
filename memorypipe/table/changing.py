"""What changes a memory table beside a batch of actions: undo, forget, restore."""

from collections.abc import Mapping
from typing import Any

from memorypipe import ids
from memorypipe.llm.embed.types import Embedder
from memorypipe.table.erasing.requests import EraseRequest
from memorypipe.table.forget import Forgotten, make_forget
from memorypipe.table.id_keys import TableKey
from memorypipe.table.maintained import Maintained
from memorypipe.table.restore import make_restore
from memorypipe.table.storage import Storage
from memorypipe.table.times import Clock, now_utc
from memorypipe.table.transaction import Builder, CommitResult, transact
from memorypipe.table.undo import make_undo

__all__ = ["Changing"]


class Changing(Maintained):
    """A table whose runs can be undone, and whose memories can be forgotten and restored."""

    def __init__(
        self,
        uri: str,
        storage: Storage,
        clock: Clock = now_utc,
        embedder: Embedder | None = None,
        id_key: TableKey | None = None,
    ) -> None:
        super().__init__(uri, storage, clock)
        self._embedder = embedder
        # Where it comes from, not the key: tables are pickled.
        self._id_key = id_key or TableKey(uri=uri, fingerprint=None)

    def undo(
        self,
        run_id: str,
        *,
        reopen: bool = False,
        cascade: bool = False,
        labels: Mapping[str, str] | None = None,
    ) -> CommitResult:
        """Take back what a run did, all its parts, in one atomic commit.

        Each memory that it touched goes back to the revision before it, as a new revision with
        the event ``"UNDO"``; what the run added is deleted. The same in all columns but
        `memorypipe.table.revisions.BOOKKEEPING` (vectors are made anew by the table's embedder;
        without one the caller's own come back). An undo is a run of its own: ``undo-<run_id>``,
        then ``undo2-<run_id>``, …; it can be undone. A run that is undone already stays so.

        Args:
            run_id: The run to undo: a commit, an import, a forgetting, a restoring or an undo.
            reopen: Whether the messages that it dealt with are open for the next run again.
            cascade: Whether later runs that built on it are undone with it; but what was forgotten
                since stays forgotten.
            labels: For the run row and every new revision.

        Returns:
            `added`, `updated` and `deleted` count the memories that came back, changed, or went.

        Raises:
            UndoConflictError: If later runs built on what it did, unless `cascade`.
            HistoryGoneError: If what was before it is not kept.
            TableError: If there is no such run, or one of its kind cannot be undone.
        """
        snapshot = self._storage.snapshot()
        return self._change(
            make_undo(snapshot, run_id, reopen=reopen, cascade=cascade, labels=labels)
        )

    def forget(  # noqa: PLR0913  # one keyword per independent choice of what goes
        self,
        memory_id: str | None = None,
        *,
        scope: Mapping[str, Any] | None = None,
        source_id: str | None = None,
        record_type: str | None = None,
        purge: bool = False,
        labels: Mapping[str, str] | None = None,
    ) -> CommitResult:
        """Delete memories so that the same evidence does not bring them back.

        In later commits their tombstones block, in their scope, every ADD and UPDATE that says
        what one of them ever said, or that names one of the messages it ever came from, unless
        its `event_time` is later than the forgetting. What they said stays in the history until
        it expires, unless `purge`. `restore` brings them back.

        Args:
            memory_id: One memory.
            scope: All memories of a scope, deleted ones too; what the scope never had is not
                known, and not blocked.
            source_id: All memories that ever named this message among their `source_ids`, but in
                what was undone; with `scope`, only those of the scope.
            record_type: That of `memory_id`, where records of several types have it.
            purge: Whether they are erased instead, as `erase` does: from the history, old versions
                and everything beside the table too. Then no tombstone is left, and neither undo
                nor restore brings them back. A scope stays blocked until `unblock`, and the
                messages of a source stay dealt with; but a memory that is purged by its id can be
                learned again, as nothing is left that tells what it said.
            labels: For the run row and every tombstone.

        Returns:
            `deleted` counts the memories that were not deleted before. The outcome is
            ``"nothing"`` where everything is forgotten already.

        Raises:
            InvalidArgumentError: Where nothing is named, or a memory and something else, or an id
                of several records without `record_type`; these cannot be told apart with `purge`.
            TableError: If there is no such memory. With `purge`: while a run is under way, or
                where something was found again; `erase` then says where.
        """
        key = None if scope is None else ids.scope_key(scope)
        what = Forgotten(
            memory_id=memory_id, scope_key=key, source_id=source_id, record_type=record_type
        )
        if purge:
            what.check_purge(self._storage.snapshot())
            return self._erase_one(
                EraseRequest(memory_id=memory_id, scope=scope, source_id=source_id)
            )
        return self._change(make_forget(self._storage.snapshot(), what, labels=labels))

    def restore(
        self,
        memory_id: str,
        *,
        record_type: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> CommitResult:
        """Bring a deleted or forgotten memory back as its last live revision was.

        What its forgetting blocked is not blocked any more.

        Args:
            memory_id: The memory.
            record_type: Its type, where deleted records of several types have the id.
            labels: For the run row and the new revision.

        Raises:
            InvalidArgumentError: If they have, and none is named.
            HistoryGoneError: If that revision is not kept any more.
            TableError: If there is no such memory, it is not deleted, or another one of its scope
                says the same by now.
        """
        snapshot = self._storage.snapshot()
        return self._change(
            make_restore(snapshot, memory_id, record_type=record_type, labels=labels)
        )

    def _change(self, builder: Builder) -> CommitResult:
        result = transact(self._storage, builder, self._clock, self._embedder)
        if result.outcome == "landed":
            self._storage.tidy()
        return result
