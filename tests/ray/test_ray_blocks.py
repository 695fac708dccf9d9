"""Blocks cut for workers: what the cut relies on in Ray Data, one test per behaviour."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
from ray.data.datatype import DataType
from ray.data.expressions import col, udf

from memorypipe.expressions.base import CellFunction
from memorypipe.expressions.options import WorkerOptions
from memorypipe.expressions.ray_exprs import WorkerExpr
from memorypipe.expressions.ray_rules import install_rules

ROWS = 50
AT_A_TIME = 8

pytestmark = pytest.mark.usefixtures("ray_2_cpus")


class Sized:
    """Notes how many rows each call gets."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def __call__(self, column: Any) -> pa.Array:
        with self._log.open("a") as log:
            log.write(f"{len(column)}\n")
        return pa.array([f"<{str(cell)[:9]}>" for cell in column.to_pylist()])


class Cutting:
    """Makes an expression that asks for few rows at a time, and tells what it got."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def expr(
        self,
        column: str,
        *,
        workers: int = 1,
        cpus: int = 0,
        begin: Callable[[], None] | None = None,
    ) -> WorkerExpr:
        install_rules()
        function = CellFunction(Sized(self._log), name="sized", kind=pa.string())
        return WorkerExpr(
            fn=function,
            args=[],
            kwargs={"cell": col(column)},
            data_type=DataType.from_arrow(pa.string()),
            options=WorkerOptions(num_workers=workers, num_cpus=cpus),
            block_rows=AT_A_TIME,
            begin=begin,
        )

    def sizes(self) -> list[int]:
        return [int(line) for line in self._log.read_text().split()]


@pytest.fixture
def cutting(tmp_path: Path) -> Cutting:
    return Cutting(tmp_path / "sizes")


def _rows(count: int = ROWS, blocks: int = 1) -> Any:
    items = [{"x": f"{n:09d}"} for n in range(count)]
    return ray.data.from_items(items, override_num_blocks=blocks)


def test_one_large_block_comes_in_slices_and_every_row_once(cutting: Cutting) -> None:
    got = _rows().with_column("y", cutting.expr("x")).materialize()
    assert sorted(cutting.sizes()) == [2, *[AT_A_TIME] * 6]
    assert sorted(row["y"] for row in got.take_all()) == [f"<{n:09d}>" for n in range(ROWS)]
    assert got.num_blocks() == 7, "what a worker has answered is out before the rest is"


def test_small_blocks_come_together(cutting: Cutting) -> None:
    got = _rows(40, blocks=10).with_column("y", cutting.expr("x")).materialize()
    assert cutting.sizes() == [AT_A_TIME] * 5
    assert sorted(row["y"] for row in got.take_all()) == [f"<{n:09d}>" for n in range(40)]


def test_blocks_of_other_columns_stay_apart(cutting: Cutting) -> None:
    of_numbers = ray.data.from_arrow(pa.table({"x": ["a"], "n": [1]}))
    of_texts = ray.data.from_arrow(pa.table({"x": ["b"], "n": ["one"]}))
    mixed = of_numbers.union(of_texts).with_column("y", cutting.expr("x"))
    blocks = [
        pa.table(block) for block in mixed.iter_batches(batch_size=None, batch_format="pyarrow")
    ]
    assert sorted((b["y"].to_pylist(), b["n"].to_pylist()) for b in blocks) == [
        (["<a>"], [1]),
        (["<b>"], ["one"]),
    ]
    assert cutting.sizes() == [1, 1]


@pytest.mark.parametrize("cpus", [0, 1])
def test_a_file_that_is_read_is_cut_too(cutting: Cutting, tmp_path: Path, cpus: int) -> None:
    pq.write_table(pa.table({"x": [str(n) for n in range(ROWS)]}), tmp_path / "rows.parquet")
    dataset = ray.data.read_parquet(str(tmp_path / "rows.parquet"))
    read = dataset.with_column("y", cutting.expr("x", cpus=cpus))
    assert sorted(row["x"] for row in read.take_all()) == sorted(str(n) for n in range(ROWS))
    assert max(cutting.sizes()) == AT_A_TIME


def test_order_is_kept_where_it_is_asked_for(cutting: Cutting) -> None:
    context = ray.data.DataContext.get_current()
    before = context.execution_options.preserve_order
    context.execution_options.preserve_order = True
    try:
        got = _rows(blocks=3).with_column("y", cutting.expr("x")).take_all()
    finally:
        context.execution_options.preserve_order = before
    assert [row["y"] for row in got] == [f"<{n:09d}>" for n in range(ROWS)]


def test_all_workers_get_a_share_of_one_block(cutting: Cutting) -> None:
    got = _rows(400).with_column("y", cutting.expr("x", workers=2)).materialize()
    assert got.count() == 400
    assert len(cutting.sizes()) == 50


def test_long_rows_are_cut_finer(cutting: Cutting) -> None:
    long_rows = [{"x": str(n) * 400_000} for n in range(8)]
    dataset = ray.data.from_items(long_rows, override_num_blocks=1)
    dataset.with_column("y", cutting.expr("x")).materialize()
    assert cutting.sizes() == [2] * 4, "at most a megabyte at a time"


def test_a_limit_still_costs_what_it_returns(cutting: Cutting) -> None:
    assert len(_rows(200).with_column("y", cutting.expr("x")).take(1)) == 1
    assert cutting.sizes() == [1]


def test_a_block_without_rows_is_no_trouble(cutting: Cutting) -> None:
    empty = _rows().filter(expr=col("x") == "none").with_column("y", cutting.expr("x"))
    assert empty.take_all() == []


class Adder:
    """A class of the user's own, which Ray makes once per worker."""

    def __call__(self, column: pa.Array) -> pa.Array:
        return pa.array([f"{cell}+" for cell in column.to_pylist()])


def test_a_worker_begins_before_it_has_rows(cutting: Cutting, tmp_path: Path) -> None:
    log = tmp_path / "sizes"

    def begin() -> None:
        with log.open("a") as lines:
            lines.write("0\n")

    adder: Any = udf(return_dtype=DataType.from_arrow(pa.string()))(Adder)  # Ray's type is wrong
    add = adder()
    cut = cutting.expr("x", begin=begin)
    got = _rows(16).with_column("y", cut).with_column("z", add(col("y"))).take_all()
    assert cutting.sizes() == [0, AT_A_TIME, AT_A_TIME], "once, and first"
    assert {row["z"] for row in got} == {f"<{n:09d}>+" for n in range(16)}
