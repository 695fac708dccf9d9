"""A plan is committed to the table that it was made for."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from memorypipe import MemoryPipeline, MemoryTable, Plan
from memorypipe.errors import InvalidArgumentError
from memorypipe.pipeline.runs.folder import OPEN_WINDOWS, RunFolder
from memorypipe.pipeline.runs.record import write_record
from memorypipe.pipeline.runs.summary import RunSummary
from memorypipe.schema import FACTS
from memorypipe.table.parquet.mirror import MIRROR_FILE
from tests.support.table_actions import START, actions, add


@pytest.fixture
def plan(tmp_path: Path, backend: str) -> Plan:
    """A plan with one memory for a new table of a back end."""
    uri = str(tmp_path / "table")
    with RunFolder.scratch(uri) as scratch:
        folder = scratch.become("r1", now=START)
    folder.write_table("actions", actions(add("Likes tea")))
    folder.write_table("open", OPEN_WINDOWS.empty_table())
    folder.write_part("facts", 0, FACTS.empty_table())
    folder.write_json("manifest", {"base_version": 0, "embedder": "none", "backend": backend})
    write_record(folder, RunSummary(run_id="r1", status="planned").to_dict())
    return Plan(uri, "r1")


def test_a_new_table_has_the_back_end_of_its_plan_and_keeps_the_mirror(
    plan: Plan, tmp_path: Path, backend: str
) -> None:
    pipeline = MemoryPipeline.offline(plan.table_uri, mirror=str(tmp_path / "mirror"))
    assert pipeline.apply(plan).added == 1
    assert MemoryTable.open(plan.table_uri, backend=backend, create=False).count() == 1
    assert pq.read_table(tmp_path / "mirror" / MIRROR_FILE).num_rows == 1


def test_another_back_end_may_be_asked_for_at_the_commit(plan: Plan, backend: str) -> None:
    other = "lance" if backend == "parquet" else "parquet"
    assert MemoryPipeline.offline(plan.table_uri, backend=other).apply(plan).added == 1
    assert MemoryTable.open(plan.table_uri, backend=other, create=False).count() == 1


def test_an_unknown_back_end_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="Unknown backend 'csv'"):
        MemoryPipeline.offline(str(tmp_path), backend="csv")
