"""A table of the first version of the format goes on: read, written, undone, cleaned, erased."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from memorypipe import ids
from memorypipe.schema import TABLE_FORMAT_VERSION
from memorypipe.table.erasing.requests import EraseRequest
from memorypipe.table.table import MemoryTable
from tests.support.table_actions import START, SteppingClock, actions, add, minted, update

_OLD = Path(__file__).parents[1] / "data" / "table_v1"
EVERYTHING = ("live", "deleted", "invalid", "expired", "history")


@pytest.fixture
def table(tmp_path: Path) -> MemoryTable:
    """A copy of the old table: three runs, two scopes, one deleted memory."""
    shutil.copytree(_OLD, tmp_path / "table")
    return open_later(tmp_path / "table", timedelta(minutes=1))


def open_later(place: str | Path, after: timedelta) -> MemoryTable:
    return MemoryTable.open(place, create=False, clock=SteppingClock(START + after))


def format_of(table: MemoryTable) -> int:
    return table._storage.snapshot().head.format_version


def test_it_is_read_as_it_was_and_reading_changes_nothing(table: MemoryTable) -> None:
    assert table.to_arrow()["text"].to_pylist() == [
        "Likes green tea",
        "Plays chess",
        "Lives in Bern",
    ]
    assert table.history(minted("Likes tea"))["text"].to_pylist() == [
        "Likes tea",
        "Likes green tea",
    ]
    assert sorted(table.as_of(1).to_arrow()["text"].to_pylist()) == [
        "Likes tea",
        "Lives in Bern",
        "Owns a cat",
    ]
    assert table.runs()["run_id"].to_pylist() == ["r1", "r2", "r3"]
    assert len(table.ledger_keys()) == 2
    assert format_of(table) == 1


def test_the_first_commit_upgrades_it(table: MemoryTable) -> None:
    before = table.to_arrow(include=EVERYTHING)
    table.commit(actions(add("New"), update(minted("Plays chess"), "Plays go")), run_id="r4")
    assert format_of(table) == TABLE_FORMAT_VERSION
    assert table.to_arrow(include=EVERYTHING).num_rows == before.num_rows + 2
    assert (table.settings.revision_ttl_days, table.settings.erased) == (365, ())
    assert table.as_of(3).count() == 3


def test_its_runs_are_undone(table: MemoryTable) -> None:
    table.undo("r2")
    assert sorted(table.to_arrow()["text"].to_pylist()) == [
        "Likes tea",
        "Lives in Bern",
        "Owns a cat",
        "Plays chess",
    ]


def test_what_it_deleted_is_restored(table: MemoryTable) -> None:
    table.restore(minted("Owns a cat"))
    assert "Owns a cat" in table.to_arrow()["text"].to_pylist()


def test_what_it_superseded_expires_counted_from_then(table: MemoryTable) -> None:
    assert open_later(table.uri, timedelta(days=364)).vacuum().revisions == 0
    assert format_of(table) == 1
    assert open_later(table.uri, timedelta(days=366)).vacuum().revisions == 2
    assert format_of(table) == TABLE_FORMAT_VERSION
    assert table.count() == 3


def test_a_scope_is_erased_from_it(table: MemoryTable) -> None:
    receipt = table.erase([EraseRequest(scope={"user_id": "u1"})])
    assert receipt.is_complete
    assert (receipt.removed.memories, receipt.removed.revisions) == (3, 5)
    assert table.to_arrow(include=EVERYTHING)["text"].to_pylist() == ["Lives in Bern"]
    held_back = table.commit(actions(add("New")), run_id="r4").held_back
    assert list(held_back) == [ids.scope_key({"user_id": "u1"})]


def test_optimize_leaves_its_rows_alone(table: MemoryTable) -> None:
    before = table.to_arrow(include=EVERYTHING)
    table.optimize()
    assert table.to_arrow(include=EVERYTHING).equals(before)
