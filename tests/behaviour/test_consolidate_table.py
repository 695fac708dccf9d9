"""A table is put in order as a plan: looked at, committed, taken back, and paid for once.

The rule-based model decides in this process, so no Ray is needed.
"""

from datetime import timedelta
from pathlib import Path

import pytest

from memorypipe.cli.main import main
from memorypipe.errors import PlanError, TableNotFoundError
from memorypipe.pipeline.pipeline import MemoryPipeline
from memorypipe.pipeline.planning_config import Progress
from memorypipe.pipeline.runs.folder import RunFolder
from memorypipe.table.table import MemoryTable
from tests.support.table_actions import START, USER, actions, add, minted

_OTHER = {"user_id": "u2"}
_SAID = (
    "Lives in Rome",
    "Owns a cat",
    "The user owns the cat.",
    "Plays the cello",
    "Moved to Oslo",
    "Likes green tea",
)


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A table in which a user moved, and has one cat twice; another user says the same once."""
    uri = str(tmp_path / "table")
    table = MemoryTable.open(uri, backend="parquet", embedder="none")
    rows = [
        add(text, event_time=START + timedelta(days=n), source_ids=[f"s{n}"], conversation_id="c")
        for n, text in enumerate(_SAID)
    ]
    others = [add(text, scope=_OTHER, event_time=START) for text in ("Lives in Rome", "Owns a cat")]
    table.commit(actions(*rows, *others), run_id="seed")
    return uri


def texts(uri: str, scope: dict[str, str] = USER) -> set[str]:
    rows = MemoryTable.open(uri, create=False).to_arrow(scope, ["text"])
    return set(rows["text"].to_pylist())


_IN_ORDER = {"Moved to Oslo (before: Rome)", "Owns a cat", "Plays the cello", "Likes green tea"}


def test_a_table_is_put_in_order_and_taken_back(place: str) -> None:
    pipeline = MemoryPipeline.offline(place)
    plan = pipeline.consolidate()
    assert texts(place) == set(_SAID), "nothing is committed before apply"
    summary = pipeline.apply(plan)
    assert (summary.status, summary.updated, summary.deleted) == ("done", 2, 2)
    assert texts(place) == _IN_ORDER
    assert texts(place, _OTHER) == {"Lives in Rome", "Owns a cat"}
    table = MemoryTable.open(place, create=False)
    home = table.get(minted("Lives in Rome"))
    assert home is not None
    assert home["source_ids"] == ["s0", "s4"]
    assert home["event_time"] == START + timedelta(days=4)
    cat = table.get(minted("Owns a cat"))
    assert cat is not None
    assert cat["source_ids"] == ["s1", "s2"]
    table.undo(plan.run_id)
    assert texts(place) == set(_SAID)


def test_a_second_time_nothing_changes_and_nothing_is_paid(place: str) -> None:
    pipeline = MemoryPipeline.offline(place)
    pipeline.apply(pipeline.consolidate())
    plan = pipeline.consolidate()
    summary = pipeline.apply(plan)
    assert (summary.calls, summary.windows, plan.actions().num_rows) == (0, 0, 0)
    assert texts(place) == _IN_ORDER


def test_the_same_plan_made_again_is_answered_by_the_journal(place: str) -> None:
    pipeline = MemoryPipeline.offline(place)
    first, second = pipeline.consolidate(), pipeline.consolidate()
    assert (first.run_id, first.actions()) == (second.run_id, second.actions())
    assert second.summary().calls == first.summary().calls > 0


def test_what_is_new_is_compared_with_what_was_compared(place: str) -> None:
    pipeline = MemoryPipeline.offline(place)
    pipeline.apply(pipeline.consolidate())
    late = add("Moved to Bergen", event_time=START + timedelta(days=9), source_ids=["s9"])
    MemoryTable.open(place, create=False).commit(actions(late), run_id="later")
    summary = pipeline.apply(pipeline.consolidate())
    assert (summary.facts, summary.updated, summary.deleted) == (1, 1, 1)
    assert "Moved to Bergen (before: Oslo; Rome)" in texts(place)


def test_again_compares_what_was_compared(place: str) -> None:
    pipeline = MemoryPipeline.offline(place)
    table = MemoryTable.open(place, create=False)
    more = add("Drinks green tea in the garden", event_time=START, source_ids=["s9"])
    table.commit(actions(more), run_id="more")
    pipeline.apply(pipeline.consolidate())
    assert pipeline.consolidate().summary().facts == 0
    assert pipeline.consolidate(again=True).summary().facts == 1


def test_one_scope_can_be_put_in_order(place: str) -> None:
    plan = MemoryPipeline.offline(place).consolidate(scope=_OTHER)
    assert plan.actions().num_rows == 0
    plan = MemoryPipeline.offline(place).consolidate(scope=USER)
    assert plan.actions().num_rows == 4


def test_a_run_cannot_be_planned_twice_nor_without_a_table(place: str, tmp_path: Path) -> None:
    pipeline = MemoryPipeline.offline(place)
    pipeline.apply(pipeline.consolidate(run_id="tidy"))
    with pytest.raises(PlanError, match="committed already"):
        pipeline.consolidate(run_id="tidy")
    with pytest.raises(TableNotFoundError):
        MemoryPipeline.offline(str(tmp_path / "none")).consolidate()


def test_the_command_plans_and_commits(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["consolidate", "--offline", "--table", place, "--run-id", "tidy"]) == 0
    told = capsys.readouterr().out
    assert "planned  tidy" in told
    assert "4 memories that are alike · 1 of them asked about" in told
    assert "Lives in Rome → Moved to Oslo (before: Rome)" in told
    assert f"memorypipe apply tidy --table {place}" in told
    assert main(["apply", "tidy", "--table", place]) == 0
    assert texts(place) == _IN_ORDER
    assert main(["consolidate", "--offline", "--table", place, "--yes"]) == 0
    assert "nothing that is alike" in capsys.readouterr().out
    assert main(["consolidate", "--offline", "--table", f"{place}x"]) == 1


def test_two_that_run_at_once_do_not_pay_for_the_same_memories(place: str) -> None:
    def meanwhile(_progress: Progress) -> None:
        other = MemoryPipeline.offline(place)
        with pytest.raises(PlanError, match="Run 'first' is at work on the memories of scope"):
            other.consolidate(run_id="second")
        other.consolidate(run_id="third", scope=_OTHER)

    first = MemoryPipeline.offline(place, on_progress=meanwhile)
    assert first.consolidate(run_id="first", scope=USER).summary().status == "planned"
    MemoryPipeline.offline(place).consolidate(run_id="second")


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (KeyboardInterrupt(), "stopped", "interrupted"),
        (PlanError("It went wrong."), "failed", "It went wrong."),
        (ValueError("whatever it was working on"), "failed", "ValueError"),
    ],
)
def test_what_ended_one_early_is_in_its_record(
    place: str, error: BaseException, status: str, told: str
) -> None:
    def end(_progress: Progress) -> None:
        raise error

    with pytest.raises(type(error)):
        MemoryPipeline.offline(place, on_progress=end).consolidate(run_id="ended")
    record = RunFolder.of(place, "ended").read_json("run")
    assert (record["status"], record["error"]) == (status, told)
    assert (record["kind"], record["stage"]) == ("consolidation", "consolidate")
