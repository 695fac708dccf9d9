"""Plans on the command line: looked at, filtered, compared, applied in part, and undone."""

import json
from pathlib import Path
from typing import Any

import pytest

from memorypipe import MemoryTable, Plan
from memorypipe.cli.run_commands import landed
from tests.support.plans import facts_of, plan_actions, window, write_plan
from tests.support.table_actions import action, actions, add, delete, minted, update

SCOPES = [{"user_id": f"u{number}"} for number in range(6)]
U0 = SCOPES[0]
TEA = minted("Likes tea", U0)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """A memory per scope, and a second thought about the first."""
    rows = [
        add("Likes tea", scope=scope, window_id=f"w{n}", conversation_id="c1")
        for n, scope in enumerate(SCOPES)
    ]
    last = {"window_id": "w6", "conversation_id": "c1"}
    more = [
        update(TEA, "Likes\x1b[31m mate", scope=U0, old_memory="Likes tea", **last),
        action("NONE", "tea", scope=U0, rests_on=TEA, **last),
    ]
    windows = [window(f"w{n}", "Likes tea", scope=scope) for n, scope in enumerate(SCOPES)]
    return write_plan(
        str(tmp_path / "table"),
        "r1",
        plan_actions(*rows, *more),
        facts=facts_of(*windows, window("w6", "Likes mate", "tea", scope=U0)),
        manifest={"backend": "parquet"},
    )


def test_diff_shows_the_changes_scope_by_scope(run: Any) -> None:
    code, out, _ = run("diff", "r1")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == ["diff", "r1"]
    assert "+ 6 added   ~ 0 updated   - 0 deleted   1 fact changes nothing" in lines[1]
    assert "  user_id=u0" in lines
    assert "    + Likes\ufffd[31m mate" in lines
    assert "\x1b" not in out
    assert "memorypipe apply r1 --table" in lines[-1]
    assert run("diff", "r1", "--limit", "2")[1].count("+ Likes") == 2


def test_diff_as_json_is_one_object(run: Any) -> None:
    code, out, err = run("diff", "r1", "--json", "--limit", "1")
    value = json.loads(out)
    assert (code, err) == (0, "")
    assert (value["added"], value["none"], len(value["changes"])) == (6, 1, 1)


def test_diff_tells_what_would_be_held_back_now(run: Any, plan: Plan) -> None:
    table = MemoryTable.open(plan.table_uri, backend="parquet", embedder="none")
    table.commit(actions(add("Likes tea", scope=U0)), run_id="r0")
    rows = plan_actions(
        update(TEA, "Likes mate", scope=U0, old_memory="Likes tea"), add("Runs", scope=SCOPES[1])
    )
    write_plan(plan.table_uri, "r2", rows, base_version=1)
    table.commit(actions(delete(TEA, scope=U0)), run_id="meanwhile")
    _, out, _ = run("diff", "r2")
    assert "version 2; the plan was made on version 1" in out
    assert "would be held back now: 1 scope" in out
    assert "! conflict: 1 memory" in out
    assert "now: (deleted)" in out
    assert list(json.loads(run("diff", "r2", "--json")[1])["held_back"]) == ['[["user_id","u0"]]']


def test_filter_makes_a_plan_and_says_what_went_with_what(run: Any) -> None:
    code, out, _ = run("filter", "r1", "--where", "not (event = 'ADD' and scope.user_id = 'u0')")
    assert code == 0
    assert "part of   r1 where not (event = 'ADD' and scope.user_id = 'u0')" in out
    assert "5 actions kept · 1 ADD dropped" in out
    assert "dropped too, as they build on dropped ones: 1 UPDATE, 1 NONE" in out
    assert "of dropped actions: count as done; --leave-open lets the next run take" in out
    made = out.split()[1]
    assert f"memorypipe diff {made} --table" in out
    assert run("apply", made)[0] == 0


def test_a_filter_that_keeps_nothing_says_so(run: Any) -> None:
    assert "nothing is kept" in run("filter", "r1", "--where", "event = 'DELETE'")[1]
    assert "nothing is kept" not in run("filter", "r1", "--where", "event = 'ADD'")[1]


def test_a_table_of_which_only_a_plan_is_there_names_the_plan(run: Any, plan: Plan) -> None:
    code, _, err = run("show")
    assert code == 1
    assert f"`memorypipe apply r1 --table {plan.table_uri}` commits what is planned" in err


def test_filter_can_leave_windows_open(run: Any) -> None:
    code, out, _ = run("filter", "r1", "--where", "event = 'UPDATE'", "--leave-open", "--json")
    value = json.loads(out)
    assert code == 0
    assert value["filtered"]["windows_opened"] == 7
    assert value["filtered"]["kept"] == 0
    assert value["status"] == "planned"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("filter", "r1", "--where", "evnt = 'ADD'"), "at character 1: No field named evnt"),
        (("filter", "r1", "--where", "event = 'ADD"), "Unterminated string literal. Columns: "),
        (("apply", "r1", "--seed", "1"), "--seed needs --sample"),
        (("apply", "r1", "--sample", "5"), "--sample must be a share of the scopes"),
        (("filter", "r1"), "--where"),
    ],
)
def test_what_cannot_work_is_a_usage_error(run: Any, words: tuple[str, ...], told: str) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert told in err


@pytest.mark.parametrize("words", [("diff", "r9"), ("filter", "r9", "--where", "true")])
def test_an_unknown_run_is_told_with_the_ones_there_are(run: Any, words: tuple[str, ...]) -> None:
    code, _, err = run(*words)
    assert code == 1
    assert "There is no run 'r9' in " in err
    assert "its runs are: r1." in err


def test_compare_shows_two_plans_beside_each_other(run: Any, plan: Plan) -> None:
    facts = facts_of(*(window(f"w{n}", "Likes green tea", scope=s) for n, s in enumerate(SCOPES)))
    write_plan(plan.table_uri, "r2", plan_actions(), facts=facts, calls=1_234)
    code, out, _ = run("compare", "r1", "r2", "--limit", "2")
    assert code == 0
    assert "6 in both · 1 only in A · 0 only in B" in out
    assert "~ 6 reworded   - 2 only in A" in out
    assert "calls 0 1,234" in " ".join(out.split())
    assert "… 6 more" in out
    value = json.loads(run("compare", "r1", "r2", "--json")[1])
    assert (value["facts"]["reworded"], len(value["differences"])) == (6, 8)


def test_an_import_has_nothing_to_compare_and_no_part_to_apply(run: Any, plan: Plan) -> None:
    manifest = {"kind": "import", "source": {}, "records": 1}
    write_plan(plan.table_uri, "i1", plan_actions(add("x")), manifest=manifest)
    code, _, err = run("compare", "r1", "i1")
    assert code == 1
    assert "'i1' was not made from a log" in err
    code, _, err = run("apply", "i1", "--commit-every", "2")
    assert code == 2
    assert "'i1' is an import" in err
    assert "+ x" in run("diff", "i1")[1]


def test_a_sample_is_applied_then_the_rest_and_all_is_undone_together(run: Any, plan: Plan) -> None:
    code, out, _ = run("apply", "r1", "--sample", "50%", "--json")
    first = json.loads(out)
    assert (code, first["status"], first["scopes"]) == (0, "partial", 6)
    assert 0 < first["scopes_left"] < 6
    _, out, _ = run("apply", "r1", "--sample", "50%")
    assert f"only a sample is committed: {first['scopes_left']} scopes of 6 left" in out
    assert out.count("    + ") == 6 - first["scopes_left"]
    assert "commit the rest" in out
    code, out, _ = run("apply", "r1", "--commit-every", "1", "--json")
    assert (code, json.loads(out)["status"], json.loads(out)["added"]) == (0, "done", 6)
    assert "committed already: 6 scopes" in run("diff", "r1")[1]
    table = MemoryTable.open(plan.table_uri, create=False)
    assert len(table.runs()) == 1 + first["scopes_left"]
    assert run("undo", "r1")[0] == 0
    assert table.count() == 0


def test_a_run_that_was_interrupted_is_not_offered_to_be_applied(run: Any, plan: Plan) -> None:
    folder = Path(plan.table_uri) / "runs" / "r1"
    told = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**told, "status": "stopped"}))
    (folder / "manifest.json").unlink()
    _, _, err = run("show")
    assert "There is no memory table" in err
    assert "apply" not in err
    code, _, err = run("apply", "r1")
    assert code != 0
    assert "The command that began it goes on from there" in err


def test_what_was_interrupted_while_it_was_committed_says_what_is_in_the_table(
    run: Any, plan: Plan
) -> None:
    table = plan.table_uri
    assert landed(table, None) is None
    assert landed(table, plan) is None
    run("apply", "r1")
    assert landed(table, plan) == (
        f"Run r1 is committed; `memorypipe undo r1 --table {table}` takes it back."
    )
