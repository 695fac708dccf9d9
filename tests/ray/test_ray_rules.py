"""What the expressions rely on in Ray Data, one test per behaviour.

Each evaluation of a row is counted in a file, so a row that is paid twice or not at all shows.
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import ray
from ray.data import ActorPoolStrategy
from ray.data._internal.logical.optimizers import LogicalOptimizer
from ray.data.datatype import DataType
from ray.data.expressions import col, monotonically_increasing_id, unnest

from memorypipe.expressions.base import CellFunction
from memorypipe.expressions.options import WorkerOptions
from memorypipe.expressions.ray_exprs import WorkerExpr
from memorypipe.expressions.ray_rules import install_rules

ROWS = 40
STRING = pa.string()
STRUCT = pa.struct([("text", pa.string()), ("size", pa.int64())])


class Counted:
    """Notes every row that it is called with."""

    def __init__(self, stage: str, log: Path, kind: pa.DataType) -> None:
        self._stage = stage
        self._log = log
        self._kind = kind

    def __call__(self, column: Any) -> pa.Array:
        cells = column.to_pylist()
        with self._log.open("a") as log:
            log.writelines(f"{self._stage} {cell}\n" for cell in cells)
        if self._kind == STRUCT:
            return pa.array([{"text": str(c), "size": 1} for c in cells], STRUCT)
        return pa.array([f"{self._stage}({cell})" for cell in cells])


class Rig:
    """Makes counted expressions and tells what was evaluated."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def expr(self, stage: str, column: str, kind: pa.DataType = STRING) -> WorkerExpr:
        install_rules()
        function = CellFunction(Counted(stage, self._log, kind), name=stage, kind=kind)
        return WorkerExpr(
            fn=function,
            args=[],
            kwargs={"cell": col(column)},
            data_type=DataType.from_arrow(kind),
            options=WorkerOptions(),
        )

    def chain(self, dataset: Any) -> Any:
        first = dataset.with_column("a", self.expr("one", "x"))
        return first.with_column("b", self.expr("two", "a"))

    def counts(self) -> dict[str, int]:
        """Evaluations per stage since the last look; a row evaluated twice counts twice."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        self._log.unlink(missing_ok=True)
        return dict(Counter(line.split()[0] for line in lines))


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "evaluated")


@pytest.fixture
def rows(ray_2_cpus: None) -> Any:  # noqa: ARG001  # Ray has to be up
    return ray.data.from_items([{"x": n} for n in range(ROWS)], override_num_blocks=4)


@pytest.mark.usefixtures("ray_2_cpus")
class TestOncePerRow:
    def test_two_stages_finish_on_two_cpus_each_row_once(self, rig: Rig, rows: Any) -> None:
        got = sorted(rig.chain(rows).take_all(), key=lambda row: row["x"])
        assert rig.counts() == {"one": ROWS, "two": ROWS}
        assert [row["b"] for row in got] == [f"two(one({n}))" for n in range(ROWS)]

    def test_a_column_used_by_others_filtered_on_selected_and_renamed(
        self, rig: Rig, rows: Any
    ) -> None:
        kept = rig.chain(rows).filter(expr=col("b") != "two(one(0))")
        kept = kept.select_columns(["b"]).rename_columns({"b": "c"})
        assert kept.count() == ROWS - 1
        assert rig.counts() == {"one": ROWS, "two": ROWS}

    def test_behind_a_filter_only_what_passed_it(self, rig: Rig, rows: Any) -> None:
        passed = rows.filter(expr=col("x") < 20).with_column("a", rig.expr("one", "x"))
        passed = passed.filter(expr=col("x") < 10).with_column("b", rig.expr("two", "a"))
        passed.materialize()
        assert rig.counts() == {"one": 20, "two": 10}

    def test_a_struct_unnested_into_columns(self, rig: Rig, rows: Any) -> None:
        unnested = rows.with_columns(unnest(rig.expr("one", "x", STRUCT)))
        got = sorted(unnested.take_all(), key=lambda row: row["x"])
        assert rig.counts() == {"one": ROWS}
        assert got[3] == {"x": 3, "text": "3", "size": 1}

    def test_two_expressions_on_one_column(self, rig: Rig, rows: Any) -> None:
        both = rows.with_column("a", rig.expr("one", "x")).with_column("b", rig.expr("two", "x"))
        both.materialize()
        assert rig.counts() == {"one": ROWS, "two": ROWS}


@pytest.mark.usefixtures("ray_2_cpus")
class TestLimits:
    def test_take_costs_what_it_returns(self, rig: Rig, rows: Any) -> None:
        assert len(rig.chain(rows).take(1)) == 1
        assert rig.counts() == {"one": 1, "two": 1}

    def test_limit_costs_what_it_returns(self, rig: Rig, rows: Any) -> None:
        assert len(rig.chain(rows).limit(5).take_all()) == 5
        assert rig.counts() == {"one": 5, "two": 5}

    def test_limit_of_an_unnested_struct(self, rig: Rig, rows: Any) -> None:
        assert len(rows.with_columns(unnest(rig.expr("one", "x", STRUCT))).take(2)) == 2
        assert rig.counts() == {"one": 2}

    def test_a_limit_stays_above_what_depends_on_the_place_of_a_row(
        self, rig: Rig, rows: Any
    ) -> None:
        numbered = rows.with_columns(
            {"n": monotonically_increasing_id(), "a": rig.expr("one", "x")}
        )
        assert len(numbered.take(2)) == 2
        assert rig.counts()["one"] > 2, "rows behind the limit were needed for their numbers"


@pytest.mark.usefixtures("ray_2_cpus")
def test_looking_at_a_dataset_costs_nothing(rig: Rig, rows: Any) -> None:
    chain = rig.chain(rows)
    assert chain.columns() == ["x", "a", "b"]
    assert chain.schema().types == [pa.int64(), pa.string(), pa.string()]
    assert chain.count() == ROWS
    assert repr(chain)
    assert rig.counts() == {}


@pytest.mark.usefixtures("ray_2_cpus")
@pytest.mark.parametrize(("kind", "cpus"), [("IO", 0), ("CPU", 1)])
def test_a_projection_gets_the_pool_that_its_expression_asks_for(
    rig: Rig, rows: Any, kind: str, cpus: int
) -> None:
    options = WorkerOptions.parse(WorkerOptions(), {"num_workers": {kind: 3}})
    wanted = replace(rig.expr("one", "x"), options=options)
    plan = LogicalOptimizer().optimize(rows.with_column("a", wanted)._logical_plan)
    project: Any = plan.dag
    assert isinstance(project.compute, ActorPoolStrategy)
    assert (project.compute.min_size, project.compute.max_size) == (3, 3)
    assert project.ray_remote_args["num_cpus"] == cpus


@pytest.mark.usefixtures("ray_2_cpus")
def test_shuffled_scopes_reach_the_next_operator_whole() -> None:
    rows = [{"scope_key": f"s{n % 7}", "n": n} for n in range(700)]
    dataset = ray.data.from_items(rows, override_num_blocks=5)
    parts = dataset.repartition(3, keys=["scope_key"]).map_batches(
        _scopes_of_call, batch_size=None, batch_format="pyarrow"
    )
    seen = [row["scope_key"] for row in parts.take_all()]
    assert sorted(seen) == sorted(set(seen)), "a scope came in two calls"
    assert len(seen) == 7


def _scopes_of_call(batch: pa.Table) -> pa.Table:
    return pa.table({"scope_key": batch["scope_key"].unique()})
