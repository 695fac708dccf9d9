"""What has expired is gone for every purpose but its history: it says nothing any more."""

from datetime import UTC, datetime, timedelta

import pytest

from memorypipe.errors import TableError
from memorypipe.table.table import MemoryTable
from tests.support.memory_table import memory_table
from tests.support.table_actions import START, actions, add, delete, minted, update

TEA = minted("Likes tea")
TWIN = minted("Likes tea", ordinal=1)
PAST = START - timedelta(days=1)
LATER = datetime(2030, 1, 1, tzinfo=UTC)


def texts(table: MemoryTable) -> list[str]:
    return sorted(table.to_arrow(columns=["text"])["text"].to_pylist())


def test_what_has_expired_can_be_said_again(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea", expires_at=PAST)), run_id="r1")
    result = table.commit(actions(add("Likes tea")), run_id="r2")
    assert (result.added, result.duplicates, result.ids) == (1, 0, {TEA: TWIN})
    assert table.commit(actions(add("Likes tea")), run_id="r3").ids == {TEA: TWIN}
    assert texts(table) == ["Likes tea"]


def test_it_expires_at_the_commit_time_and_not_before() -> None:
    for after, added in ((timedelta(0), 1), (timedelta(microseconds=1), 0)):
        table = memory_table()
        # The clock gives the second reading, two seconds after the start, to the second commit.
        rows = actions(add("Likes tea", expires_at=START + timedelta(seconds=2) + after))
        table.commit(rows, run_id="r1")
        assert table.commit(actions(add("Likes tea")), run_id="r2").added == added


def test_in_a_batch_too_what_has_expired_says_nothing() -> None:
    table = memory_table()
    result = table.commit(actions(add("Likes tea", expires_at=PAST), add("Likes tea")), run_id="r1")
    assert (result.added, result.duplicates, texts(table)) == (2, 0, ["Likes tea"])


def test_an_update_that_prolongs_a_memory_lets_it_speak_again() -> None:
    table = memory_table()
    table.commit(actions(add("Likes tea", expires_at=PAST)), run_id="r1")
    again = actions(update(TEA, "Likes tea", expires_at=LATER), add("Likes tea"))
    assert table.commit(again, run_id="r2").duplicates == 1
    ending = actions(update(TEA, "Likes tea", expires_at=PAST), add("Likes tea"))
    result = table.commit(ending, run_id="r3")
    assert (result.added, result.duplicates, texts(table)) == (1, 0, ["Likes tea"])


def test_an_update_that_leaves_it_expired_says_nothing() -> None:
    table = memory_table()
    table.commit(actions(add("Likes tea", expires_at=PAST)), run_id="r1")
    batch = actions(update(TEA, "Likes coffee"), add("Likes coffee"))
    assert table.commit(batch, run_id="r2").duplicates == 0
    assert texts(table) == ["Likes coffee"]


def test_what_has_expired_stands_in_the_way_of_no_restoring() -> None:
    table = memory_table()
    table.commit(actions(add("Likes tea")), run_id="r1")
    table.commit(actions(delete(TEA)), run_id="r2")
    table.commit(actions(add("Likes tea", expires_at=PAST)), run_id="r3")
    assert table.restore(TEA).added == 1
    table.commit(actions(delete(TEA)), run_id="r4")
    table.commit(actions(add("Likes tea", memory_id="other")), run_id="r5")
    with pytest.raises(TableError, match=r"'other'.*says the same"):
        table.restore(TEA)


def test_what_has_expired_counts_for_no_guard() -> None:
    table = memory_table()
    old = [add(f"old {number}", expires_at=PAST) for number in range(30)]
    table.commit(actions(*old, *(add(f"text {n}") for n in range(12))), run_id="r1")
    gone = [delete(minted(f"old {number}")) for number in range(30)]
    assert table.commit(actions(*gone[:20]), run_id="r2").deleted == 20
    rows = [delete(minted(f"text {number}")) for number in range(12)]
    (reason,) = table.commit(actions(*rows), run_id="r3").held_back.values()
    assert reason.startswith("guard: 12 of 12 memories")
    assert table.commit(actions(*rows[:10], *gone[20:]), run_id="r4").deleted == 20
