"""What only the Parquet back end has: its files, other readers, races and maintenance."""

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from memorypipe import ids
from memorypipe.errors import TableError, TableVersionError
from memorypipe.schema import table_schema
from memorypipe.table.parquet.manifest import manifest_name
from memorypipe.table.parquet.storage import ParquetStorage
from memorypipe.table.records import Head, head_row
from memorypipe.table.storage import RaceLostError, Where
from memorypipe.table.table import MemoryTable
from tests.support.embeddings import HashEmbedder
from tests.support.parquet_table import named, there
from tests.support.stored_rows import DIM, store, stored_rows
from tests.support.table_actions import (
    START,
    SteppingClock,
    actions,
    add,
    delete,
    ledger,
    minted,
    update,
)

NOW = timedelta()
NONE = pa.array([], pa.uint64())
TEA = minted("Likes tea")


@pytest.fixture
def table(tmp_path: Path) -> MemoryTable:
    return MemoryTable.open(
        tmp_path / "table", backend="parquet", vector_dim=DIM, clock=SteppingClock()
    )


@pytest.fixture
def storage(table: MemoryTable) -> ParquetStorage:
    return ParquetStorage(table.uri)


def many(uri: str, scopes: int, per_scope: int) -> MemoryTable:
    """Make a table of many rows at once."""
    numbers = range(scopes * per_scope)
    texts = [f"text {number}" for number in numbers]
    rows = stored_rows(texts, [{"user_id": f"u{number % scopes}"} for number in numbers])
    store(ParquetStorage(uri), rows)
    return MemoryTable.open(uri, clock=SteppingClock())


def test_any_parquet_reader_reads_the_files_that_the_newest_manifest_names(
    table: MemoryTable,
) -> None:
    table.commit(actions(add("Likes tea"), add("Runs")), run_id="r1")
    table.commit(actions(update(TEA, "Likes coffee")), run_id="r2")
    newest = max((Path(table.uri) / "manifests").iterdir())
    files = orjson.loads(newest.read_bytes())["files"]
    paths = [f"{table.uri}/{file['name']}" for file in files]
    rows = ds.dataset(paths, format="parquet").to_table()
    assert rows.schema.equals(table_schema(DIM))
    live = rows.filter(rows["is_live"])
    assert sorted(live["text"].to_pylist()) == ["Likes coffee", "Runs"]
    assert sorted(rows["run_id"].to_pylist()) == ["r1", "r1", "r1", "r2", "r2"]


def test_a_small_table_has_few_files(table: MemoryTable) -> None:
    scopes = [{"user_id": f"u{number}"} for number in range(40)]
    table.commit(actions(*(add("Likes tea", scope=scope) for scope in scopes)), run_id="r1")
    assert sorted(file.kind for file in named(table)) == ["current", "run"]


def test_many_small_commits_leave_few_files_and_nothing_else_changes(table: MemoryTable) -> None:
    for number in range(20):
        table.commit(actions(add(f"text {number}")), run_id=f"r{number}")
        if number == 12:
            before = table.at(10).to_arrow()
    assert len(named(table)) < 12
    assert (table.version, table.count(), table.runs().num_rows) == (20, 20, 20)
    assert table.at(10).to_arrow().equals(before)


def test_a_commit_rewrites_the_bucket_of_its_scope_and_no_other(tmp_path: Path) -> None:
    table = many(str(tmp_path / "t"), scopes=50, per_scope=400)
    before = named(table)
    assert 2 <= len(before) <= 4
    assert all(file.rows < 16_384 for file in before)
    scope = {"user_id": "u7"}
    memory = minted("text 7", scope)
    table.commit(actions(update(memory, "changed", scope=scope), add("x", scope=scope)), run_id="r")
    gone = set(before) - set(named(table))
    assert len(gone) == 1
    assert (table.count(), table.count(scope)) == (20_001, 401)
    assert table.history(memory)["text"].to_pylist() == ["text 7", "changed"]


def test_a_scope_too_big_for_a_bucket_gets_one_of_its_own(tmp_path: Path) -> None:
    table = many(str(tmp_path / "t"), scopes=1, per_scope=17_000)
    scope = {"user_id": "u0"}
    manifest = ParquetStorage(table.uri).snapshot().manifest
    assert manifest.end(manifest.bucket(ids.scope_key(scope))) - manifest.files[0].bucket == 1
    for number in range(3):
        table.commit(actions(add(f"more {number}", scope=scope)), run_id=f"r{number}")
    assert set(manifest.files) < set(named(table))
    table.commit(actions(update(minted("text 9", scope), "new", scope=scope)), run_id="r")
    assert (table.count(scope), table.count()) == (17_003, 17_003)


def test_what_a_read_does_not_ask_for_is_not_read(tmp_path: Path) -> None:
    table = many(str(tmp_path / "t"), scopes=2, per_scope=50)
    table.reembed(HashEmbedder())  # a commit reads the vectors of a table without an embedder
    file, _ = named(table)
    path = Path(table.uri) / file.name
    group = pq.ParquetFile(path).metadata.row_group(0)
    chunk = next(
        group.column(number)
        for number in range(group.num_columns)
        if group.column(number).path_in_schema.startswith("vector.")
    )
    data = bytearray(path.read_bytes())
    start = chunk.data_page_offset
    data[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(data)
    assert table.count() == 100
    located = (
        ParquetStorage(table.uri)
        .snapshot()
        .locate(
            pa.array([minted("text 1", {"user_id": "u1"})]), pa.array([ids.text_hash("text 2")])
        )
    )
    assert sorted(located["text"].to_pylist()) == ["text 1", "text 2"]
    with pytest.raises(TableError, match="cannot be read"):
        table.to_arrow(columns=["vector"])


def test_of_two_commits_on_one_version_one_lands_and_the_other_leaves_nothing(
    table: MemoryTable, storage: ParquetStorage
) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    stale = storage.snapshot()
    table.commit(actions(add("Runs")), run_id="r2")
    before = there(table, "data")
    with pytest.raises(RaceLostError):
        stale.commit(
            closed=NONE, rows=stored_rows(["x"], [{"user_id": "u"}]), head=head_row(stale.head)
        )
    assert there(table, "data") == before
    assert storage.snapshot().head.number == 2


def test_a_commit_that_cannot_be_written_is_a_clear_error_and_changes_nothing(
    table: MemoryTable,
) -> None:
    (Path(table.uri) / "data").write_text("in the way")
    with pytest.raises(TableError, match="Nothing was committed"):
        table.commit(actions(add("Likes tea")), run_id="r1")
    assert (table.version, table.count()) == (0, 0)


def test_the_newest_of_thousands_of_versions_is_found(
    table: MemoryTable, storage: ParquetStorage
) -> None:
    manifest = storage.snapshot().manifest
    late = ParquetStorage(table.uri)
    for version in range(2, 2001):
        path = Path(table.uri) / manifest_name(version)
        path.write_bytes(replace(manifest, version=version).encode())
    assert late.snapshot().manifest.version == 2000
    assert storage.snapshot().manifest.version == 2000
    table.commit(actions(add("Likes tea")), run_id="r1")
    assert [each.snapshot().manifest.version for each in (late, storage)] == [2001, 2001]


def test_a_table_made_anew_in_the_same_place_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    place = tmp_path / "t"
    old = MemoryTable.open(place, backend="parquet", vector_dim=DIM)
    old.commit(actions(add("Likes tea")), run_id="r1")
    place.rename(tmp_path / "away")
    new = MemoryTable.open(place, backend="parquet", vector_dim=DIM)
    new.commit(actions(add("Runs")), run_id="r1")
    assert old.to_arrow(columns=["text"])["text"].to_pylist() == ["Runs"]


def test_what_a_killed_writer_left_is_not_seen_and_goes_with_clean(
    table: MemoryTable, storage: ParquetStorage
) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1", ledger=ledger("m1"))
    root = Path(table.uri)
    left = [root / "data" / "current-dead.parquet", root / "manifests" / ".dead.tmp"]
    for path in left:
        path.write_bytes(b"half of a f")
    foreign = root / "notes.txt"
    foreign.write_text("mine")
    assert (table.count(), table.version) == (1, 1)
    storage.clean(older_than=timedelta(hours=1))
    assert all(path.exists() for path in left)
    storage.clean(older_than=NOW)
    assert not any(path.exists() for path in left)
    assert foreign.exists()
    assert (table.count(), len(table.ledger_keys())) == (1, 1)


def test_clean_removes_old_versions_and_keeps_what_was_the_newest_until_lately(
    table: MemoryTable, storage: ParquetStorage
) -> None:
    for number in range(4):
        table.commit(actions(add(f"text {number}")), run_id=f"r{number}")
    held = storage.snapshot()
    for file in Path(table.uri).rglob("*.*"):
        os.utime(file, (0, 0))
    table.commit(actions(add("text 4")), run_id="r4")
    storage.clean(older_than=timedelta(hours=1))
    versions = (held.manifest.version, held.manifest.version + 1)
    assert there(table, "manifests") == {manifest_name(version) for version in versions}
    assert held.scan(["text"], Where()).num_rows == 4
    storage.clean(older_than=NOW)
    assert len(there(table, "manifests")) == 1
    assert there(table, "data") == {file.name for file in named(table)}
    with pytest.raises(RaceLostError, match="read again"):
        held.scan(["context"], Where())
    assert (table.count(), table.at(2).count()) == (5, 2)


def test_purge_leaves_only_what_the_newest_version_holds(
    table: MemoryTable, storage: ParquetStorage
) -> None:
    table.commit(actions(add("Likes tea"), add("Runs")), run_id="r1", ledger=ledger("m1"))
    table.commit(actions(update(TEA, "Likes coffee")), run_id="r2")
    snapshot = storage.snapshot()
    lost = snapshot.locate(pa.array([TEA]), pa.array([], pa.string()))["_address"]
    head = head_row(snapshot.head.after_commit(START + timedelta(days=9)))
    rows = table_schema(DIM).empty_table()
    snapshot.commit(closed=lost.combine_chunks(), rows=rows, head=head)
    storage.purge()
    files = there(table, "data")
    assert files == {file.name for file in named(table)}
    held = pa.concat_tables([pq.read_table(f"{table.uri}/{name}") for name in files])
    assert TEA not in held["memory_id"].to_pylist()
    assert len(there(table, "manifests")) == 1
    assert table.to_arrow(columns=["text"])["text"].to_pylist() == ["Runs"]
    assert len(table.ledger_keys()) == 1


def test_a_commit_begun_before_a_purge_loses_to_it(
    table: MemoryTable, storage: ParquetStorage
) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    begun = storage.snapshot()
    storage.purge()
    with pytest.raises(RaceLostError):
        begun.commit(closed=NONE, rows=table_schema(DIM).empty_table(), head=head_row(begun.head))
    assert table.commit(actions(delete(TEA)), run_id="r2").outcome == "landed"


def test_optimize_merges_files_orders_rows_and_changes_none(
    table: MemoryTable, storage: ParquetStorage
) -> None:
    for number in range(6):
        scope = {"user_id": f"u{number % 3}"}
        table.commit(actions(add(f"text {number}", scope=scope)), run_id=f"r{number}")
    before = table.to_arrow(include=["live", "history"])
    storage.optimize()
    assert sorted(file.kind for file in named(table)) == ["current", "run"]
    assert table.to_arrow(include=["live", "history"]).equals(before)
    stored = storage.snapshot().scan(["scope_key"], Where())["scope_key"].to_pylist()
    assert stored == sorted(stored)
    version = storage.snapshot().manifest.version
    storage.optimize()
    assert storage.snapshot().manifest.version == version


def test_a_table_of_a_newer_format_is_read_but_not_written(tmp_path: Path) -> None:
    head = Head(number=0, committed_at=START, created_at=START, vector_dim=DIM, format_version=99)
    ParquetStorage(str(tmp_path)).create(head)
    table = MemoryTable.open(tmp_path)
    assert table.count() == 0
    with pytest.raises(TableVersionError, match="version 99"):
        table.commit(actions(add("Runs")), run_id="r2")


@pytest.mark.parametrize(
    ("manifest", "error", "message"),
    [
        (b'{"format": 9}', TableVersionError, "format 9"),
        (b"{}", TableError, "cannot be read"),
        (b"{", TableError, "cannot be read"),
    ],
)
def test_a_manifest_that_this_library_cannot_read_is_a_clear_error(
    table: MemoryTable, manifest: bytes, error: type[Exception], message: str
) -> None:
    (Path(table.uri) / manifest_name(2)).write_bytes(manifest)
    with pytest.raises(error, match=message):
        table.count()
