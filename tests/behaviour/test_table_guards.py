"""How much of a scope a run may delete, on every back end."""

from typing import Any

import pyarrow as pa

from memorypipe import ids
from memorypipe.pipeline.committing import commit_plan
from memorypipe.table.table import MemoryTable
from memorypipe.table.transaction import CommitResult
from tests.support.memory_table import memory_table
from tests.support.table_actions import USER, actions, add, delete, ledger, ledger_key, minted

OTHER = {"user_id": "u2"}
KEY = ids.scope_key(USER)


def fill(table: MemoryTable, count: int) -> None:
    rows = [add(f"text {number}") for number in range(count)]
    table.commit(actions(*rows, add("other", scope=OTHER, seq=0)), run_id="r0")


def deletes(start: int, stop: int) -> list[Any]:
    return [delete(minted(f"text {number}")) for number in range(start, stop)]


def test_ten_or_half_of_the_live_memories_of_a_scope_may_go(table: MemoryTable) -> None:
    cases = {"a": (12, 10), "b": (12, 11), "c": (40, 20), "d": (40, 21), "e": (0, 0)}
    texts = {name: [f"text {n}" for n in range(live)] for name, (live, _) in cases.items()}
    scopes = {name: {"user_id": name} for name in cases}
    added = [add(text, scope=scopes[name]) for name in cases for text in texts[name]]
    table.commit(actions(*added), run_id="r0")
    gone = [
        delete(minted(text, scopes[name]), scope=scopes[name])
        for name, (_, count) in cases.items()
        for text in texts[name][:count]
    ]
    rows = pa.concat_tables([ledger(name, scope=scopes[name]) for name in "abc"])
    batch = actions(*gone, add("more", scope=scopes["e"]))
    result = table.commit(batch, run_id="r1", ledger=rows)
    assert (result.added, result.deleted) == (1, 30)
    said = {key: reason.split(";")[0] for key, reason in result.held_back.items()}
    assert said == {
        ids.scope_key(scopes["b"]): "guard: 11 of 12 memories would be deleted, the limit is 10",
        ids.scope_key(scopes["d"]): "guard: 21 of 40 memories would be deleted, the limit is 20",
    }
    keys = sorted(ledger_key(name, scopes[name]) for name in "ac")
    assert table.ledger_keys().to_pylist() == keys
    assert table.runs()["held_back"].to_pylist()[1] == sorted(said)


def test_the_limit_can_be_set_lifted_or_passed_for_a_scope() -> None:
    table = memory_table()
    fill(table, 12)
    batch = actions(*deletes(0, 12))
    assert table.commit(batch, run_id="r1").outcome == "nothing"
    assert table.commit(batch, run_id="r1", max_retired=11).outcome == "nothing"
    elsewhere = table.commit(batch, run_id="r1", accept_guards=[ids.scope_key(OTHER)])
    assert list(elsewhere.held_back) == [KEY]
    assert table.commit(batch, run_id="r1", accept_guards=[KEY]).deleted == 12
    table.undo("r1")
    assert table.commit(batch, run_id="r2", max_retired=None).deleted == 12
    table.undo("r2")
    assert table.commit(actions(*deletes(0, 1)), run_id="r3", max_retired=0).held_back


def test_all_parts_of_a_run_count_together() -> None:
    table = memory_table()
    fill(table, 30)
    assert table.commit(actions(*deletes(0, 8)), run_id="r1").deleted == 8
    assert table.commit(actions(*deletes(8, 15)), run_id="r1", part=1).deleted == 7
    result = table.commit(actions(*deletes(15, 16)), run_id="r1", part=2)
    assert result.held_back[KEY].startswith("guard: 16 of 30 memories would be deleted")
    assert table.commit(actions(*deletes(15, 16)), run_id="r2").deleted == 1


def test_forget_undo_and_restore_have_no_guard() -> None:
    table = memory_table()
    fill(table, 12)
    assert table.forget(scope=USER).deleted == 12
    assert table.undo(table.runs()["run_id"].to_pylist()[-1]).added == 12
    assert table.undo("r0", cascade=True).deleted == 13


def test_a_plan_applied_again_commits_what_its_guard_now_lets_through(table: MemoryTable) -> None:
    fill(table, 12)
    batch = actions(*deletes(0, 12), add("more", scope=OTHER, seq=0))
    rows = pa.concat_tables([ledger("m1"), ledger("m2", scope=OTHER)])

    def apply(*accepted: str) -> CommitResult:
        return commit_plan(
            table,
            batch,
            rows,
            run_id="r1",
            base_version=1,
            info={"tokens_in": 5},
            max_retired="auto",
            accept_guards=accepted,
        ).result

    assert [*apply().held_back] == [*apply().held_back] == [KEY]
    assert table.version == 2
    through = apply(KEY)
    assert (through.added, through.deleted, dict(through.held_back)) == (1, 12, {})
    again = apply()
    assert (again.added, again.deleted, dict(again.held_back)) == (1, 12, {})
    runs = table.runs().select(["run_id", "part", "tokens_in"]).to_pylist()[1:]
    assert [tuple(run.values()) for run in runs] == [("r1", 0, 5), ("r1", 1, None)]
    assert len(table.ledger_keys()) == 2
    table.undo("r1")
    assert table.count() == 13
