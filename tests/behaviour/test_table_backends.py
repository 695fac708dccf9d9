"""Which back end a table has, and who may open it."""

from pathlib import Path
from typing import Any

import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.table.backends import find_backend, open_storage
from memorypipe.table.storage import Where
from memorypipe.table.table import MemoryTable
from tests.support.table_actions import actions, add, delete, minted, update


def test_a_new_table_is_lance_unless_another_back_end_is_asked_for(tmp_path: Path) -> None:
    for name, wanted in {"a": None, "b": "lance", "c": "parquet"}.items():
        MemoryTable.open(tmp_path / name, backend=wanted)
    found = [find_backend(str(tmp_path / name)) for name in "abcd"]
    assert found == ["lance", "lance", "parquet", None]


def test_without_a_choice_the_table_that_is_there_is_taken(tmp_path: Path, backend: str) -> None:
    MemoryTable.open(tmp_path, backend=backend).commit(actions(add("Likes tea")), run_id="r1")
    assert MemoryTable.exists(tmp_path)
    assert MemoryTable.open(tmp_path).count() == 1
    assert find_backend(str(tmp_path)) == backend


def test_asking_for_another_back_end_than_the_tables_is_refused(
    tmp_path: Path, backend: str
) -> None:
    other = {"lance": "parquet", "parquet": "lance"}[backend]
    MemoryTable.open(tmp_path, backend=backend)
    for create in (True, False):
        with pytest.raises(InvalidArgumentError, match=rf"{backend!r}, not {other!r}.*leave"):
            MemoryTable.open(tmp_path, backend=other, create=create)
    assert find_backend(str(tmp_path)) == backend


def test_a_scan_gives_the_rows_that_are_asked_for_and_no_other(table: MemoryTable) -> None:
    tea, cat = minted("Likes tea"), minted("Has a cat")
    table.commit(actions(add("Likes tea"), add("Has a cat"), add("x", scope={})), run_id="r1")
    first = table.commit_time
    table.commit(actions(update(tea, "Likes coffee"), delete(cat)), run_id="r2")
    snapshot = open_storage(table.uri).snapshot()

    def scan(**where: Any) -> list[str]:
        rows = snapshot.scan(["event", "text"], Where(**where)).to_pylist()
        return sorted(f"{row['event']} {row['text']}" for row in rows)

    new, old = ["DELETE ", "UPDATE Likes coffee"], ["ADD Has a cat", "ADD Likes tea"]
    assert scan() == sorted([*new, *old, "ADD x"])
    assert scan(rows="current") == ["ADD x", *new]
    assert scan(rows="live") == ["ADD x", "UPDATE Likes coffee"]
    assert scan(touched_at=first) == [*old, "ADD x"]
    assert scan(touched_at=table.commit_time) == sorted([*new, *old])
    assert scan(events=["DELETE"], rows="current") == ["DELETE "]
    assert scan(memory_ids=[tea]) == ["ADD Likes tea", "UPDATE Likes coffee"]
    assert scan(scope_keys=["[]"], memory_ids=[tea]) == scan(events=[]) == []
    assert scan(record_type="run", memory_ids=["r2"]) == ["COMMIT "]
