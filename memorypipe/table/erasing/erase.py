"""Erase: take a scope, a source or a memory out of everything that a table's place holds.

In this order, so that one that was killed can be started again and finds what is left: what lies
beside the table, then the rows, in one commit that also blocks erased scopes, then the files that
still hold them; at last everything is searched again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from memorypipe import ids
from memorypipe.errors import InvalidArgumentError, TableError
from memorypipe.llm.batch.records import BatchFolder
from memorypipe.table.erasing.commit import EraseCommit, Found, find_rows, ledger_rows_of
from memorypipe.table.erasing.files import (
    FileChange,
    artifact_targets,
    batch_changes,
    local_folder,
    run_changes,
    sweep_batches,
)
from memorypipe.table.erasing.journal import count_replies, drop_replies, journals_of, segments_of
from memorypipe.table.erasing.needles import MIN_NEEDLE_BYTES
from memorypipe.table.erasing.receipt import Receipt, Removed
from memorypipe.table.erasing.requests import EraseRequest
from memorypipe.table.erasing.short_names import ShortNames
from memorypipe.table.erasing.sweep import check_searchable, sweep
from memorypipe.table.erasing.targets import Targets, scope_values
from memorypipe.table.ledger import remove_ledgers, unnamed_ledgers
from memorypipe.table.parquet.mirror import MirroredStorage
from memorypipe.table.run_folders import running_runs
from memorypipe.table.storage import Snapshot, Storage
from memorypipe.table.times import Clock, read_clock
from memorypipe.table.transaction import check_writable, runs_where, transact
from memorypipe.table.vacuum import DEFAULT_OLDER_THAN

__all__ = ["erase", "preview_erase"]


@dataclass(frozen=True, kw_only=True)
class _Beside:
    """What lies beside a table and must forget with it: runs, batches, journals.

    Attributes:
        folder: Of the table; None where it lies in an object store, without anything beside.
        journals: Addresses.
    """

    folder: Path | None
    journals: Sequence[str]

    @classmethod
    def of(cls, uri: str, journals: Sequence[str]) -> "_Beside":
        return cls(folder=local_folder(uri), journals=journals_of(uri, journals))

    def targets(self, targets: Targets) -> Targets:
        return targets if self.folder is None else artifact_targets(self.folder, targets)

    def run_changes(self, targets: Targets) -> Iterator[FileChange]:
        return iter(()) if self.folder is None else run_changes(self.folder, targets)

    def batch_changes(self, targets: Targets) -> Iterator[FileChange]:
        return iter(()) if self.folder is None else batch_changes(self.folder, targets)

    def count(self, targets: Targets) -> Removed:
        run_changes = list(self.run_changes(targets))
        removed = _removed(
            run_changes,
            list(self.batch_changes(targets)),
            sum(count_replies(each, targets.evidence) for each in self.journals),
        )
        streams = self._streams()
        events = 0 if streams is None else streams[0].count_events(streams[1], targets)
        return replace(removed, events=events)

    def _streams(self) -> tuple[Any, Path] | None:
        """Give who knows the files of the table's streams, and their folder; None: it has none."""
        path = None if self.folder is None else self.folder / "streams"
        if path is None or not path.is_dir():
            return None
        # By its name: streams are built on tables, and tables know nothing of them.
        return import_module("memorypipe.streams.erasing"), path

    def erase(self, targets: Targets) -> tuple[Removed, frozenset[str]]:
        """Make the changes; what went, and what it said."""
        if self.folder is not None:
            sweep_batches(self.folder)
        streams = self._streams()
        events = 0 if streams is None else streams[0].erase_events(streams[1], targets)
        replies = sum(drop_replies(each, targets.evidence) for each in self.journals)
        made: tuple[list[FileChange], list[FileChange]] = ([], [])
        texts: set[str] = set()
        for done, changes in zip(
            made, (self.run_changes(targets), self.batch_changes(targets)), strict=True
        ):
            for change in changes:
                change.make()
                texts |= change.texts
                done.append(replace(change, content=None, texts=frozenset()))
        return replace(_removed(*made, replies), events=events), frozenset(texts)

    def providers(self) -> list[str]:
        """Name the files that providers were given and may keep."""
        if self.folder is None or not (self.folder / "batches").is_dir():
            return []
        records = BatchFolder(self.folder / "batches").records()
        return [
            f"files of batch {each.batch_id or each.name!r} at {each.endpoint}: "
            f"uploaded file {each.file_id!r}, and its results"
            for each in records
            if each.state != "written"
        ]


def _removed(runs: Sequence[FileChange], batches: Sequence[FileChange], replies: int) -> Removed:
    keys = [change.removed for change in batches if change.path.suffix == ".keys"]
    return Removed(
        replies=replies,
        run_files=len(runs),
        run_file_rows=sum(change.removed for change in runs),
        batch_lines=sum(keys),
    )


def preview_erase(
    storage: Storage, uri: str, requests: Sequence[EraseRequest], *, journals: Sequence[str] = ()
) -> Removed:
    """Count what `erase` would remove; changes nothing.

    Args:
        storage: The back end.
        uri: Of the table.
        requests: What to erase.
        journals: Addresses of reply journals elsewhere.
    """
    _check_requests(requests)
    snapshot = storage.snapshot()
    found = find_rows(snapshot, requests)
    beside = _Beside.of(uri, journals)
    targets = beside.targets(found.targets)
    return _rows_of(found) + _ledger_rows(snapshot, uri, targets) + beside.count(targets)


def _rows_of(found: Found) -> Removed:
    return Removed(**found.counts)


def _ledger_rows(snapshot: Snapshot, uri: str, targets: Targets) -> Removed:
    names = [run.ledger for run in runs_where(snapshot) if run.ledger is not None]
    masks = (ledger_rows_of(uri, name, targets)[1] for name in names)
    return Removed(ledger_rows=sum(mask.true_count for mask in masks))


def erase(
    storage: Storage,
    uri: str,
    requests: Sequence[EraseRequest],
    *,
    clock: Clock,
    journals: Sequence[str] = (),
) -> Receipt:
    """Erase, and search everything again.

    Args:
        storage: The back end.
        uri: Of the table.
        requests: What to erase.
        clock: Of the table.
        journals: Addresses of reply journals elsewhere.

    Raises:
        InvalidArgumentError: For no requests, or a place whose files cannot be searched.
        TableError: While a run is under way: it would write down again what is erased.
    """
    _check_requests(requests)
    started_at = read_clock(clock)
    beside = _Beside.of(uri, journals)
    check_searchable([uri])
    _check_idle(beside, clock)
    snapshot = storage.snapshot()
    check_writable(snapshot)
    before = snapshot.head.number
    targets = beside.targets(find_rows(snapshot, requests).targets)
    removed, texts = beside.erase(targets)

    builder = EraseCommit(
        uri, requests, run_id=_run_id(requests, before), content_hash=_digest(requests)
    )
    result = transact(storage, builder, clock)
    remove_ledgers(uri, builder.old_ledgers)
    _remove_unnamed(storage.snapshot(), uri, targets, read_clock(clock))
    found = builder.found or find_rows(storage.snapshot(), requests)
    if not found.targets.evidence <= targets.evidence:
        # A commit came between that showed more of what belongs to the requests.
        targets = beside.targets(found.targets)
        more, said = beside.erase(targets)
        removed, texts = removed + more, texts | said
    storage.purge()

    outside = [each for each in beside.journals if not each.startswith(f"{uri}/")]
    local = [each for each in outside if segments_of(each)]
    checked = sweep([uri, *local, *_mirrors(storage)], targets, texts | found.texts, journals=local)
    return Receipt(
        table=uri,
        requests=requests,
        started_at=started_at,
        finished_at=read_clock(clock),
        version_before=before,
        version=result.version,
        run_id=builder.run_id if result.outcome != "nothing" else None,
        removed=removed
        + _rows_of(found)
        + Removed(run_rows=builder.run_rows, ledger_rows=builder.ledger_rows),
        blocked=len(targets.scope_keys),
        checked=checked,
        not_reached=[*beside.providers(), *_too_short(targets)],
    )


def _too_short(targets: Targets) -> list[str]:
    """Tell of names that could not be looked for everywhere."""
    values = ShortNames(scope_values(targets.evidence)).values
    if not values:
        return []
    where = "files that are not the table's, nor rejects, nor the manifest of an import"
    few = f"shorter than {MIN_NEEDLE_BYTES} bytes and were not looked for there"
    return [f"{where}: {len(values)} of the values that make the scopes are {few}"]


def _mirrors(storage: Storage) -> list[str]:
    """Give the folder of the table's mirror; one in an object store holds a single file."""
    if not isinstance(storage, MirroredStorage):
        return []
    folder = local_folder(storage.mirror)
    return [] if folder is None else [str(folder)]


def _remove_unnamed(snapshot: Snapshot, uri: str, targets: Targets, now: datetime) -> None:
    """Remove what failed commits left of ledgers, and what will fail has written of erased scopes.

    A commit under way that has written rows of a scope which is blocked by now writes anew; of
    others the file may yet be named, so it has to be old.
    """
    named = {run.ledger for run in runs_where(snapshot)}
    blocked = replace(targets, memory_ids=frozenset(), source_ids=frozenset())
    for name, written_at in unnamed_ledgers(uri, named).items():
        is_old = written_at <= now - DEFAULT_OLDER_THAN
        if is_old or ledger_rows_of(uri, name, blocked)[1].true_count:
            remove_ledgers(uri, [name])


def _check_requests(requests: Sequence[EraseRequest]) -> None:
    if not requests:
        raise InvalidArgumentError("There is nothing to erase: give at least one EraseRequest.")


def _check_idle(beside: _Beside, clock: Clock) -> None:
    if beside.folder is None:
        return
    if running := running_runs(beside.folder, read_clock(clock)):
        raise TableError(
            f"Run {running[0]!r} is under way and would write down again what is erased. Wait for "
            "its end, or, where it was killed, start again a minute later. Nothing was erased."
        )


def _digest(requests: Sequence[EraseRequest]) -> str:
    return ids.digest(
        *([each.kind, each.scope_key, each.source_id, each.memory_id] for each in requests)
    ).hex()


def _run_id(requests: Sequence[EraseRequest], version: int) -> str:
    return "erase_" + ids.digest(_digest(requests), version, size=12).hex()
