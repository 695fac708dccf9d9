"""A plan that a run has made is looked at, filtered, applied in part and undone."""

from pathlib import Path

import pytest

from memorypipe import MemoryPipeline, MemoryTable, compare

pytestmark = pytest.mark.usefixtures("ray_2_cpus")

LOG = [
    {
        "user_id": "u1",
        "conversation_id": "c1",
        "messages": [
            {"role": "user", "content": "I live in Leeds. I am allergic to peanuts.", "id": "m1"}
        ],
    },
    {
        "user_id": "u1",
        "conversation_id": "c2",
        "messages": [{"role": "user", "content": "I am allergic to peanuts.", "id": "m2"}],
    },
    {
        "user_id": "u2",
        "conversation_id": "c3",
        "messages": [{"role": "user", "content": "I have two cats.", "id": "m3"}],
    },
]


def test_from_a_log_to_an_undone_part_of_its_plan(tmp_path: Path) -> None:
    pipeline = MemoryPipeline.offline(str(tmp_path / "table"), backend="parquet", embedder="none")
    plan = pipeline.plan(LOG)
    actions = plan.actions().to_pylist()
    known = [action for action in actions if action["event"] == "NONE"]
    peanuts = next(a["memory_id"] for a in actions if a["event"] == "ADD" and "pean" in a["text"])
    assert [action["rests_on"] for action in known] == [peanuts]
    assert {row["window_id"] for row in plan.to_dataset("facts").take_all()} == set(
        plan.windows()["window_id"].to_pylist()
    )
    assert plan.to_dataset().count() == len(actions)
    part = plan.filter("not (event = 'ADD' and text like '%peanuts%')", leave_open=True)
    assert part.manifest["filtered"]["dropped_with"] == {"NONE": 1}
    assert compare(plan, part).count("same") == plan.summary().facts
    assert pipeline.apply(part, commit_every=1).added == len(actions) - 2
    again = pipeline.plan(LOG)
    assert again.windows()["conversation_id"].to_pylist() == ["c1", "c2"]
    assert [row["new"] for row in again.diff().rows() if "pean" in row["new"]]
    table = MemoryTable.open(tmp_path / "table", create=False)
    assert table.undo(part.run_id).deleted == len(actions) - 2
    assert table.count() == 0
