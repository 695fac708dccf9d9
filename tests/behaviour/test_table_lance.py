"""What only the Lance back end has: other readers, maintenance, the files on disk."""

from pathlib import Path

import lance
import lancedb
import orjson
import pyarrow as pa
import pytest

from memorypipe.errors import TableError, TableVersionError
from memorypipe.schema import table_schema
from memorypipe.table.lance import LanceStorage
from memorypipe.table.table import MemoryTable
from tests.support.table_actions import SteppingClock, actions, add, ledger, minted, update


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
    for number in range(66):
        table.commit(actions(add(f"text {number}")), run_id=f"r{number}")
        if number == 40:
            before = table.at(20).to_arrow()
    fragments = lance.dataset(f"{table.uri}/memories.lance").get_fragments()
    assert len(fragments) < 10
    assert (table.version, table.count(), table.runs().num_rows) == (66, 66, 66)
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
