"""What a commit does to the table, on every back end."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pyarrow as pa
import pytest

from memorypipe.errors import ConflictError, InvalidArgumentError, RunConflictError
from memorypipe.table.table import MemoryTable
from tests.support.table_actions import (
    START,
    action,
    actions,
    add,
    delete,
    ledger,
    ledger_key,
    minted,
    update,
)

TEA = minted("Likes tea")
OTHER = {"user_id": "u2"}
BOTH = pa.concat_tables([ledger("m1"), ledger("m2", scope=OTHER)])


def texts(table: MemoryTable) -> list[str]:
    return sorted(table.to_arrow(columns=["text"])["text"].to_pylist())


def test_all_actions_of_a_batch_land_in_one_version(table: MemoryTable) -> None:
    result = table.commit(actions(add("Likes tea"), add("Has a cat")), run_id="r1")
    assert (result.outcome, result.version, result.added) == ("landed", 1, 2)
    assert table.version == 1
    assert texts(table) == ["Has a cat", "Likes tea"]


def test_an_update_closes_the_old_revision_and_keeps_what_it_does_not_speak_of(
    table: MemoryTable,
) -> None:
    first = add(
        "Likes tea",
        context="breakfast",
        topics=["food"],
        scope={"user_id": "u1", "agent_id": "a1", "thread_id": "t1"},
        source_ids=["m1"],
    )
    table.commit(actions(first), run_id="r1")
    later = START + timedelta(days=3)
    change = update(
        first["memory_id"],
        "Likes coffee",
        scope=dict(first["scope"]),
        event_time=later,
        source_ids=["m2"],
        model="m",
        prompt_hash="p",
        conversation_id="c2",
        rationale="said so",
    )
    table.commit(actions(change), run_id="r2", labels={"why": "test"})
    old, new = table.history(first["memory_id"]).to_pylist()
    assert (old["revision"], new["revision"]) == (1, 2)
    assert (old["is_current"], old["is_live"], new["is_current"], new["is_live"]) == (
        False,
        False,
        True,
        True,
    )
    assert old["valid_to"] == new["valid_from"] == new["updated_at"] == table.commit_time
    assert (old["text"], old["search_text"], old["vector"]) == ("Likes tea", None, None)
    assert (new["text"], new["search_text"], new["event"]) == (
        "Likes coffee",
        "Likes coffee",
        "UPDATE",
    )
    assert new["created_at"] == old["created_at"] < new["valid_from"]
    assert (new["context"], new["topics"]) == ("breakfast", ["food"])
    assert (new["user_id"], new["agent_id"], new["thread_id"]) == ("u1", "a1", "t1")
    assert (new["event_time"], new["source_ids"], new["run_id"]) == (later, ["m2"], "r2")
    assert (new["model"], new["prompt_hash"], new["conversation_id"], new["rationale"]) == (
        "m",
        "p",
        "c2",
        "said so",
    )
    assert (dict(new["labels"]), old["labels"]) == ({"why": "test"}, None)


def test_a_delete_leaves_a_tombstone_without_content(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea", context="c", topics=["food"])), run_id="r1")
    result = table.commit(actions(delete(TEA)), run_id="r2")
    assert (result.deleted, table.count(), table.get(TEA)) == (1, 0, None)
    tombstone = table.get(TEA, include=["deleted"])
    assert tombstone is not None
    assert (tombstone["text"], tombstone["context"], tombstone["topics"]) == ("", None, None)
    assert (tombstone["deleted"], tombstone["is_live"], tombstone["revision"]) == (True, False, 2)


def test_none_actions_change_nothing_and_make_no_version(table: MemoryTable) -> None:
    result = table.commit(actions(action("NONE", "Likes tea")), run_id="r1")
    assert (result.outcome, result.none, result.version, table.version) == ("nothing", 1, 0, 0)


def test_an_empty_batch_is_nothing(table: MemoryTable) -> None:
    result = table.commit(actions(), run_id="r1")
    assert (result.outcome, table.version) == ("nothing", 0)


def test_ledger_rows_alone_are_a_commit(table: MemoryTable) -> None:
    result = table.commit(actions(), run_id="r1", ledger=ledger("m1"))
    assert (result.outcome, table.version, table.count()) == ("landed", 1, 0)
    assert table.ledger_keys().to_pylist() == [ledger_key("m1")]


def test_several_actions_on_one_memory_become_one_revision(table: MemoryTable) -> None:
    result = table.commit(
        actions(
            add("Likes tea", context="kitchen", source_ids=["m1"]),
            update(TEA, "Likes green tea", source_ids=["m2", "m1"]),
            add("Has a cat"),
            delete(minted("Has a cat")),
        ),
        run_id="r1",
    )
    assert (result.added, result.updated, result.deleted) == (1, 0, 0)
    (row,) = table.to_arrow(include=["live", "history", "deleted"]).to_pylist()
    assert (row["event"], row["text"], row["context"]) == ("ADD", "Likes green tea", "kitchen")
    assert (row["memory_id"], row["source_ids"]) == (TEA, ["m1", "m2"])


def test_actions_are_taken_in_the_order_of_seq(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    table.commit(actions(update(TEA, "second", seq=1), update(TEA, "first", seq=0)), run_id="r2")
    assert texts(table) == ["second"]
    assert table.history(TEA).num_rows == 2


def test_adding_what_is_there_already_is_nothing(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    result = table.commit(actions(add(" likes  TEA", seq=0), add("Has a cat")), run_id="r2")
    assert (result.added, result.none, result.duplicates) == (1, 1, 1)
    assert texts(table) == ["Has a cat", "Likes tea"]


def test_adding_what_an_updated_memory_says_goes_to_that_memory(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    table.commit(actions(update(TEA, "Likes coffee")), run_id="r2")
    coffee = minted("Likes coffee")
    result = table.commit(
        actions(add("Likes coffee"), update(coffee, "Likes mocha")), run_id="r3", base_version=1
    )
    assert (result.duplicates, result.updated, result.ids) == (1, 1, {coffee: TEA})
    assert texts(table) == ["Likes mocha"]


def test_the_same_text_in_two_scopes_is_two_memories(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea"), add("Likes tea", scope=OTHER)), run_id="r1")
    assert table.count() == 2
    assert table.count(scope=OTHER) == 1


def test_one_text_twice_in_a_batch_is_one_memory(table: MemoryTable) -> None:
    result = table.commit(actions(add("Likes tea"), add("likes tea")), run_id="r1")
    assert (result.added, result.duplicates) == (1, 1)


@pytest.mark.parametrize("change", [update(TEA, "Likes coffee"), delete(TEA)])
def test_an_id_that_now_means_something_else_is_not_used_again(
    table: MemoryTable, change: dict[str, object]
) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    table.commit(actions(change), run_id="r2")
    result = table.commit(actions(add("Likes tea")), run_id="r3")
    assert result.ids == {TEA: minted("Likes tea", ordinal=1)}
    table.commit(actions(delete(minted("Likes tea", ordinal=1))), run_id="r4")
    result = table.commit(actions(add("Likes tea", memory_id=None)), run_id="r5")
    again = table.get(minted("Likes tea", ordinal=2))
    assert again is not None
    assert (again["text"], again["revision"]) == ("Likes tea", 1)


def test_later_actions_of_the_batch_follow_an_id_that_had_to_change(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    table.commit(actions(delete(TEA)), run_id="r2")
    table.commit(actions(add("Likes tea"), update(TEA, "Likes green tea")), run_id="r3")
    again = table.get(minted("Likes tea", ordinal=1))
    assert again is not None
    assert again["text"] == "Likes green tea"
    assert table.history(TEA).num_rows == 2


def test_a_run_committed_again_changes_nothing(
    table: MemoryTable, reopen: Callable[[], MemoryTable]
) -> None:
    batch = actions(add("Likes tea"), add("Has a cat", scope=OTHER))
    first = table.commit(batch, run_id="r1", ledger=ledger("m1", "m2"))
    again = reopen().commit(batch.take([1, 0]), run_id="r1", ledger=ledger("m2", "m1"))
    assert (again.outcome, again.version, again.added) == ("already_landed", 1, first.added)
    assert (table.version, table.count(include=["live", "history"])) == (1, 2)


def test_a_run_id_with_other_actions_or_ledger_rows_is_refused(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    with pytest.raises(RunConflictError, match=r"'r1'.*version 1"):
        table.commit(actions(add("Likes coffee")), run_id="r1")
    with pytest.raises(RunConflictError):
        table.commit(actions(add("Likes tea")), run_id="r1", ledger=ledger("m1"))
    assert table.version == 1


def test_parts_of_one_run_are_commits_of_their_own(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    result = table.commit(actions(add("Has a cat")), run_id="r1", part=1)
    assert (result.outcome, table.version) == ("landed", 2)
    assert table.commit(actions(add("Has a cat")), run_id="r1", part=1).outcome == "already_landed"


@pytest.mark.parametrize("change", [update(TEA, "Likes mocha"), delete(TEA)])
def test_a_memory_that_changed_since_the_base_is_a_conflict(
    table: MemoryTable, change: dict[str, object]
) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    table.commit(actions(update(TEA, "Likes coffee")), run_id="r2")
    with pytest.raises(ConflictError, match="changed after version 1") as caught:
        table.commit(actions(change, add("Has a cat")), run_id="r3", base_version=1)
    assert caught.value.memory_ids == (TEA,)
    assert (table.version, texts(table)) == (2, ["Likes coffee"])
    assert table.commit(actions(change), run_id="r4", base_version=2).outcome == "landed"


def test_changes_elsewhere_since_the_base_are_no_conflict(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    table.commit(actions(add("Has a cat")), run_id="r2")
    result = table.commit(actions(update(TEA, "Likes mocha")), run_id="r3", base_version=1)
    assert (result.outcome, texts(table)) == ("landed", ["Has a cat", "Likes mocha"])


@pytest.mark.parametrize("base_version", [None, 1])
def test_a_target_that_is_not_there_is_a_conflict(
    table: MemoryTable, base_version: int | None
) -> None:
    table.commit(actions(add("Likes tea"), add("Has a cat", scope=OTHER)), run_id="r1")
    elsewhere = minted("Has a cat", OTHER)
    for number, wrong in enumerate([update("mem_nowhere", "x"), update(elsewhere, "x")]):
        with pytest.raises(ConflictError, match="not in the scope") as caught:
            table.commit(actions(wrong), run_id=f"n{number}", base_version=base_version)
        assert caught.value.memory_ids == (wrong["memory_id"],)
    assert texts(table) == ["Has a cat", "Likes tea"]


def test_a_scope_with_a_conflict_is_held_back_whole_and_the_others_land(
    table: MemoryTable,
) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    table.commit(actions(update(TEA, "Likes coffee")), run_id="r2")
    batch = actions(
        add("Has a cat"), update(TEA, "Likes mocha"), add("Has a dog", scope=OTHER, seq=0)
    )
    result = table.commit(
        batch,
        run_id="r3",
        base_version=1,
        on_conflict="skip",
        ledger=BOTH,
    )
    assert (result.outcome, result.added, result.updated) == ("landed", 1, 0)
    (reason,) = result.held_back.values()
    assert list(result.held_back) == ['[["user_id","u1"]]']
    assert TEA in reason
    assert texts(table) == ["Has a dog", "Likes coffee"]
    assert table.ledger_keys().to_pylist() == [ledger_key("m2", OTHER)]
    again = table.commit(
        batch,
        run_id="r3",
        base_version=1,
        on_conflict="skip",
        ledger=BOTH,
    )
    assert (again.outcome, again.held_back) == ("already_landed", result.held_back)


def test_holding_everything_back_commits_nothing(table: MemoryTable) -> None:
    result = table.commit(
        actions(delete("mem_nowhere")), run_id="r1", on_conflict="skip", ledger=ledger("m1")
    )
    assert (result.outcome, len(result.held_back), table.version) == ("nothing", 1, 0)
    assert table.ledger_keys().to_pylist() == []


def test_commit_times_rise_even_when_the_clock_goes_back(table: MemoryTable) -> None:
    clock = table._clock
    table.commit(actions(add("Likes tea")), run_id="r1")
    clock.now = START - timedelta(days=9)  # type: ignore[attr-defined]  # the test's own clock
    before = table.commit_time
    table.commit(actions(add("Has a cat")), run_id="r2")
    assert table.commit_time == before + timedelta(microseconds=1)


def test_a_clock_without_a_zone_is_refused(table: MemoryTable) -> None:
    naive = MemoryTable(table.uri, table._storage, lambda: datetime(2024, 1, 1))  # noqa: DTZ001  # the case
    with pytest.raises(InvalidArgumentError, match="without a zone"):
        naive.commit(actions(add("Likes tea")), run_id="r1")
    assert table.version == 0


def test_a_base_version_that_does_not_exist_is_refused(table: MemoryTable) -> None:
    with pytest.raises(InvalidArgumentError, match="no version 7"):
        table.commit(actions(add("Likes tea")), run_id="r1", base_version=7)


@pytest.mark.parametrize(
    "wrong", [{"run_id": " "}, {"run_id": "r", "part": -1}, {"run_id": "r", "on_conflict": "x"}]
)
def test_options_that_cannot_work_are_refused(table: MemoryTable, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError):
        table.commit(actions(), **wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_an_update_by_undated_evidence_keeps_the_date_of_the_memory(table: MemoryTable) -> None:
    first = add("Likes tea", event_time=START)
    table.commit(actions(first), run_id="r1")
    table.commit(actions(update(first["memory_id"], "Likes coffee")), run_id="r2")
    memory = table.get(first["memory_id"])
    assert memory is not None
    assert memory["event_time"] == START
