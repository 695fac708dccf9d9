"""Rows in any order come out in one order, in the same tables, and leave no file behind."""

import random
from pathlib import Path

import pyarrow as pa
import pytest

from memorypipe.pipeline.sorting import Sorter

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("said", pa.list_(pa.string()))])


def rows_of(*groups: tuple[str, int]) -> list[dict[str, object]]:
    return [
        {"k": key, "n": number, "said": [f"{key}{number}"] * (number % 3)}
        for key, count in groups
        for number in range(count)
    ]


def shuffled(rows: list[dict[str, object]], seed: int) -> list[dict[str, object]]:
    return random.Random(seed).sample(rows, len(rows))  # noqa: S311  # a test's dice


def sort(
    folder: Path, rows: list[dict[str, object]], *, batch: int, least_rows: int, **bounds: int
) -> list[pa.Table]:
    sorter = Sorter(folder, SCHEMA, by=["k", "n"], **bounds)
    for start in range(0, len(rows), batch):
        sorter.add(pa.Table.from_pylist(rows[start : start + batch], schema=SCHEMA))
    return list(sorter.groups(least_rows=least_rows))


@pytest.mark.parametrize("run_bytes", [1, 100, 1_000, 10**9])
@pytest.mark.parametrize("batch", [1, 3, 100])
def test_order_batches_and_memory_change_nothing(
    tmp_path: Path, batch: int, run_bytes: int
) -> None:
    rows = rows_of(("a", 1), ("b", 40), ("c", 1), ("d", 1), ("é", 7), ("z", 12), ("", 2))
    wanted = sort(tmp_path / "all", rows, batch=100, least_rows=5)
    mixed = shuffled(rows, batch)
    bounds = {"run_bytes": run_bytes, "read_bytes": 400}
    found = sort(tmp_path / "sorting", mixed, batch=batch, least_rows=5, **bounds)
    assert [table.to_pylist() for table in found] == [table.to_pylist() for table in wanted]
    assert not (tmp_path / "sorting").exists()


def test_groups_stay_whole_and_tables_end_where_they_are_long_enough(tmp_path: Path) -> None:
    rows = rows_of(("b", 3), ("a", 2), ("c", 1))
    tables = sort(tmp_path / "sorting", rows, batch=1, run_bytes=1, least_rows=3)
    assert [table["k"].to_pylist() for table in tables] == [["a", "a", "b", "b", "b"], ["c"]]
    assert tables[0]["n"].to_pylist() == [0, 1, 0, 1, 2]
    assert all(table.column("k").num_chunks == 1 for table in tables)


def test_a_group_longer_than_what_is_read_at_a_time_comes_whole(tmp_path: Path) -> None:
    rows = shuffled(rows_of(("a", 200), ("b", 1)), 1)
    bounds = {"run_bytes": 2_000, "read_bytes": 1}
    tables = sort(tmp_path / "sorting", rows, batch=30, least_rows=1, **bounds)
    assert [table.num_rows for table in tables] == [200, 1]
    assert tables[0]["n"].to_pylist() == list(range(200))


def test_no_rows_give_no_table(tmp_path: Path) -> None:
    assert sort(tmp_path / "sorting", [], batch=1, least_rows=1) == []
