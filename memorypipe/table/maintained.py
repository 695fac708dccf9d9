"""A table that can be looked after: kept small and quick, configured, and made to forget."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from memorypipe import ids
from memorypipe.errors import TableError
from memorypipe.table.erasing.erase import erase, preview_erase
from memorypipe.table.erasing.erased import erased_name
from memorypipe.table.erasing.receipt import Receipt, Removed
from memorypipe.table.erasing.requests import EraseRequest
from memorypipe.table.reading import Reader
from memorypipe.table.records import Settings
from memorypipe.table.settings_commit import SettingsCommit, check_days, unblocked
from memorypipe.table.storage import Storage
from memorypipe.table.times import Clock
from memorypipe.table.transaction import CommitResult, check_writable, transact
from memorypipe.table.vacuum import DEFAULT_OLDER_THAN, VacuumReport, vacuum

__all__ = ["UNCHANGED", "Maintained"]

UNCHANGED: Any = object()
"""Stands for a setting that stays as it is, where None means something."""


class Maintained(Reader):
    """What `MemoryTable` offers to those who look after it.

    Args:
        uri: Of the table.
        storage: Its back end.
        clock: Gives commit times and decides what has expired.
    """

    def __init__(self, uri: str, storage: Storage, clock: Clock) -> None:
        super().__init__(storage, clock)
        self.uri = uri

    @property
    def settings(self) -> Settings:
        """What was chosen for the table, and holds for everybody who opens it."""
        return self._storage.snapshot().head.settings

    def configure(
        self,
        *,
        revision_ttl_days: int | None = UNCHANGED,
        artifact_ttl_days: int | None = UNCHANGED,
    ) -> CommitResult:
        """Change settings of the table, as a commit of its own.

        Args:
            revision_ttl_days: How long a revision is kept after it was superseded; holds for what
                is superseded from now on. None: for ever.
            artifact_ttl_days: How long journal, plans, rejects and reports are kept after the
                commit of their run. None: for ever.

        Raises:
            InvalidArgumentError: For what is no number of days.
        """
        given = {"revision_ttl_days": revision_ttl_days, "artifact_ttl_days": artifact_ttl_days}
        changes: dict[str, Any] = {
            name: days for name, days in given.items() if days is not UNCHANGED
        }
        for name, days in changes.items():
            check_days(name, days)
        return self._change_settings(
            "configure", lambda settings: replace(settings, **changes), changes
        )

    def optimize(self) -> None:
        """Merge small files, put the rows of a scope together and refresh the indexes.

        Changes no row and no result. Safe beside writers and readers.

        Raises:
            TableVersionError: If the table was written by a newer library.
        """
        check_writable(self._storage.snapshot())
        self._storage.optimize()

    def vacuum(self, *, older_than: timedelta = DEFAULT_OLDER_THAN) -> VacuumReport:
        """Drop superseded revisions that have expired, files that nobody names, old artifacts.

        What commits left half-written goes too. The artifacts of a run (its folder, the journal
        segments and batch records of its time) go `artifact_ttl_days` after its commit; those of
        runs that are not committed stay. Where revisions are dropped, the table's history
        horizon moves: earlier moments can no longer be read, nor earlier runs be undone. Of what a
        run with ``revisions=False`` superseded, only the runs that had written it cannot be undone
        any more.

        Args:
            older_than: Old versions, and files that no version names, go from this age on; a
                commit under way must not take longer.

        Raises:
            InvalidArgumentError: For a negative `older_than`.
            TableVersionError: If the table was written by a newer library.
        """
        return vacuum(self._storage, self.uri, clock=self._clock, older_than=older_than)

    def preview_erase(
        self, requests: Sequence[EraseRequest], *, journals: Sequence[str] = ()
    ) -> Removed:
        """Count what `erase` would remove; changes nothing.

        Args:
            requests: As for `erase`.
            journals: As for `erase`.
        """
        return preview_erase(self._storage, self.uri, requests, journals=journals)

    def erase(self, requests: Sequence[EraseRequest], *, journals: Sequence[str] = ()) -> Receipt:
        """Remove scopes, sources or memories for good, everywhere in the table's place.

        From current and old revisions, older versions and index files, ledgers and records of
        commits; and, where they lie beside the table, from plans, windows, facts, rejects and
        reports of runs, batches, and the reply journal. Of a scope that a single source or memory
        is erased from, the journal and the runs lose everything: nobody can tell which reply it
        came from. Memories go whole: what a later revision says was built on the earlier ones. A
        run whose name tells of what goes gets another one; committed again, it is still known.

        Then everything is searched again. Neither undo nor an old plan brings it back: an erased
        scope takes nothing in until `unblock`, and the messages of an erased source stay dealt
        with. Readers of older versions fail, and the history horizon moves to this commit.

        No run may be under way. One that was killed can be repeated.

        Args:
            requests: What to erase.
            journals: Addresses of reply journals elsewhere, whose replies about the scopes go too.

        Returns:
            What went, what was searched, and what has to be looked at elsewhere; `is_complete`
            says whether nothing was found again.

        Raises:
            InvalidArgumentError: For no requests.
            TableError: While a run is under way; nothing was erased.
            TableVersionError: If the table was written by a newer library.
        """
        return erase(self._storage, self.uri, requests, clock=self._clock, journals=journals)

    def _erase_one(self, request: EraseRequest) -> CommitResult:
        receipt = self.erase([request])
        if not receipt.is_complete:
            raise TableError(receipt.advice)
        return CommitResult(
            outcome="nothing" if receipt.run_id is None else "landed",
            version=receipt.version,
            deleted=receipt.removed.live_memories,
        )

    def is_erased(self, scope: Mapping[str, Any]) -> bool:
        """Tell whether a scope was erased and takes nothing in."""
        return erased_name(ids.scope_key(scope)) in self.settings.erased

    def unblock(self, scope: Mapping[str, Any]) -> CommitResult:
        """Let an erased scope take memories in again.

        Args:
            scope: As it was erased.

        Returns:
            With the outcome ``"nothing"`` where it is not blocked.
        """
        key = ids.scope_key(scope)
        return self._change_settings(
            "unblock", lambda settings: unblocked(settings, key), {"scope": erased_name(key)}
        )

    def _change_settings(
        self, kind: str, change: Callable[[Settings], Settings], info: Mapping[str, Any]
    ) -> CommitResult:
        version = self._storage.snapshot().head.number
        commit = SettingsCommit(kind, change, version=version, info=info)
        return transact(self._storage, commit, self._clock)
