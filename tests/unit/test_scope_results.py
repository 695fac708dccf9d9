"""What comes of scopes is written down in order, part by part, and each scope once."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from memorypipe.errors import MemoryPipeError
from memorypipe.llm.stage import Outcome
from memorypipe.pipeline.runs.folder import OPEN_WINDOWS, RunFolder
from memorypipe.pipeline.scope_results import SCOPE_RESULTS, result_row, write_results
from memorypipe.pipeline.scopes.consolidate import ScopeResult
from memorypipe.pipeline.scopes.decided import Decided, PipelineFact
from memorypipe.rank.memory import Memory
from memorypipe.schema import PLAN_ACTIONS

AT = datetime(2025, 1, 1, tzinfo=UTC)


def decided(text: str, event: str = "ADD") -> Decided:
    fact = PipelineFact(
        text=text, window=0, window_id="w1", conversation_id="c1", event_time=AT, source_ids=("m",)
    )
    return Decided(
        fact=fact,
        event=event,
        memory_id=None if event == "NONE" else f"id of {text}",
        text=text,
        old_memory=None,
        rationale=None,
        rests_on=Memory(id="other", text="t") if event == "NONE" else None,
    )


def scope(user: str, *actions: Decided, calls: int = 1) -> pa.Table:
    outcome: Outcome[None] = Outcome(value=None, status="ok", attempts=1)
    result = ScopeResult(
        actions=actions, open_windows={"w2": "why"}, outcomes=[outcome] * calls, fallback=0
    )
    named = {"scope": [("user_id", user)], "scope_key": user}
    row = result_row({"w1": "c1", "w2": "c2"}, named, result, model="m", prompt_hash="h")
    return pa.Table.from_pylist([row], schema=SCOPE_RESULTS)


def test_actions_open_windows_and_calls_are_laid_out_by_scope(tmp_path: Path) -> None:
    results = [
        pa.concat_tables([scope("ana", decided("tea"), decided("x", "NONE"), calls=3)]),
        pa.concat_tables([scope("ben", calls=0), scope("cy", decided("bees"))]),
    ]
    counts = write_results(RunFolder(tmp_path), results)
    assert counts == {"ADD": 2, "NONE": 1, "open": 3}
    actions = pq.read_table(tmp_path / "actions.parquet")
    assert actions.schema.equals(PLAN_ACTIONS)
    shown = [(r["scope_key"], r["seq"], r["text"], r["rests_on"]) for r in actions.to_pylist()]
    assert shown == [("ana", 0, "tea", None), ("ana", 1, "x", "other"), ("cy", 0, "bees", None)]
    assert actions["scope"].to_pylist()[2] == [("user_id", "cy")]
    opened = pq.read_table(tmp_path / "open.parquet")
    assert opened.schema.equals(OPEN_WINDOWS)
    assert [tuple(row.values()) for row in opened.to_pylist()] == [
        (user, "c2", "w2", "why") for user in ("ana", "ben", "cy")
    ]
    scopes = pq.read_table(tmp_path / "scopes.parquet").to_pylist()
    assert [tuple(row.values()) for row in scopes] == [("ana", 3), ("ben", 0), ("cy", 1)]


@pytest.mark.parametrize("parts", [1, 2])
def test_a_scope_that_was_decided_twice_is_refused(tmp_path: Path, parts: int) -> None:
    twice = [scope("ana", decided("tea")), scope("ana", decided("bees"))]
    results = twice if parts == 2 else [pa.concat_tables(twice)]
    with pytest.raises(MemoryPipeError, match="scope 'ana' were split up"):
        write_results(RunFolder(tmp_path), results)


def test_no_results_give_empty_files(tmp_path: Path) -> None:
    assert write_results(RunFolder(tmp_path), ()) == {}
    folder = RunFolder(tmp_path)
    assert folder.read_table("actions", PLAN_ACTIONS).num_rows == 0
    assert folder.read_table("open", OPEN_WINDOWS).num_rows == 0
