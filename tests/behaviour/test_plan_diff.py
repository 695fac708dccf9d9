"""A plan shows what it changes, and what others have changed in its table meanwhile."""

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from memorypipe import MemoryPipeline, MemoryTable, Plan, ids
from memorypipe.errors import InvalidArgumentError
from tests.support.plans import plan_actions, write_plan
from tests.support.table_actions import START, SteppingClock, action, actions, add, minted, update

U1, U2 = {"user_id": "u1"}, {"user_id": "u2"}
TEA, ROME = minted("Likes tea", U1), minted("Lives in Rome", U2)


@pytest.fixture
def table(tmp_path: Path) -> MemoryTable:
    table = MemoryTable.open(
        tmp_path / "table", backend="parquet", embedder="none", clock=SteppingClock()
    )
    table.commit(
        actions(add("Likes tea", scope=U1), add("Lives in Rome", scope=U2)), run_id="before"
    )
    return table


@pytest.fixture
def plan(table: MemoryTable) -> Plan:
    rows = plan_actions(
        update(TEA, "Likes <b>mate</b>", scope=U1, old_memory="Likes tea", event_time=START),
        add("Owns a cat", scope=U1),
        action("NONE", "known", scope=U1),
        update(ROME, "Lives in Oslo", scope=U2, old_memory="Lives in Rome"),
    )
    return write_plan(table.uri, "r1", rows, base_version=1)


def apply(plan: Plan, sample: float | None = None) -> None:
    MemoryPipeline.offline(plan.table_uri, clock=SteppingClock()).apply(plan, sample=sample)


def test_the_changes_are_lines_by_scope(plan: Plan) -> None:
    diff = plan.diff()
    assert str(diff).splitlines() == [
        "user_id=u1",
        "  ~ Likes tea → Likes <b>mate</b>",
        "  + Owns a cat",
        "user_id=u2",
        "  ~ Lives in Rome → Lives in Oslo",
    ]
    assert diff.to_text(limit=1).splitlines()[-1] == "… 2 more"
    assert (diff.count("ADD"), diff.count("UPDATE"), diff.unchanged) == (1, 2, 1)
    assert (diff.base_version, diff.version, diff.held_back, diff.committed) == (1, 1, {}, 0)


def test_a_plan_for_a_table_that_is_not_there_yet_shows_its_changes(tmp_path: Path) -> None:
    plan = write_plan(str(tmp_path / "new"), "r1", plan_actions(add("Likes tea")))
    diff = plan.diff()
    assert diff.to_text().splitlines()[1] == "  + Likes tea"
    assert not MemoryTable.exists(plan.table_uri)
    empty = write_plan(str(tmp_path / "new"), "r2", plan_actions(action("NONE", "x")))
    assert empty.diff().to_text() == "no changes"


def test_what_others_have_changed_is_told_beside_the_change(plan: Plan, table: MemoryTable) -> None:
    table.commit(
        actions(
            update(TEA, "Likes water", scope=U1),
            add("Owns a cat", scope=U1),
            add("Owns a dog", scope=U2),
        ),
        run_id="meanwhile",
    )
    diff = plan.diff()
    assert list(diff.held_back) == [ids.scope_key(U1)]
    assert "changed after version 1" in diff.held_back[ids.scope_key(U1)]
    assert diff.changes["now"].to_pylist() == ["Likes water", None, None]
    assert "now: Likes water" in diff.to_text()
    assert diff.version == 2
    assert table.version == 2
    table.forget(ROME)
    assert plan.diff().changes["now"].to_pylist() == ["Likes water", None, ""]
    assert "now: (deleted)" in plan.diff().to_text()


def test_what_would_be_added_twice_is_counted(plan: Plan, table: MemoryTable) -> None:
    table.commit(actions(add("Owns a cat", scope=U1)), run_id="meanwhile")
    assert (plan.diff().duplicates, plan.diff().held_back) == (1, {})


def test_a_commit_of_the_plan_is_no_conflict_with_it(plan: Plan) -> None:
    apply(plan, sample=0.5)
    some = plan.diff()
    assert (some.committed, some.held_back) == (1, {})
    apply(plan)
    every = plan.diff()
    assert (every.committed, every.held_back, every.changes.num_rows) == (2, {}, 3)


def test_the_json_values_are_json(plan: Plan) -> None:
    value = json.loads(json.dumps(plan.diff().to_dict(limit=2)))
    assert [change["event"] for change in value["changes"]] == ["UPDATE", "ADD"]
    assert value["changes"][0]["scope"] == U1
    assert value["changes"][0]["event_time"] == START.isoformat()
    assert (value["updated"], value["none"]) == (2, 1)


class _Page(HTMLParser):
    """Checks that tags nest, and keeps what a reader sees."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, _attrs: object) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.cells.append(data)


def test_a_notebook_shows_a_table_of_changes_in_which_no_text_is_markup(plan: Plan) -> None:
    page = _Page()
    page.feed(plan._repr_html_())
    page.close()
    assert page.open == []
    assert {"Likes <b>mate</b>", "Likes tea", "user_id=u1", "Owns a cat"} <= set(page.cells)
    assert "b" not in page.open
    assert "<b>mate" not in plan._repr_html_()
    assert repr(plan) == f"Plan('r1', planned: +1 ~2 -0, table={plan.table_uri!r})"


def test_a_large_plan_shows_its_first_changes(tmp_path: Path) -> None:
    rows = plan_actions(*(add(f"text {number}") for number in range(60)))
    plan = write_plan(str(tmp_path / "table"), "r1", rows)
    assert plan._repr_html_().count("<td") == 4 * 50
    assert "10 more changes" in plan._repr_html_()


def test_its_tables_come_as_arrow_and_as_pandas(plan: Plan) -> None:
    frame = plan.to_pandas()
    assert frame["event"].tolist() == ["UPDATE", "ADD", "NONE", "UPDATE"]
    assert frame["scope"][0] == U1
    assert plan.to_arrow("changes")["event"].to_pylist() == ["UPDATE", "ADD", "UPDATE"]
    assert plan.to_arrow("open_windows").num_rows == plan.to_arrow("facts").num_rows == 0
    with pytest.raises(InvalidArgumentError, match="Unknown table 'rows' of a plan; choices"):
        plan.to_arrow("rows")  # type: ignore[arg-type]  # what a caller may get wrong
