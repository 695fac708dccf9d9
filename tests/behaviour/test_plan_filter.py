"""A part of a plan is a plan of its own, and never doubles what the whole does."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from memorypipe import EraseRequest, MemoryPipeline, MemoryTable, Plan, RunSummary, ids
from memorypipe.errors import InvalidArgumentError
from memorypipe.pipeline.runs.folder import RunFolder
from memorypipe.schema import ACTION_OPTIONS, PLAN_ACTIONS
from tests.support.plans import facts_of, plan_actions, window, write_plan
from tests.support.table_actions import SteppingClock, action, actions, add, minted, update

U1, U2 = {"user_id": "u1"}, {"user_id": "u2", "agent_id": "a"}
TEA, ROME = minted("Likes tea", U1), minted("Lives in Rome", U1)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "table")


@pytest.fixture
def plan(uri: str) -> Plan:
    """Two windows of one scope, the second of which builds on the first, and one of another."""
    rows = plan_actions(
        add("Likes tea", scope=U1, window_id="w1", conversation_id="c1"),
        add("Lives in Rome", scope=U1, window_id="w1", conversation_id="c1"),
        update(
            TEA,
            "Likes mate",
            scope=U1,
            old_memory="Likes tea",
            window_id="w2",
            conversation_id="c1",
        ),
        action("NONE", "Rome", scope=U1, rests_on=ROME, window_id="w2", conversation_id="c1"),
        add("Owns a cat", scope=U2, window_id="w3", conversation_id="c2"),
    )
    facts = facts_of(
        window("w1", "Likes tea", "Lives in Rome", scope=U1, messages=["m1", "long"]),
        window("w2", "Likes mate", "Rome", scope=U1, messages=["m2"]),
        window("w3", "Owns a cat", scope=U2, conversation_id="c2", messages=["m3"]),
        window("w4", scope=U2, conversation_id="c2", messages=["m4"]),
    )
    opened = [{"scope_key": "s", "conversation_id": "c9", "window_id": "w9", "reason": "it failed"}]
    manifest = {"backend": "parquet", "prompts": {"decide": "…"}}
    return write_plan(
        uri, "r1", rows, facts=facts, opened=opened, manifest=manifest, windows_failed=1, calls=7
    )


def texts(plan: Plan) -> list[str]:
    found: list[str] = plan.actions()["text"].to_pylist()
    return found


def apply(plan: Plan) -> RunSummary:
    return MemoryPipeline.offline(plan.table_uri, clock=SteppingClock()).apply(plan)


def live(uri: str) -> list[str]:
    rows = MemoryTable.open(uri, create=False).to_arrow(columns=["text"])
    return sorted(rows["text"].to_pylist())


def test_a_condition_is_an_expression_or_sql(plan: Plan) -> None:
    by_sql = plan.filter("scope.user_id = 'u1' and event = 'ADD'")
    by_expression = plan.filter(
        (pc.field("scope", "user_id") == "u1") & (pc.field("event") == "ADD")
    )
    assert texts(by_sql) == texts(by_expression) == ["Likes tea", "Lives in Rome"]
    assert texts(plan.filter("scope.agent_id = 'a'")) == ["Owns a cat"]
    assert texts(plan.filter("scope.agent_id is null and window_id = 'w1'")) == texts(by_sql)


def test_what_builds_on_a_dropped_action_goes_too_and_is_reported(plan: Plan) -> None:
    part = plan.filter("text <> 'Likes tea'")
    assert texts(part) == ["Owns a cat", "Lives in Rome", "Rome"]
    filtered = part.manifest["filtered"]
    assert filtered == {
        "parent": "r1",
        "root": "r1",
        "where": "text <> 'Likes tea'",
        "leave_open": False,
        "kept": 3,
        "dropped": {"ADD": 1},
        "dropped_with": {"UPDATE": 1},
        "windows_opened": 0,
    }
    assert texts(plan.filter("text <> 'Lives in Rome'")) == [
        "Owns a cat",
        "Likes tea",
        "Likes mate",
    ]


def test_it_is_a_run_of_its_own_with_all_that_a_plan_has(plan: Plan) -> None:
    part = plan.filter("event = 'ADD'")
    assert part.run_id != plan.run_id
    assert part.run_id.startswith("r1-")
    assert Plan(plan.table_uri, part.run_id).run_id == part.run_id
    assert part.actions().schema == PLAN_ACTIONS
    assert part.facts() == plan.facts()
    assert part.base_version == plan.base_version
    assert part.manifest["prompts"] == plan.manifest["prompts"]
    summary = part.summary()
    assert (summary.status, summary.added, summary.updated, summary.none) == ("planned", 3, 0, 0)
    assert (summary.calls, summary.windows_failed) == (7, 1)
    assert len(texts(plan)) == 5


def test_the_windows_of_dropped_actions_count_as_done(plan: Plan) -> None:
    part = plan.filter("event = 'NONE' and false")
    assert part.ledger()["message_id"].to_pylist() == ["m3", "m4", "long", "m1", "m2"]
    assert part.open_windows() == plan.open_windows()


def test_or_stay_open_so_that_the_next_run_takes_them(plan: Plan) -> None:
    part = plan.filter("text <> 'Likes tea'", leave_open=True)
    opened = part.open_windows().to_pylist()
    assert [row["window_id"] for row in opened] == ["w1", "w2", "w9"]
    assert "took an action of it out" in opened[0]["reason"]
    assert part.ledger()["message_id"].to_pylist() == ["m3", "m4"]
    assert part.manifest["filtered"]["windows_opened"] == 2
    assert part.summary().windows_failed == 1  # nobody failed at the others
    assert part.run_id != plan.filter("text <> 'Likes tea'").run_id


def test_the_same_filter_gives_the_same_run_and_an_applied_one_stays(plan: Plan) -> None:
    part = plan.filter("event = 'ADD'")
    assert plan.filter("event = 'ADD'").run_id == part.run_id
    apply(part)
    again = plan.filter("event = 'ADD'")
    assert (again.run_id, again.summary().committed) == (part.run_id, True)
    runs = {path.name for path in (Path(plan.table_uri) / "runs").iterdir()}
    assert runs == {"r1", part.run_id}


def test_a_part_of_a_part(plan: Plan) -> None:
    part = plan.filter("event <> 'NONE'").filter(pc.field("window_id") != "w3")
    assert texts(part) == ["Likes tea", "Lives in Rome", "Likes mate"]
    assert part.manifest["filtered"]["root"] == "r1"
    assert part.manifest["filtered"]["parent"].startswith("r1-")
    assert apply(part).added == 2
    assert live(plan.table_uri) == ["Likes mate", "Lives in Rome"]


def test_the_whole_after_a_part_gives_what_the_whole_gives(plan: Plan) -> None:
    assert apply(plan.filter("event = 'ADD'")).held_back == {}
    assert live(plan.table_uri) == ["Likes tea", "Lives in Rome", "Owns a cat"]
    assert apply(plan).held_back == {}
    assert live(plan.table_uri) == ["Likes mate", "Lives in Rome", "Owns a cat"]
    assert len(MemoryTable.open(plan.table_uri, create=False).ledger_keys()) == 5


def test_a_part_after_the_whole_brings_nothing_back_that_the_whole_has_changed(plan: Plan) -> None:
    apply(plan)
    after = apply(plan.filter("event = 'ADD'"))
    assert list(after.held_back) == [ids.scope_key(U1)]
    assert "1 memory" in after.held_back[ids.scope_key(U1)]
    assert live(plan.table_uri) == ["Likes mate", "Lives in Rome", "Owns a cat"]


def test_two_parts_that_are_at_odds_are_told_apart(uri: str) -> None:
    table = MemoryTable.open(uri, backend="parquet", embedder="none", clock=SteppingClock())
    table.commit(actions(add("Runs", scope=U1)), run_id="r0")
    runs = minted("Runs", U1)
    rows = plan_actions(
        update(runs, "Swims", scope=U1, old_memory="Runs"),
        update(runs, "Rows", scope=U1, old_memory="Swims"),
    )
    whole = write_plan(uri, "r2", rows, base_version=1)
    assert apply(whole.filter("text = 'Swims'")).updated == 1
    assert list(apply(whole).held_back) == [ids.scope_key(U1)]
    assert live(uri) == ["Swims"]


def test_the_optional_columns_of_an_import_stay(uri: str) -> None:
    schema = pa.schema([*PLAN_ACTIONS, *ACTION_OPTIONS])
    rows = plan_actions(add("Likes tea"), add("Lives in Rome")).to_pylist()
    named = [{**row, "external_id": f"x{n}"} for n, row in enumerate(rows)]
    manifest = {"kind": "import", "source": {"path": "p", "scope": {}}, "records": 2}
    plan = write_plan(uri, "i1", pa.Table.from_pylist(named, schema=schema), manifest=manifest)
    part = plan.filter("external_id = 'x1'")
    assert part.actions()["external_id"].to_pylist() == ["x1"]
    assert apply(part).added == 1
    assert live(uri) == ["Lives in Rome"]
    with pytest.raises(InvalidArgumentError, match="no windows to leave open"):
        plan.filter("external_id = 'x1'", leave_open=True)


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        (pc.field("evnt") == "ADD", "evnt"),
        (pc.field("seq") + 1, "does not fit the actions"),
        ("evnt = 'ADD'", "at character 1: No field named evnt"),
        (None, "got NoneType"),
    ],
)
def test_what_is_no_condition_is_refused_and_leaves_nothing(
    plan: Plan, condition: Any, told: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=told):
        plan.filter(condition)
    assert [path.name for path in (Path(plan.table_uri) / "runs").iterdir()] == ["r1"]


def test_a_plan_of_an_older_version_has_no_dependences_and_can_be_filtered(plan: Plan) -> None:
    folder = RunFolder.of(plan.table_uri, "r1")
    folder.write_table("actions", plan.actions().drop_columns(["rests_on"]))
    assert texts(plan.filter("text <> 'Lives in Rome'")) == [
        "Owns a cat",
        "Likes tea",
        "Likes mate",
        "Rome",
    ]


def test_an_erasure_takes_names_out_of_the_condition_and_leaves_the_other_plan_whole(
    plan: Plan,
) -> None:
    part = plan.filter("scope.user_id = 'u1'")
    apply(plan)
    table = MemoryTable.open(plan.table_uri, create=False)
    receipt = table.erase([EraseRequest(scope=U1)])
    assert receipt.is_complete
    manifest = RunFolder.of(plan.table_uri, part.run_id).read_json("manifest")
    assert manifest["filtered"]["where"] == "[erased]"
    assert Plan(plan.table_uri, part.run_id).actions().num_rows == 0
    assert Plan(plan.table_uri, "r1").facts()["window_id"].to_pylist() == ["w3", "w4"]


def test_actions_of_another_scope_with_the_same_memory_are_kept(uri: str) -> None:
    table = MemoryTable.open(uri, backend="parquet", embedder="none", clock=SteppingClock())
    table.commit(actions(add("Likes tea", scope=U1)), run_id="r0")
    rows = plan_actions(update(TEA, "Likes mate", scope=U1, old_memory="Likes tea"))
    part = write_plan(uri, "r1", rows, base_version=1).filter("event = 'UPDATE'")
    assert apply(part).updated == 1
    assert live(uri) == ["Likes mate"]
