"""Versions of a Parquet table that maintenance removes while others commit."""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import permutations
from pathlib import Path

import pytest

from memorypipe.table.parquet.files import DataFiles
from memorypipe.table.parquet.manifest import manifest_name
from memorypipe.table.parquet.places import Folder
from memorypipe.table.parquet.storage import ParquetStorage
from memorypipe.table.table import MemoryTable
from memorypipe.table.transaction import CommitResult
from tests.support.embeddings import HashEmbedder
from tests.support.parquet_table import named, there
from tests.support.stored_rows import DIM
from tests.support.table_actions import START, SteppingClock, actions, add, minted, update

NOW = timedelta()
TEA = minted("Likes tea")


@pytest.fixture
def table(tmp_path: Path) -> MemoryTable:
    return MemoryTable.open(
        tmp_path / "table", backend="parquet", vector_dim=DIM, clock=SteppingClock()
    )


@pytest.fixture
def storage(table: MemoryTable) -> ParquetStorage:
    return ParquetStorage(table.uri)


class Interrupted(Folder):
    """A folder in which others do something before, or after, the first name is made."""

    def __init__(
        self, path: str, before: list[Callable[[], None]], after: list[Callable[[], None]]
    ) -> None:
        super().__init__(path)
        self.before, self.after = before, after

    def create(self, name: str, data: bytes) -> bool:
        while self.before:
            self.before.pop()()
        created = super().create(name, data)
        while self.after:
            self.after.pop()()
        return created


def interrupted(
    table: MemoryTable,
    *,
    before: Callable[[], None] | None = None,
    after: Callable[[], None] | None = None,
) -> MemoryTable:
    """Open a table as a writer whose first version others come before, or come after."""
    storage = ParquetStorage(table.uri)
    steps = [[] if each is None else [each] for each in (before, after)]
    storage._place = Interrupted(table.uri, *steps)
    storage._files = DataFiles(storage._place, table.uri)
    return MemoryTable(table.uri, storage, SteppingClock(START + timedelta(hours=1)))


def commit(table: MemoryTable) -> CommitResult:
    return table.commit(actions(update(TEA, "Likes coffee"), add("Has a cat")), run_id="mine")


def configure(table: MemoryTable) -> CommitResult:
    return table.configure(revision_ttl_days=7)


def reembed(table: MemoryTable) -> CommitResult:
    return table.reembed(HashEmbedder(DIM))


PUBLISHERS = pytest.mark.parametrize(
    "publish",
    [commit, *(pytest.param(each, marks=pytest.mark.slow) for each in (configure, reembed))],
)


def others(table: MemoryTable) -> None:
    for number in range(2):
        table.configure(artifact_ttl_days=number)


def purged(table: MemoryTable) -> None:
    others(table)
    ParquetStorage(table.uri).purge()


def cleaned(table: MemoryTable) -> None:
    others(table)
    ParquetStorage(table.uri).clean(older_than=NOW)


REMOVERS = pytest.mark.parametrize(
    "remove", [purged, pytest.param(cleaned, marks=pytest.mark.slow)]
)


def check_manifests(table: MemoryTable) -> None:
    """The versions that are there follow one another."""
    names = sorted(there(table, "manifests"))
    newest = ParquetStorage(table.uri).snapshot().manifest.version
    assert names == [manifest_name(newest + n + 1 - len(names)) for n in range(len(names))]


@PUBLISHERS
@REMOVERS
def test_what_has_landed_is_there_whoever_came_first_and_removed_old_versions(
    table: MemoryTable,
    publish: Callable[[MemoryTable], CommitResult],
    remove: Callable[[MemoryTable], None],
) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    writer = interrupted(table, before=partial(remove, table))
    result = publish(writer)
    assert (result.outcome, result.version) == ("landed", 4)
    for seen_by in (writer, table, MemoryTable.open(table.uri)):
        assert (seen_by.version, seen_by.runs().num_rows) == (4, 4)
    check_manifests(table)
    ParquetStorage(table.uri).clean(older_than=NOW)
    assert there(table, "data") == {file.name for file in named(table)}


@REMOVERS
def test_optimize_leaves_no_version_behind_where_others_came_first(
    table: MemoryTable, remove: Callable[[MemoryTable], None]
) -> None:
    for number in range(4):
        table.commit(actions(add(f"text {number}")), run_id=f"r{number}")
    assert len(named(table)) > 2
    interrupted(table, before=partial(remove, table)).optimize()
    assert (table.version, table.runs().num_rows) == (6, 6)
    check_manifests(table)


def test_a_purge_beside_others_that_purge_leaves_only_the_newest_version(
    table: MemoryTable,
) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    interrupted(table, before=partial(purged, table))._storage.purge()
    assert (table.version, len(there(table, "manifests"))) == (3, 1)
    assert there(table, "data") == {file.name for file in named(table)}


@PUBLISHERS
@pytest.mark.parametrize("remove", [None, purged, pytest.param(cleaned, marks=pytest.mark.slow)])
def test_what_others_built_on_before_it_was_known_to_have_landed_stays(
    table: MemoryTable,
    publish: Callable[[MemoryTable], CommitResult],
    remove: Callable[[MemoryTable], None] | None,
) -> None:
    """None: nobody built on it, but what it was built on is gone."""
    table.commit(actions(add("Likes tea")), run_id="r1")
    clean = partial(ParquetStorage(table.uri).clean, older_than=NOW)
    result = publish(interrupted(table, after=partial(remove, table) if remove else clean))
    assert (result.outcome, result.version) == ("landed", 2)
    assert table.runs().num_rows == table.version == (4 if remove else 2)
    assert result.added in (0, 1)
    check_manifests(table)


@REMOVERS
def test_a_version_that_a_killed_writer_made_too_late_is_seen_by_nobody(
    table: MemoryTable, storage: ParquetStorage, remove: Callable[[MemoryTable], None]
) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    base = storage.snapshot().manifest
    remove(table)
    late = replace(base, version=base.version + 1, token="late")
    assert Folder(table.uri).create(manifest_name(late.version), late.encode())
    for reader in (storage, ParquetStorage(table.uri)):
        assert reader.snapshot().head.number == 3
    table.commit(actions(add("Runs")), run_id="r9")
    assert MemoryTable(table.uri, storage, SteppingClock()).runs().num_rows == 4


def test_versions_go_from_the_oldest_on_whatever_the_clock_did(
    table: MemoryTable, storage: ParquetStorage
) -> None:
    manifest = storage.snapshot().manifest
    for ages in permutations((0, 2, 0, 2)):
        for version, age in enumerate(ages, start=1):
            path = Path(table.uri) / manifest_name(version)
            path.write_bytes(replace(manifest, version=version).encode())
            at = (START - timedelta(days=age)).timestamp()
            os.utime(path, (at, at))
        ParquetStorage(table.uri, lambda: START).clean(older_than=timedelta(days=1))
        check_manifests(table)
        assert storage.snapshot().manifest.version == 4
