"""Ray reads a table piece by piece at one version, and writes actions as one commit."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import ray

from memorypipe.errors import InvalidArgumentError, TableError
from memorypipe.schema import ACTIONS
from memorypipe.table.ray_io import MemoryTableSink, read_table
from memorypipe.table.table import MemoryTable
from tests.support.embeddings import HashEmbedder
from tests.support.table_actions import actions, add, minted, update

pytestmark = pytest.mark.usefixtures("ray_2_cpus")

_COLUMNS = ["memory_id", "scope", "text", "event_time", "is_live"]


def _rows(table: Any) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: (row["memory_id"], row["text"]))


def _arrow(dataset: Any) -> pa.Table:
    return pa.concat_tables(ray.get(dataset.to_arrow_refs()))


@pytest.mark.parametrize("backend", ["lance", "parquet"])
def test_a_dataset_holds_each_row_once_and_stays_at_its_version(
    tmp_path: Path, backend: str
) -> None:
    table = MemoryTable.open(tmp_path / "table", backend=backend)
    for number in range(5):
        batch = [add(f"Fact {number}", scope={"user_id": f"u{n}"}) for n in range(20)]
        table.commit(actions(*batch), run_id=f"r{number}")
    before = table.to_arrow(columns=_COLUMNS)
    dataset = table.to_dataset(columns=_COLUMNS)
    table.commit(
        actions(update(minted("Fact 0", {"user_id": "u0"}), "New", scope={"user_id": "u0"})),
        run_id="late",
    )
    read = _arrow(dataset.materialize())
    assert read.schema.names == _COLUMNS
    assert _rows(read) == _rows(before)
    every = ("live", "history")
    of_one = read_table(table.uri, columns=["text"], scope={"user_id": "u0"}, include=every)
    past = _arrow(of_one.materialize())
    assert sorted(past["text"].to_pylist()) == [*(f"Fact {n}" for n in range(5)), "New"]


def _actions(rows: int) -> pa.Table:
    texts = [f"Fact {number}" for number in range(rows)]
    scopes = [{"user_id": f"u{number % 7}"} for number in range(rows)]
    return actions(*(add(text, scope=scope) for text, scope in zip(texts, scopes, strict=True)))


def test_all_rows_of_a_dataset_become_one_commit_and_once_only(tmp_path: Path) -> None:
    rows = _actions(500)
    table = MemoryTable.open(tmp_path / "table")
    died = tmp_path / "died"

    class DiesOnce(MemoryTableSink):
        def write(self, blocks: Any, ctx: Any) -> str:
            name = super().write(blocks, ctx)
            if not died.exists():
                died.touch()
                os._exit(1)  # after its file is written: Ray tries the task again
            return name

    dataset = ray.data.from_arrow([rows.slice(start, 100) for start in range(0, 500, 100)])
    sink = DiesOnce(table.uri, run_id="bulk", imports=True)
    dataset.write_datasink(sink)
    assert died.exists()
    assert sink.result is not None
    assert (sink.result.outcome, sink.result.added) == ("landed", 500)
    assert sink.result.none == 0  # nothing came twice
    assert (table.version, table.count()) == (1, 500)
    assert set(table.to_arrow()["event"].to_pylist()) == {"IMPORT"}
    again = MemoryTableSink(table.uri, run_id="bulk", imports=True)
    dataset.write_datasink(again)
    assert again.result is not None
    assert (again.result.outcome, table.version) == ("already_landed", 1)
    assert not list((tmp_path / "table" / "staged").glob("*"))


def test_an_embedder_that_is_missing_shows_before_any_task(tmp_path: Path) -> None:
    own = HashEmbedder()
    table = MemoryTable.open(tmp_path / "table", embedder=own)
    with pytest.raises(TableError, match="'hash-a/4', which was not given"):
        MemoryTableSink(table.uri, run_id="bulk")
    with pytest.raises(InvalidArgumentError, match="'hash-a/4', not of 'hash-b/4'"):
        MemoryTableSink(table.uri, run_id="bulk", embedder=HashEmbedder(seed="b"))
    sink = MemoryTableSink(table.uri, run_id="bulk", embedder=own)
    ray.data.from_arrow(_actions(20)).write_datasink(sink)
    assert table.count() == 20
    assert table.to_arrow()["vector"].null_count == 0


def test_rows_that_are_no_actions_commit_nothing_and_leave_nothing(tmp_path: Path) -> None:
    rows = _actions(20)
    place = rows.schema.get_field_index("event")
    wrong = rows.set_column(place, "event", pa.repeat("SAY", 20)).cast(ACTIONS)
    dataset = ray.data.from_arrow([rows, wrong])
    with pytest.raises(ray.exceptions.RayTaskError, match="Unknown event 'SAY'"):
        dataset.write_datasink(MemoryTableSink(str(tmp_path / "table"), run_id="bulk"))
    assert not MemoryTable.exists(tmp_path / "table")
    assert not list((tmp_path / "table" / "staged").glob("*"))
