"""What undo brings back, on every back end."""

from datetime import timedelta
from typing import Any

import pytest

from memorypipe.errors import HistoryGoneError, TableError, UndoConflictError
from memorypipe.table.revisions import BOOKKEEPING
from memorypipe.table.table import MemoryTable
from memorypipe.table.transaction import transact
from memorypipe.table.undo import make_undo
from tests.support.memory_table import memory_table
from tests.support.table_actions import (
    START,
    actions,
    add,
    delete,
    ledger,
    ledger_key,
    minted,
    update,
)
from tests.support.table_maintenance import drop_revisions

TEA, CAT, RUNS = minted("Likes tea"), minted("Has a cat"), minted("Runs")
OTHER = {"user_id": "u2"}


def remembered(table: MemoryTable) -> Any:
    """Give the live rows, but for what tells of a revision and not of the memory."""
    return table.to_arrow().drop_columns(list(BOOKKEEPING)).to_pylist()


def three_runs(table: MemoryTable) -> Any:
    """Commit three runs; what was remembered before the last one."""
    first = add(
        "Likes tea",
        context="kitchen",
        topics=["food"],
        event_time=START,
        source_ids=["m1"],
        rationale="said so",
        model="m",
        prompt_hash="p",
        conversation_id="c1",
    )
    table.commit(actions(first, add("Has a cat", scope=OTHER)), run_id="r1", labels={"a": "b"})
    table.commit(actions(add("Runs")), run_id="r2")
    before = remembered(table)
    table.commit(
        actions(
            update(TEA, "Likes coffee", source_ids=["m9"], context="office"),
            delete(minted("Has a cat", OTHER), scope=OTHER),
            add("Has a dog"),
        ),
        run_id="r3",
    )
    return before


def test_undo_brings_back_what_was_changed_deleted_and_added(table: MemoryTable) -> None:
    before = three_runs(table)
    result = table.undo("r3")
    assert remembered(table) == before
    assert (result.outcome, result.version) == ("landed", 4)
    assert (result.added, result.updated, result.deleted) == (1, 1, 1)


def test_undo_is_a_run_of_its_own_and_its_revisions_say_so(table: MemoryTable) -> None:
    three_runs(table)
    table.undo("r3", labels={"why": "wrong"})
    history = table.history(TEA).to_pylist()
    assert [row["event"] for row in history] == ["ADD", "UPDATE", "UNDO"]
    assert [row["revision"] for row in history] == [1, 2, 3]
    assert (history[2]["run_id"], dict(history[2]["labels"])) == ("undo-r3", {"why": "wrong"})
    assert history[2]["text"] == history[2]["search_text"] == "Likes tea"
    run = table.runs().to_pylist()[-1]
    assert (run["run_id"], run["kind"]) == ("undo-r3", "undo")
    assert run["info"] == '{"undoes":["r3"],"reopens":[]}'


def test_undo_can_be_undone_and_that_undone_again(table: MemoryTable) -> None:
    before, after = three_runs(table), remembered(table)
    table.undo("r3")
    table.undo("undo-r3")
    assert remembered(table) == after
    table.undo("undo-undo-r3")
    assert remembered(table) == before
    assert table.undo("r3").outcome == "already_landed"
    table.undo("undo-r3")
    assert remembered(table) == after
    assert table.undo("r3").outcome == "landed"
    assert remembered(table) == before
    assert table.runs()["run_id"].to_pylist()[3:] == [
        "undo-r3",
        "undo-undo-r3",
        "undo-undo-undo-r3",
        "undo2-undo-r3",
        "undo2-r3",
    ]


def test_a_run_that_is_undone_stays_so() -> None:
    table = memory_table()
    three_runs(table)
    first = table.undo("r3")
    again = table.undo("r3")
    assert (again.outcome, again.version, again.deleted) == ("already_landed", 4, first.deleted)
    assert table.version == 4


def test_all_parts_of_a_run_are_undone_together() -> None:
    table = memory_table()
    table.commit(actions(add("Runs")), run_id="r0")
    table.commit(actions(add("Likes tea"), add("Has a cat")), run_id="r1")
    table.commit(actions(update(TEA, "Likes coffee"), delete(RUNS)), run_id="r1", part=1)
    table.undo("r1")
    assert table.to_arrow(columns=["text"])["text"].to_pylist() == ["Runs"]


def test_a_run_that_others_built_on_is_not_undone_alone() -> None:
    table = memory_table()
    table.commit(actions(add("Likes tea"), add("Has a cat")), run_id="r1")
    table.commit(actions(update(TEA, "Likes coffee")), run_id="r2")
    table.commit(actions(update(TEA, "Likes mocha"), add("Runs")), run_id="r3")
    with pytest.raises(UndoConflictError, match=r"2 later runs .*'r3', 'r2'.*cascade") as caught:
        table.undo("r1")
    assert caught.value.run_ids == ("r3", "r2")
    assert table.version == 3
    table.undo("r3")
    with pytest.raises(UndoConflictError) as caught:
        table.undo("r1")
    assert caught.value.run_ids == ("r2",)
    table.undo("r2")
    assert table.undo("r1").deleted == 2
    assert table.count() == 0


def test_cascade_undoes_what_was_built_on_it_in_the_same_commit() -> None:
    table = memory_table()
    table.commit(actions(add("Runs")), run_id="r0")
    table.commit(actions(add("Likes tea")), run_id="r1")
    table.commit(actions(update(TEA, "Likes coffee"), add("Has a cat")), run_id="r2")
    table.commit(actions(delete(CAT)), run_id="r3")
    table.commit(actions(add("Has a dog")), run_id="r4")
    after = remembered(table)
    table.undo("r1", cascade=True)
    assert table.version == 6
    assert table.to_arrow(columns=["text"])["text"].to_pylist() == ["Runs", "Has a dog"]
    assert table.runs()["info"].to_pylist()[-1] == '{"undoes":["r3","r2","r1"],"reopens":[]}'
    for run_id in ("r1", "r2", "r3"):
        assert table.undo(run_id).outcome == "already_landed"
    table.undo("undo-r1")
    assert remembered(table) == after


def test_a_cascade_takes_all_parts_of_a_run_that_built_on_it() -> None:
    table = memory_table()
    table.commit(actions(add("Likes tea")), run_id="r1")
    table.commit(actions(update(TEA, "Likes coffee")), run_id="r2")
    table.commit(actions(add("Runs")), run_id="r2", part=1)
    table.undo("r1", cascade=True)
    assert table.count() == 0
    assert table.runs()["undone"].to_pylist() == [True, True, True, False]


def test_an_undo_that_reached_further_back_is_in_the_way() -> None:
    table = memory_table()
    table.commit(actions(add("Likes tea")), run_id="r1")
    table.commit(actions(update(TEA, "Likes coffee")), run_id="r2")
    table.undo("r2")
    table.undo("r1")
    with pytest.raises(UndoConflictError) as caught:
        table.undo("undo-r2")
    assert caught.value.run_ids == ("undo-r1",)
    table.undo("undo-r2", cascade=True)
    assert table.to_arrow(columns=["text"])["text"].to_pylist() == ["Likes coffee"]


def test_reopen_opens_the_messages_of_the_run_and_undoing_that_closes_them(
    table: MemoryTable,
) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1", ledger=ledger("m1"))
    table.commit(actions(add("Runs")), run_id="r2", ledger=ledger("m2"))
    both = sorted([ledger_key("m1"), ledger_key("m2")])
    table.undo("r1")
    assert table.ledger_keys().to_pylist() == both
    table.undo("r1", reopen=True)
    assert table.ledger_keys().to_pylist() == [ledger_key("m2")]
    assert table.undo("r1", reopen=True).outcome == "already_landed"
    table.undo("undo2-r1")
    assert table.ledger_keys().to_pylist() == both
    table.undo("undo-r1")
    table.undo("r1", reopen=True)
    assert table.ledger_keys().to_pylist() == [ledger_key("m2")]
    table.commit(actions(add("Likes tea")), run_id="r3", ledger=ledger("m1"))
    assert table.ledger_keys().to_pylist() == both


def test_a_run_committed_after_an_undo_mints_the_same_ids(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea", context="kitchen")), run_id="r1")
    table.undo("r1")
    result = table.commit(actions(add("Likes tea")), run_id="r2")
    assert (result.added, result.ids) == (1, {})
    row = table.get(TEA)
    assert row is not None
    assert (row["revision"], row["event"], row["context"]) == (3, "ADD", None)
    assert row["created_at"] == row["valid_from"]
    table.undo("r2")
    assert table.count() == 0
    result = table.commit(actions(add("something else", memory_id=TEA, scope=OTHER)), run_id="r3")
    assert result.ids == {TEA: minted("something else", OTHER)}


def test_a_run_without_revisions_cannot_be_undone() -> None:
    table = memory_table()
    table.commit(actions(add("Likes tea")), run_id="r1")
    table.commit(actions(update(TEA, "Likes coffee")), run_id="r2", revisions=False)
    with pytest.raises(HistoryGoneError, match="revisions=False"):
        table.undo("r2")
    with pytest.raises(HistoryGoneError, match="'r2'"):
        table.undo("r1", cascade=True)
    assert table.version == 2


def test_what_maintenance_has_dropped_cannot_be_undone(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    table.commit(actions(update(TEA, "Likes coffee")), run_id="r2")
    horizon = table.commit_time
    table.commit(actions(add("Runs")), run_id="r3")
    drop_revisions(table)
    for run_id in ("r1", "r2"):
        with pytest.raises(HistoryGoneError, match=f"'{run_id}'.*2024-05-01") as caught:
            table.undo(run_id, cascade=True)
        assert caught.value.horizon == horizon
    assert table.undo("r3").deleted == 1
    with pytest.raises(TableError, match="kind 'vacuum'"):
        table.undo("dropped")


def test_who_undoes_the_same_at_the_same_time_does_it_once() -> None:
    table = memory_table()
    table.commit(actions(add("Likes tea")), run_id="r1")
    snapshot = table._storage.snapshot()
    both = [
        transact(
            table._storage,
            make_undo(snapshot, "r1", reopen=False, cascade=False, labels=None),
            table._clock,
        )
        for _ in range(2)
    ]
    assert [result.outcome for result in both] == ["landed", "already_landed"]
    assert (table.version, table.count()) == (2, 0)


def test_a_run_that_is_not_there_cannot_be_undone() -> None:
    table = memory_table()
    table.commit(actions(add("Likes tea")), run_id="r1")
    with pytest.raises(TableError, match=r"no run 'r9'.*'r1'"):
        table.undo("r9")


def test_a_run_that_changed_no_memory_can_be_reopened(table: MemoryTable) -> None:
    table.commit(actions(), run_id="r1", ledger=ledger("m1"))
    assert table.undo("r1", reopen=True).outcome == "landed"
    assert table.ledger_keys().to_pylist() == []


def test_what_a_run_closes_expires_as_the_table_says() -> None:
    table = memory_table()
    table.commit(actions(add("Likes tea"), add("Has a cat")), run_id="r1")
    table.commit(actions(update(TEA, "Likes coffee")), run_id="r2")
    table.commit(actions(update(CAT, "Has a dog")), run_id="r3", revisions=False)
    table.undo("r2")
    tea, cat = (table.history(name).to_pylist() for name in (TEA, CAT))
    year = timedelta(days=365)
    assert [row["revision_expires_at"] for row in tea] == [
        tea[0]["valid_to"] + year,
        tea[1]["valid_to"] + year,
        None,
    ]
    assert [row["revision_expires_at"] for row in cat] == [cat[0]["valid_to"], None]


def test_a_cascade_leaves_forgotten_what_others_forgot() -> None:
    table = memory_table()
    table.commit(actions(add("Runs")), run_id="r0")
    first = actions(add("Likes tea"), add("Has a cat"), update(RUNS, "Swims"))
    table.commit(first, run_id="r1")
    table.commit(actions(update(TEA, "Likes coffee"), add("Has a dog")), run_id="r2")
    table.forget(TEA)
    table.forget(RUNS)
    table.commit(actions(update(CAT, "Has two cats")), run_id="r3")
    with pytest.raises(UndoConflictError, match="leaves forgotten"):
        table.undo("r1")
    before = table.to_arrow(include=["live", "deleted"], columns=["memory_id", "event", "payload"])
    table.undo("r1", cascade=True)
    # Nothing else built on r2 than what is forgotten, and what it added stays.
    assert table.to_arrow(columns=["text"])["text"].to_pylist() == ["Has a dog"]
    assert table.runs()["info"].to_pylist()[-1] == '{"undoes":["r3","r1"],"reopens":[]}'
    for name in (TEA, RUNS):
        row = table.get(name, include=["deleted"])
        assert row is not None
        assert row["event"] == "FORGET"
        assert {key: row[key] for key in before.column_names} in before.to_pylist()
    again = actions(add("Likes tea"), add("Likes coffee"), add("Swims"))
    assert table.commit(again, run_id="r4").blocked == 3


def test_a_cascade_over_a_scope_that_was_forgotten_brings_nothing_of_it_back() -> None:
    table = memory_table()
    table.commit(actions(add("Has a cat")), run_id="r0")
    table.commit(actions(add("Likes tea")), run_id="r1")
    table.forget(scope={"user_id": "u1"})
    forgetting = table.runs()["run_id"].to_pylist()[-1]
    table.restore(TEA)
    restoring = table.runs()["run_id"].to_pylist()[-1]
    # The memory that was restored is taken back; the forgetting of the other one is not.
    table.undo("r1", cascade=True)
    undone = f'{{"undoes":["{restoring}","r1"],"reopens":[]}}'
    assert table.runs()["info"].to_pylist()[-1] == undone
    assert table.count() == 0
    assert table.commit(actions(add("Has a cat")), run_id="r2").blocked == 1
    table.undo("undo-r1")
    assert table.to_arrow(columns=["text"])["text"].to_pylist() == ["Likes tea"]
    # Who undoes the forgetting itself means it.
    assert table.undo(forgetting, cascade=True).added == 1
    assert table.count() == 2


def test_what_a_cascade_left_forgotten_comes_back_when_both_are_undone() -> None:
    table = memory_table()
    table.commit(actions(add("Likes tea")), run_id="r1")
    before = remembered(table)
    table.forget(TEA)
    forgetting = table.runs()["run_id"].to_pylist()[-1]
    table.undo("r1", cascade=True)
    with pytest.raises(UndoConflictError) as caught:
        table.undo(forgetting)
    assert caught.value.run_ids == ("undo-r1",)
    table.undo("undo-r1")
    table.undo(forgetting)
    assert remembered(table) == before
