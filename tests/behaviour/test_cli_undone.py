"""What commands say of a run that an undo took back, and of one that was committed before."""

import json
from pathlib import Path
from typing import Any

import pytest

from memorypipe import Plan
from memorypipe.cli.undone_runs import undo_of
from tests.support.plans import facts_of, plan_actions, window, write_plan
from tests.support.table_actions import add


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    rows = plan_actions(add("Likes tea", window_id="w0", conversation_id="c1"))
    return write_plan(
        str(tmp_path / "table"),
        "r1",
        rows,
        facts=facts_of(window("w0", "Likes tea")),
        manifest={"backend": "parquet"},
    )


def test_a_run_applied_again_says_that_nothing_is_committed_now(run: Any) -> None:
    assert run("apply", "r1")[2] == ""
    code, out, err = run("apply", "r1")
    assert code == 0
    assert out.startswith("done  r1")
    assert "r1 was committed before; nothing was committed now." in err


def test_an_undone_run_is_told_as_one_and_how_its_messages_are_read_again(run: Any) -> None:
    run("apply", "r1")
    _, out, _ = run("undo", "r1")
    assert "its messages count as read" in out
    assert "memorypipe undo r1 --reopen --table" in out
    code, out, _ = run("apply", "r1")
    assert code == 5
    assert out.startswith("undone  r1")
    assert "memorypipe undo undo-r1 --table" in out
    assert "memorypipe undo r1 --reopen --table" in out
    assert json.loads(run("runs", "show", "r1", "--json")[1])["status"] == "undone"
    code, out, _ = run("runs", "show", "r1")
    assert (code, out.startswith("undone  r1")) == (0, True)


def test_a_run_with_nothing_new_names_the_undone_one_whose_messages_it_may_have_seen(
    run: Any, plan: Plan
) -> None:
    run("apply", "r1")
    run("undo", "r1")
    write_plan(plan.table_uri, "r2", plan_actions(), base_version=2, conversations=1)
    _, out, err = run("runs", "show", "r2")
    assert "nothing new in it" in out
    assert "memorypipe apply r2" not in out
    assert "r1 is undone, and what it has read counts as read" in err
    _, out, _ = run("undo", "r1", "--reopen")
    assert "the messages of r1 are open for the next run" in out
    assert run("runs", "show", "r2")[2] == ""
    assert "--reopen" not in run("apply", "r1")[1]


def test_a_run_of_which_a_part_counts_is_not_undone() -> None:
    part = {"run_id": "r1", "kind": "commit", "info": "{}"}
    undo = {"run_id": "undo-r1", "kind": "undo", "undone": False, "info": '{"undoes": ["r1"]}'}
    assert undo_of([{**part, "undone": True}, undo], "r1") == "undo-r1"
    assert undo_of([{**part, "undone": True}, undo, {**part, "undone": False}], "r1") is None


def test_an_empty_log_is_told_as_one(run: Any, plan: Plan) -> None:
    write_plan(plan.table_uri, "r2", plan_actions())
    assert "0 conversations · nothing in it" in run("runs", "show", "r2")[1]
