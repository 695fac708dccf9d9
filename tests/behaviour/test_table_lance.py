"""What only the Lance back end has: other readers, maintenance, the files on disk."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import lancedb
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from memorypipe.errors import TableError, TableVersionError
from memorypipe.schema import table_schema
from memorypipe.table.embedding import Revector
from memorypipe.table.lance.cluster import cluster, groups
from memorypipe.table.lance.dataset import find_head
from memorypipe.table.lance.storage import LanceSnapshot, LanceStorage
from memorypipe.table.records import head_row
from memorypipe.table.search_all import Wanted
from memorypipe.table.storage import RaceLostError, Where
from memorypipe.table.table import MemoryTable
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


@pytest.fixture
def table(tmp_path: Path) -> MemoryTable:
    return MemoryTable.open(tmp_path / "table", clock=SteppingClock())


def test_lancedb_opens_the_table_and_finds_the_live_rows(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea"), add("Runs")), run_id="r1")
    table.commit(actions(update(minted("Likes tea"), "Likes coffee")), run_id="r2")
    foreign = lancedb.connect(table.uri).open_table("memories")
    rows = foreign.search().where("is_live").to_arrow()
    assert sorted(rows["text"].to_pylist()) == ["Likes coffee", "Runs"]
    assert rows.schema.equals(table_schema())


def test_ledger_files_lie_beside_the_dataset_under_the_runs_name(table: MemoryTable) -> None:
    table.commit(actions(), run_id="../odd name", ledger=ledger("m1"))
    (file,) = (Path(table.uri) / "ledger").iterdir()
    assert file.name.startswith(".._odd_name-")
    assert file.suffix == ".parquet"


def test_many_small_commits_are_merged_and_nothing_else_changes(table: MemoryTable) -> None:
    for number in range(40):
        table.commit(actions(add(f"text {number}")), run_id=f"r{number}")
        if number == 30:
            before = table.at(20).to_arrow()
    fragments = lance.dataset(f"{table.uri}/memories.lance").get_fragments()
    assert len(fragments) < 20
    assert (table.version, table.count(), table.runs().num_rows) == (40, 40, 40)
    assert table.at(20).to_arrow().equals(before)


def test_the_head_lies_in_a_fragment_of_its_own(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    snapshot = LanceStorage(table.uri).snapshot()
    fragment = snapshot.dataset.get_fragment(snapshot.head_fragment)
    assert fragment.to_table(columns=["record_type"])["record_type"].to_pylist() == ["head"]


def test_a_table_of_a_newer_format_is_read_but_not_written(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    dataset = lance.dataset(f"{table.uri}/memories.lance")
    head = dataset.to_table(filter="record_type = 'head'").to_pylist()[0]
    payload = orjson.loads(head["payload"]) | {"format_version": 99}
    head["payload"] = orjson.dumps(payload).decode()
    dataset.delete("record_type = 'head'")
    lance.write_dataset(
        pa.Table.from_pylist([head], schema=table_schema()), dataset.uri, mode="append"
    )
    assert table.count() == 1
    with pytest.raises(TableVersionError, match="version 99"):
        table.commit(actions(add("Runs")), run_id="r2")


def test_a_dataset_that_is_no_memory_table_is_refused(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"a": [1, 2]}), tmp_path / "memories.lance")
    with pytest.raises(TableError, match="no head row"):
        MemoryTable.open(tmp_path)


def dataset(table: MemoryTable) -> Any:
    return lance.dataset(f"{table.uri}/memories.lance")


def fill(table: MemoryTable, commits: int = 5) -> None:
    """Commit to two scopes in turn, and change what was added first."""
    for number in range(commits):
        scope = {"user_id": f"u{number % 2}"}
        rows = [add(f"text {number}", scope=scope)]
        if number >= 2:
            earlier = minted(f"text {number - 2}", scope)
            rows.append(update(earlier, f"changed {number}", scope=scope))
        table.commit(actions(*rows), run_id=f"r{number}")


def all_rows(table: MemoryTable) -> pa.Table:
    return table.to_arrow(include=["live", "deleted", "history"])


def test_optimize_puts_the_live_rows_of_a_scope_side_by_side(table: MemoryTable) -> None:
    fill(table)
    before = all_rows(table)
    table.optimize()
    assert all_rows(table).equals(before)
    (first, _) = dataset(table).get_fragments()
    rows = first.to_table(columns=["is_live", "scope_key"])
    live = rows["is_live"].to_pylist()
    assert live == sorted(live, reverse=True)
    scopes = rows["scope_key"].to_pylist()[: sum(live)]
    assert scopes == sorted(scopes)


def test_optimize_of_what_is_in_order_writes_nothing(table: MemoryTable) -> None:
    fill(table)
    table.optimize()
    version = dataset(table).version
    table.optimize()
    assert dataset(table).version == version


def test_a_writer_wins_over_optimize(table: MemoryTable) -> None:
    fill(table)
    snapshot = LanceStorage(table.uri).snapshot()
    (group,) = groups(snapshot.dataset, snapshot.head_fragment, vector_dim=256)
    table.commit(
        actions(update(minted("text 4", {"user_id": "u0"}), "x", scope={"user_id": "u0"})),
        run_id="x",
    )
    before = all_rows(table)
    with pytest.raises(RaceLostError):
        cluster(snapshot.dataset, group)
    assert all_rows(table).equals(before)


def test_clean_takes_what_is_old_and_named_by_no_version(table: MemoryTable) -> None:
    fill(table)
    before = all_rows(table)
    left_over = Path(table.uri) / "memories.lance" / "data" / "left-over.lance"
    left_over.write_bytes(b"of a writer that was killed")
    storage = LanceStorage(table.uri)
    storage.clean(older_than=timedelta(hours=1))
    assert left_over.exists()
    assert len(dataset(table).versions()) > 5
    storage.clean(older_than=timedelta(0))
    assert not left_over.exists()
    assert len(dataset(table).versions()) == 1
    assert all_rows(table).equals(before)


def test_purge_leaves_no_byte_of_what_was_taken_out(table: MemoryTable) -> None:
    fill(table)
    table.optimize()
    old = dataset(table)
    old.tags.create("kept", old.version)
    keys = old.to_table(columns=["text"], with_row_address=True)
    gone = keys.filter(pc.equal(keys["text"], "changed 4"))["_rowaddr"]
    snapshot = LanceStorage(table.uri).snapshot()
    assert b"changed 4" in stored(table)
    snapshot.commit(
        closed=gone.combine_chunks(),
        rows=table_schema().empty_table(),
        head=head_row(snapshot.head),
    )
    before = all_rows(table)
    LanceStorage(table.uri).purge()
    assert all_rows(table).equals(before)
    assert before.num_rows == 7
    assert b"changed 4" not in stored(table)
    assert (len(dataset(table).versions()), dataset(table).tags.list()) == (1, {})


def test_a_commit_does_not_land_on_others_whose_versions_were_cleaned_away_meanwhile(
    table: MemoryTable,
) -> None:
    fill(table)
    snapshot = LanceStorage(table.uri).snapshot()
    for number in range(2):
        table.commit(actions(add(f"later {number}")), run_id=f"later-{number}")
    LanceStorage(table.uri).clean(older_than=timedelta(0))
    before = all_rows(table)
    with pytest.raises(RaceLostError):
        snapshot.commit(
            closed=pa.array([], pa.uint64()),
            rows=table_schema().empty_table(),
            head=head_row(snapshot.head),
        )
    assert all_rows(table).equals(before)


def test_a_commit_under_way_during_a_purge_does_not_land(table: MemoryTable) -> None:
    fill(table)
    # The second purge finds nothing to merge: the version that was read is the newest one.
    LanceStorage(table.uri).purge()
    snapshot = LanceStorage(table.uri).snapshot()
    LanceStorage(table.uri).purge()
    with pytest.raises(RaceLostError):
        snapshot.commit(
            closed=pa.array([], pa.uint64()),
            rows=table_schema().empty_table(),
            head=head_row(snapshot.head),
        )


def stored(table: MemoryTable) -> bytes:
    """Read all that lies in the table's place; small texts are stored as they are."""
    return b"".join(path.read_bytes() for path in Path(table.uri).rglob("*") if path.is_file())


def test_short_ids_are_found_as_long_ones_are(table: MemoryTable) -> None:
    table.commit(actions(add("a", memory_id="m"), add("b", memory_id="long enough")), run_id="r1")
    for name in ("m", "long enough"):
        assert table.commit(actions(update(name, f"{name} c")), run_id=name).updated == 1


@dataclass(frozen=True)
class Overtaken(LanceStorage):
    """A storage whose files others merge and purge right after some of its openings."""

    left: list[bool]

    def _open(self) -> Any:
        opened = super()._open()
        if self.left and self.left.pop():
            rewritten(self.uri)
        return opened


def rewritten(uri: str) -> None:
    """Leave no data file that was there."""
    table = MemoryTable(uri, LanceStorage(uri), SteppingClock())
    rows = table.to_arrow(columns=["memory_id", "scope"]).slice(0, 1).to_pylist()
    gone = [delete(row["memory_id"], scope=dict(row["scope"])) for row in rows]
    table.commit(actions(*gone), run_id=f"rewritten {table.version}")
    LanceStorage(uri).purge()


FOUND = Wanted(kind="keyword", query="text", k=3, now=START, filter=pc.field("text") != "")
READS: dict[str, Callable[[LanceSnapshot], object]] = {
    "scan": lambda snapshot: snapshot.scan(["text"], Where()),
    "runs": lambda snapshot: snapshot.scan(["memory_id"], Where(record_type="run")),
    "one run": lambda snapshot: snapshot.scan(
        ["memory_id"], Where(record_type="run", memory_ids=["r1"])
    ),
    "locate": lambda snapshot: snapshot.locate(
        pa.array([minted("text 1")]), pa.array([], pa.string())
    ),
    "search": lambda snapshot: snapshot.search_all(FOUND),
    "pieces": lambda snapshot: [list(each.scan(["text"], Where())) for each in snapshot.pieces()],
    "head": lambda snapshot: find_head(snapshot.dataset),
    "cluster": lambda snapshot: cluster(snapshot.dataset, fragments(snapshot)),
    "cluster anew": lambda snapshot: cluster(lance.dataset(snapshot.uri), fragments(snapshot)),
    "reembed": lambda snapshot: snapshot.replace_vectors(
        Revector(dim=4, embed=None, batch_rows=9),
        rows=table_schema(4).empty_table(),
        head=head_row(replace(snapshot.head, vector_dim=4)),
    ),
}


def fragments(snapshot: LanceSnapshot) -> list[int]:
    numbers = [each.fragment_id for each in snapshot.dataset.get_fragments()]
    return [number for number in numbers if number != snapshot.head_fragment]


def test_who_reads_files_that_a_purge_removed_has_lost_a_race(table: MemoryTable) -> None:
    for number in range(3):
        table.commit(actions(add(f"text {number}")), run_id=f"r{number}")
    snapshot = LanceStorage(table.uri).snapshot()
    rewritten(table.uri)
    for read in READS.values():
        with pytest.raises(TableError, match=r"is gone|merged meanwhile|any more"):
            read(snapshot)


def test_a_commit_beside_an_erasure_tries_again_and_lands(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea"), add("Runs")), run_id="r1")
    storage = Overtaken(table.uri, [True, False, True])
    writer = MemoryTable(table.uri, storage, SteppingClock())
    assert writer.commit(actions(add("Has a cat")), run_id="r2").outcome == "landed"
    assert table.to_arrow(columns=["text"])["text"].to_pylist() == ["Has a cat"]


@pytest.mark.parametrize("times", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_optimize_beside_others_that_merge_and_purge_gives_way(
    table: MemoryTable, times: int
) -> None:
    fill(table)
    Overtaken(table.uri, [True] * times + [False]).optimize()
    assert (table.count(), table.version) == (5 - times, 5 + times)


def test_clean_writes_no_fragment_anew_of_which_no_row_was_taken_out(table: MemoryTable) -> None:
    fill(table)
    table.commit(actions(add("Has a cat"), add("Runs")), run_id="r9")
    (untouched,) = (each for each in dataset(table).get_fragments() if each.physical_rows == 3)
    rows = all_rows(table)
    LanceStorage(table.uri).clean(older_than=timedelta(days=1))
    left = dataset(table).get_fragments()
    assert untouched.fragment_id in {each.fragment_id for each in left}
    assert not any(each.num_deletions for each in left)
    assert all_rows(table).equals(rows)
    version = dataset(table).version
    LanceStorage(table.uri).clean(older_than=timedelta(days=1))
    assert dataset(table).version == version
