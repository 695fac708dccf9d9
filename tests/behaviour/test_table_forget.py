"""What forgetting takes away and keeps away, on every back end."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow.compute as pc
import pytest

from memorypipe import ids
from memorypipe.errors import InvalidArgumentError, TableError
from memorypipe.table.table import MemoryTable
from tests.support.memory_table import memory_table
from tests.support.table_actions import (
    START,
    USER,
    action,
    actions,
    add,
    delete,
    ledger,
    ledger_key,
    minted,
    update,
)

TEA, CAT = minted("Likes tea"), minted("Has a cat")
OTHER = {"user_id": "u2"}
LATER = datetime(2025, 1, 1, tzinfo=UTC)
OLD = START - timedelta(days=1)


def texts(table: MemoryTable, **more: Any) -> list[str]:
    return sorted(table.to_arrow(columns=["text"], **more)["text"].to_pylist())


def test_what_is_forgotten_is_gone_and_its_tombstone_keeps_no_content(table: MemoryTable) -> None:
    first = add("Likes tea", context="c", topics=["food"], source_ids=["m1"], rationale="says tea")
    table.commit(actions(first, add("Has a cat")), run_id="r1")
    result = table.forget(TEA, labels={"why": "asked"})
    assert (result.outcome, result.deleted, texts(table)) == ("landed", 1, ["Has a cat"])
    row = table.get(TEA, include=["deleted"])
    assert row is not None
    assert (row["event"], row["text"], row["context"], row["topics"], row["rationale"]) == (
        "FORGET",
        "",
        None,
        None,
        None,
    )
    assert (row["run_id"], row["labels"]) == (
        f"forget-{ids.digest(TEA, size=8).hex()}",
        {"why": "asked"},
    )
    assert "tea" not in str(row).lower().replace(TEA, "")
    assert table.runs()["kind"].to_pylist() == ["commit", "forget"]
    assert table.forget(TEA).outcome == "nothing"


def test_the_same_batch_again_does_not_bring_it_back_and_newer_evidence_does(
    table: MemoryTable,
) -> None:
    batch = actions(add("Likes tea", source_ids=["m1"], event_time=OLD), add("Has a cat"))
    table.commit(batch, run_id="r1")
    table.forget(TEA)
    result = table.commit(batch, run_id="r2", ledger=ledger("m1"))
    assert (result.added, result.none, result.blocked, result.duplicates) == (0, 2, 1, 1)
    assert texts(table) == ["Has a cat"]
    assert table.ledger_keys().to_pylist() == [ledger_key("m1")]
    assert table.runs()["blocked"].to_pylist() == [0, 0, 1]
    newer = actions(add("likes  TEA", source_ids=["m7"], event_time=LATER))
    result = table.commit(newer, run_id="r3")
    assert (result.added, result.ids) == (1, {TEA: minted("Likes tea", ordinal=1)})
    row = table.get(minted("Likes tea", ordinal=1))
    assert row is not None
    assert (row["revision"], row["event"], row["created_at"]) == (1, "ADD", row["valid_from"])
    assert table.commit(batch, run_id="r4").blocked == 1
    assert texts(table) == ["Has a cat", "likes  TEA"]


def test_all_blocked_is_nothing_to_commit() -> None:
    table = memory_table()
    batch = actions(add("Likes tea"))
    table.commit(batch, run_id="r1")
    table.forget(TEA)
    result = table.commit(batch, run_id="r2")
    assert (result.outcome, result.none, result.blocked) == ("nothing", 1, 1)


CASES: list[tuple[Any, bool]] = [
    ({"text": "Green tea it is", "source_ids": ["m5", "m1"], "event_time": OLD}, True),
    ({"text": "Green tea it is", "source_ids": ["m5", "m2"]}, True),
    ({"text": "Green tea it is", "source_ids": ["m5"]}, False),
    ({"text": "likes coffee ", "source_ids": ["m5"]}, True),
    ({"text": "Likes TEA", "source_ids": ["m5"]}, True),
    ({"text": "Likes tea", "event_time": OLD, "record_type": "fact"}, True),
    ({"text": "Green tea it is", "source_ids": ["m1"], "event_time": LATER}, False),
    ({"event": "UPDATE", "text": "Likes tea"}, True),
    ({"event": "UPDATE", "text": "Has a cat called Tea", "source_ids": ["m1"]}, True),
    ({"event": "UPDATE", "text": "Likes tea", "event_time": LATER}, False),
    ({"event": "DELETE", "source_ids": ["m1"]}, False),
]


def test_the_text_and_the_sources_of_all_its_revisions_are_blocked_in_its_scope(
    table: MemoryTable,
) -> None:
    """One scope per case, each with the same memories, of which the first is forgotten."""
    scopes = [{"case": str(number)} for number in range(len(CASES))]
    tea, cat = ([minted(text, each) for each in scopes] for text in ("Likes tea", "Has a cat"))
    first = [add("Likes tea", scope=each, source_ids=["m1"]) for each in scopes]
    others = [add("Has a cat", scope=each, source_ids=["m3"]) for each in scopes]
    table.commit(actions(*first, *others, add("Runs")), run_id="r1")
    changed = [
        update(name, "Likes coffee", scope=scope, source_ids=["m2"])
        for name, scope in zip(tea, scopes, strict=True)
    ]
    table.commit(actions(*changed), run_id="r2")
    table.forget(source_id="m2")
    tried = [
        action(case.get("event", "ADD"), scope=scope, memory_id=name if "event" in case else None)
        | case
        for (case, _), scope, name in zip(CASES, scopes, cat, strict=True)
    ]
    elsewhere = add("Likes tea", source_ids=["m1"])
    result = table.commit(actions(*tried, elsewhere), run_id="r3")
    rows = table.to_arrow(include=["live", "deleted"])
    landed = set(rows.filter(pc.field("run_id") == "r3")["scope_key"].to_pylist())
    assert [ids.scope_key(scope) not in landed for scope in scopes] == [each for _, each in CASES]
    assert result.blocked == result.none == sum(each for _, each in CASES)
    assert ids.scope_key(USER) in landed


def test_what_follows_a_blocked_statement_in_a_batch() -> None:
    table = memory_table()
    table.commit(actions(add("Likes tea")), run_id="r1")
    table.forget(TEA)
    batch = actions(
        add("Likes tea"),
        update(TEA, "Likes tea"),
        update(TEA, "Likes green tea", event_time=LATER),
        update(TEA, "Likes mint tea", event_time=LATER),
    )
    result = table.commit(batch, run_id="r2")
    assert (result.added, result.blocked, texts(table)) == (1, 2, ["Likes mint tea"])
    result = table.commit(actions(add("Likes tea"), delete(TEA), action("NONE")), run_id="r3")
    assert (result.outcome, result.blocked, result.none) == ("nothing", 1, 3)


def test_a_scope_is_forgotten_with_what_it_had_deleted_before(table: MemoryTable) -> None:
    both = actions(add("Likes tea"), add("Has a cat"), add("Runs", scope=OTHER))
    table.commit(both, run_id="r1")
    table.commit(actions(delete(CAT)), run_id="r2")
    result = table.forget(scope=USER)
    assert (result.deleted, texts(table)) == (1, ["Runs"])
    result = table.commit(both, run_id="r3")
    assert (result.blocked, result.duplicates, result.added) == (2, 1, 0)
    assert table.forget(scope=USER).outcome == "nothing"
    assert table.forget(scope={"user_id": "nobody"}).outcome == "nothing"


def test_a_source_is_forgotten_in_all_scopes_or_in_one(table: MemoryTable) -> None:
    for number, scope in enumerate((USER, OTHER, {})):
        rows = (
            add("Likes tea", scope=scope, source_ids=["m1", "m2"]),
            add("Runs", scope=scope, source_ids=["m2"]),
            add("Has a cat", scope=scope),
        )
        table.commit(actions(*rows), run_id=f"r{number}")
    assert table.forget(source_id="m1", scope=USER).deleted == 1
    assert texts(table, scope=USER) == ["Has a cat", "Runs"]
    assert table.forget(source_id="m1").deleted == 2
    assert table.forget(source_id="m2").deleted == 3
    assert texts(table) == ["Has a cat"] * 3
    assert all("m1" not in name for name in table.runs()["run_id"].to_pylist())


def test_a_source_is_forgotten_with_what_was_updated_from_others_since() -> None:
    table = memory_table()
    rows = (add("Likes tea", source_ids=["m1"]), add("Has a cat", source_ids=["m3"]))
    table.commit(actions(*rows), run_id="r1")
    table.commit(actions(update(TEA, "Likes green tea", source_ids=["m2"])), run_id="r2")
    # What was undone is not where a memory comes from.
    table.commit(actions(update(CAT, "Has a dog", source_ids=["m1"])), run_id="r3")
    table.undo("r3")
    assert (table.forget(source_id="m1").deleted, texts(table)) == (1, ["Has a cat"])
    again = actions(add("Likes green tea", source_ids=["m2"]))
    assert table.commit(again, run_id="r4").blocked == 1
    assert table.forget(source_id="m1").outcome == "nothing"


def test_forgetting_can_be_undone_and_then_blocks_nothing() -> None:
    table = memory_table()
    batch = actions(add("Likes tea", event_time=OLD), add("Has a cat"))
    table.commit(batch, run_id="r1")
    rows = table.to_arrow(columns=["memory_id", "text", "updated_at", "topics"])
    table.forget(scope=USER)
    (run_id,) = table.runs()["run_id"].to_pylist()[1:]
    table.undo(run_id)
    assert table.to_arrow(columns=rows.column_names).equals(rows)
    assert table.commit(batch, run_id="r2").duplicates == 2
    # Undoing that undo forgets again, from the same time on.
    table.undo(f"undo-{run_id}")
    said = table.history(TEA)["updated_at"].to_pylist()[1]
    again = [
        add("Likes tea", event_time=said),
        add("Has a cat", event_time=said + timedelta(seconds=1)),
    ]
    assert table.commit(actions(*again), run_id="r3").blocked == 1
    assert texts(table) == ["Has a cat"]


def test_a_deleted_memory_can_be_forgotten_too() -> None:
    table = memory_table()
    table.commit(actions(add("Likes tea")), run_id="r1")
    table.commit(actions(delete(TEA)), run_id="r2")
    result = table.forget(TEA)
    assert (result.outcome, result.deleted) == ("landed", 0)
    assert table.commit(actions(add("Likes tea")), run_id="r3").blocked == 1


def test_what_cannot_be_forgotten_says_so() -> None:
    table = memory_table()
    with pytest.raises(TableError, match="no memory 'mem_x'"):
        table.forget("mem_x")
    for wrong in ({}, {"memory_id": "a", "source_id": "b"}, {"memory_id": "a", "scope": USER}):
        with pytest.raises(InvalidArgumentError, match="memory_id"):
            table.forget(**wrong)


def test_a_blocked_scope_that_is_held_back_counts_nothing() -> None:
    table = memory_table()
    table.commit(actions(add("Likes tea")), run_id="r1")
    table.forget(TEA)
    batch = actions(add("Likes tea"), update("mem_x", "x"), add("Runs", scope=OTHER, seq=0))
    result = table.commit(batch, run_id="r2", on_conflict="skip")
    assert (result.added, result.blocked, result.none, len(result.held_back)) == (1, 0, 0, 1)
