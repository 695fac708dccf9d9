"""An export is a plain file with what was asked for, whatever the back end."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.schema import TIME, table_schema
from memorypipe.table.table import MemoryTable
from tests.support.table_actions import USER, actions, add, delete, minted, update

_OTHER = {"user_id": "u2", "agent_id": "a"}
_SAID = datetime(2024, 3, 1, 10, tzinfo=UTC)


@pytest.fixture
def filled(table: MemoryTable) -> MemoryTable:
    """Two live memories, one superseded revision, and one deleted memory."""
    first = (
        add("Likes tea", event_time=_SAID, topics=["food"]),
        add("Has a dog"),
        add("Lives in Oslo", scope=_OTHER),
    )
    table.commit(actions(*first), run_id="r1", labels={"by": "test"})
    changes = (update(minted("Likes tea"), "Likes coffee"), delete(minted("Has a dog")))
    table.commit(actions(*changes), run_id="r2")
    return table


def _sorted(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=lambda row: (row["memory_id"], row["revision"]))


@pytest.mark.parametrize("live", [True, False])
def test_parquet_holds_the_rows_of_the_table_with_their_types(
    filled: MemoryTable, tmp_path: Path, *, live: bool
) -> None:
    done = filled.export(tmp_path / "out.parquet", live=live)
    file = pq.read_table(tmp_path / "out.parquet")
    include = ("live",) if live else ("live", "deleted", "invalid", "expired", "history")
    expected = filled.to_arrow(include=include)
    names = [name for name in table_schema().names if name != "search_text"]
    assert file.column_names == names
    assert _sorted(file) == _sorted(expected.select(names))
    assert (done.rows, done.version) == (expected.num_rows, 2) == (2 if live else 5, 2)
    assert file.schema.metadata[b"memorypipe.version"] == b"2"


def test_json_lines_have_objects_iso_times_and_no_vectors(
    filled: MemoryTable, tmp_path: Path
) -> None:
    path = tmp_path / "out.jsonl"
    assert filled.export(path, "jsonl", scope=USER).rows == 1
    (row,) = map(orjson.loads, path.read_bytes().splitlines())
    assert row["scope"] == USER
    assert row["text"] == "Likes coffee"
    assert row["topics"] == ["food"]
    assert row["event_time"] == "2024-03-01T10:00:00Z"
    assert not {"vector", "search_text"} & set(row)


def test_the_past_is_exported_as_it_was(filled: MemoryTable, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    filled.at(1).export(path, "jsonl")
    texts = {orjson.loads(line)["text"] for line in path.read_bytes().splitlines()}
    assert texts == {"Likes tea", "Has a dog", "Lives in Oslo"}


def test_what_has_expired_is_no_live_row(table: MemoryTable, tmp_path: Path) -> None:
    rows = actions(add("Is in Rome"), add("Lives in Oslo"))
    expiry = pa.array([datetime(2024, 5, 1, tzinfo=UTC), None], TIME)
    table.commit(rows.append_column("expires_at", expiry), run_id="r1")
    assert table.export(tmp_path / "live.parquet").rows == 1
    assert table.export(tmp_path / "all.parquet", live=False).rows == 2


def test_an_empty_table_gives_a_file_without_rows(table: MemoryTable, tmp_path: Path) -> None:
    assert table.export(tmp_path / "out.parquet").rows == 0
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 0


def test_a_file_that_was_there_stays_until_the_new_one_is_whole(
    filled: MemoryTable, tmp_path: Path, reopen: Callable[..., MemoryTable]
) -> None:
    path = tmp_path / "out.parquet"
    filled.export(path)
    filled.commit(actions(add("Plays chess")), run_id="r3")
    assert reopen().export(path).rows == 3
    assert pq.read_table(path).num_rows == 3
    assert [each.name for each in tmp_path.glob("*out*")] + list(tmp_path.glob(".out*")) == [
        "out.parquet"
    ]


def test_what_cannot_be_exported_says_why(table: MemoryTable, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"'csv'; choices.*parquet"):
        table.export(tmp_path / "out.csv", "csv")
    with pytest.raises(InvalidArgumentError, match="its folder is not there"):
        table.export(tmp_path / "no" / "out.parquet")
    with pytest.raises(InvalidArgumentError, match="it is a folder"):
        table.export(tmp_path)
