"""What restoring brings back, on every back end."""

import pytest

from memorypipe import ids
from memorypipe.errors import HistoryGoneError, TableError
from memorypipe.table.table import MemoryTable
from tests.support.memory_table import memory_table
from tests.support.table_actions import START, actions, add, delete, minted, update
from tests.support.table_maintenance import drop_revisions

TEA = minted("Likes tea")


def test_a_deleted_memory_comes_back_as_it_last_was(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea", source_ids=["m1"], event_time=START)), run_id="r1")
    table.commit(actions(update(TEA, "Likes coffee", context="office")), run_id="r2")
    before = table.get(TEA)
    table.commit(actions(delete(TEA, event_time=START)), run_id="r3")
    result = table.restore(TEA, labels={"who": "me"})
    after = table.get(TEA)
    assert (result.outcome, result.added, result.version) == ("landed", 1, 4)
    assert before is not None
    assert after is not None
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"revision", "event", "updated_at", "valid_from", "run_id", "labels"}
    assert (after["revision"], after["event"], after["labels"]) == (4, "RESTORE", {"who": "me"})
    assert table.runs().to_pylist()[-1]["run_id"] == f"restore-{ids.digest(TEA, size=8).hex()}"
    assert after["created_at"] < after["updated_at"] == after["valid_from"]


def test_a_forgotten_memory_comes_back_and_blocks_nothing_any_more() -> None:
    table = memory_table()
    batch = actions(add("Likes tea", source_ids=["m1"]))
    table.commit(batch, run_id="r1")
    table.forget(TEA)
    table.restore(TEA)
    assert table.count() == 1
    table.commit(actions(delete(TEA)), run_id="r2")
    result = table.commit(batch, run_id="r3")
    assert (result.blocked, result.added) == (0, 1)


def test_restoring_can_be_undone_and_done_again() -> None:
    table = memory_table()
    table.commit(actions(add("Likes tea")), run_id="r1")
    table.forget(TEA)
    table.restore(TEA)
    table.undo(f"restore-{ids.digest(TEA, size=8).hex()}")
    assert table.count() == 0
    assert table.commit(actions(add("Likes tea")), run_id="r2").blocked == 1
    table.restore(TEA)
    assert table.count() == 1
    assert table.runs()["run_id"].to_pylist()[-1] == f"restore2-{ids.digest(TEA, size=8).hex()}"


def test_what_cannot_be_restored_says_why(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    with pytest.raises(TableError, match="not deleted"):
        table.restore(TEA)
    with pytest.raises(TableError, match="no memory 'mem_x'"):
        table.restore("mem_x")
    table.commit(actions(delete(TEA)), run_id="r2")
    table.commit(actions(add("Likes tea")), run_id="r3")
    twin = minted("Likes tea", ordinal=1)
    with pytest.raises(TableError, match=f"{twin}.*says the same"):
        table.restore(TEA)
    table.commit(actions(delete(twin)), run_id="r4")
    drop_revisions(table)
    with pytest.raises(HistoryGoneError, match="not kept any more"):
        table.restore(TEA)
