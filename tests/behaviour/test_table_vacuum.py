"""Vacuum drops what has expired and what nobody names, and nothing that anybody needs."""

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memorypipe.errors import HistoryGoneError, InvalidArgumentError, TableVersionError
from memorypipe.llm.batch.records import BatchFolder
from memorypipe.llm.journal.open import take_inventory
from memorypipe.table.backends import open_storage
from memorypipe.table.erasing.sweep import sweep
from memorypipe.table.erasing.targets import Targets
from memorypipe.table.records import Head
from memorypipe.table.table import MemoryTable
from memorypipe.table.transaction import transact
from memorypipe.table.vacuum import VacuumCommit
from tests.support.erasable import fill_batches, fill_journal, fill_run, fill_table, marker_of
from tests.support.table_actions import (
    START,
    SteppingClock,
    actions,
    add,
    delete,
    ledger,
    minted,
    update,
)

EVERYTHING = ("live", "deleted", "invalid", "expired", "history")
YEAR = timedelta(days=365)


# What lies beside the table is the same for every back end.
beside_the_table = pytest.mark.parametrize("backend", ["parquet"])

# It marks rows as deleted where the other one writes anew.
only_lance = pytest.mark.parametrize("backend", ["lance"])


@pytest.fixture
def clock() -> SteppingClock:
    return SteppingClock()


@pytest.fixture
def table(tmp_path: Path, backend: str, clock: SteppingClock) -> MemoryTable:
    return MemoryTable.open(tmp_path / "table", backend=backend, clock=clock)


@pytest.fixture
def later(table: MemoryTable, backend: str) -> Callable[[timedelta], MemoryTable]:
    """Open the table as it is some time after its beginning."""
    return lambda after: MemoryTable.open(
        table.uri, backend=backend, clock=SteppingClock(START + after)
    )


def write_history(table: MemoryTable) -> None:
    """Three revisions of a memory, and another one that was deleted."""
    table.commit(actions(add("Likes tea"), add("Runs")), run_id="r1")
    table.commit(actions(update(minted("Likes tea"), "Likes coffee")), run_id="r2")
    table.commit(
        actions(update(minted("Likes tea"), "Likes water"), delete(minted("Runs"))), run_id="r3"
    )


def test_superseded_revisions_go_when_they_have_expired_and_current_ones_never(
    table: MemoryTable, later: Callable[[timedelta], MemoryTable]
) -> None:
    write_history(table)
    before = table.to_arrow(include=EVERYTHING)
    assert later(YEAR - timedelta(days=1)).vacuum().revisions == 0
    assert table.to_arrow(include=EVERYTHING).equals(before)
    report = later(YEAR + timedelta(days=1)).vacuum()
    assert (report.revisions, report.version) == (3, 4)
    current = before.filter(before["is_current"])
    assert table.to_arrow(include=EVERYTHING).equals(current)
    assert later(2 * YEAR).vacuum().version == 4


def test_moments_that_are_no_longer_whole_cannot_be_read_and_later_ones_can(
    table: MemoryTable, later: Callable[[timedelta], MemoryTable]
) -> None:
    write_history(table)
    at_3 = table.as_of(3).to_arrow()
    later(YEAR + timedelta(days=1)).vacuum()
    assert table.settings.history_horizon == at_3["valid_from"][0].as_py()
    with pytest.raises(HistoryGoneError):
        table.as_of(2)
    assert table.as_of(3).to_arrow().equals(at_3)


def test_a_run_whose_revisions_may_be_gone_is_not_undone_by_half(
    table: MemoryTable, later: Callable[[timedelta], MemoryTable]
) -> None:
    write_history(table)
    later(YEAR + timedelta(days=1)).vacuum()
    for run_id in ("r2", "r3"):
        with pytest.raises(HistoryGoneError):
            table.undo(run_id, cascade=True)
    table.commit(actions(add("New")), run_id="r9")
    assert table.undo("r9").deleted == 1


def test_revisions_are_kept_as_long_as_the_table_says(
    table: MemoryTable, later: Callable[[timedelta], MemoryTable]
) -> None:
    assert table.configure(revision_ttl_days=30).outcome == "landed"
    assert table.configure(revision_ttl_days=30).outcome == "nothing"
    write_history(table)
    assert later(timedelta(days=29)).vacuum().revisions == 0
    assert later(timedelta(days=31)).vacuum().revisions == 3
    assert table.configure(revision_ttl_days=None, artifact_ttl_days=7).outcome == "landed"
    assert (table.settings.revision_ttl_days, table.settings.artifact_ttl_days) == (None, 7)
    table.commit(actions(update(minted("Likes tea"), "Likes milk")), run_id="r4")
    assert later(100 * YEAR).vacuum().revisions == 0
    assert [run["kind"] for run in table.runs().to_pylist()].count("configure") == 2


def test_the_revisions_that_a_run_without_revisions_closed_go_at_once(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    table.commit(actions(update(minted("Likes tea"), "Likes coffee")), run_id="r2", revisions=False)
    assert table.vacuum().revisions == 1
    assert table.to_arrow(include=EVERYTHING)["text"].to_pylist() == ["Likes coffee"]


def test_what_vacuum_dropped_is_in_no_file_any_more(table: MemoryTable) -> None:
    table.configure(revision_ttl_days=0)
    table.commit(actions(add(f"First {marker_of(1)}"), add("Runs")), run_id="r1")
    change = actions(update(minted(f"First {marker_of(1)}"), f"Second {marker_of(1)}"))
    table.commit(change, run_id="r2")
    assert files_that_say(table, f"First {marker_of(1)}")
    assert table.vacuum(older_than=timedelta(0)).revisions == 1
    assert files_that_say(table, f"First {marker_of(1)}") == []
    assert files_that_say(table, f"Second {marker_of(1)}")


@only_lance
def test_what_a_killed_vacuum_dropped_is_in_no_file_after_the_next_one(
    table: MemoryTable, backend: str
) -> None:
    table.commit(actions(add(f"First {marker_of(1)}")), run_id="r1")
    change = actions(update(minted(f"First {marker_of(1)}"), "Second"))
    table.commit(change, run_id="r2", revisions=False)
    commit = VacuumCommit(version=2, now=START + YEAR)
    assert transact(open_storage(table.uri, backend), commit, SteppingClock()).version == 3
    assert table.vacuum(older_than=timedelta(0)).revisions == 0
    assert files_that_say(table, f"First {marker_of(1)}") == []


def files_that_say(table: MemoryTable, text: str) -> list[str]:
    """Search every file, whatever any version says of its rows."""
    found = sweep([table.uri], Targets(), [text], journals=())
    return [each.path for each in found.left] + [table.uri] * found.shared


@beside_the_table
def test_a_run_without_revisions_takes_nothing_from_the_runs_that_it_did_not_touch(
    table: MemoryTable,
) -> None:
    table.commit(actions(add("Runs")), run_id="r1")
    table.commit(actions(add("Likes tea"), add("Has a cat")), run_id="r2")
    table.commit(actions(update(minted("Runs"), "Swims")), run_id="r3")
    bulk = actions(update(minted("Likes tea"), "Likes coffee"))
    table.commit(bulk, run_id="bulk", revisions=False)
    assert table.vacuum().revisions == 1
    assert table.settings.revisions_horizon is None
    with pytest.raises(HistoryGoneError, match="'r2' cannot be undone"):
        table.undo("r2", cascade=True)
    with pytest.raises(HistoryGoneError, match="'bulk' cannot be undone"):
        table.undo("bulk")
    assert (table.undo("r3").updated, table.undo("r1").deleted) == (1, 1)
    assert sorted(table.to_arrow()["text"].to_pylist()) == ["Has a cat", "Likes coffee"]


@beside_the_table
def test_revisions_that_have_expired_count_beside_those_of_a_run_without(
    table: MemoryTable, later: Callable[[timedelta], MemoryTable]
) -> None:
    write_history(table)
    expired = table.commit_time
    change = actions(update(minted("Likes tea"), "Likes milk"))
    table.commit(change, run_id="bulk", revisions=False)
    assert later(YEAR + timedelta(days=1)).vacuum().revisions == 4
    assert table.settings.revisions_horizon == expired
    assert table.settings.history_horizon == table.at(4).commit_time


@pytest.mark.parametrize("newer", ["optimize", "vacuum"])
def test_the_upkeep_of_a_table_of_a_newer_format_is_refused(
    tmp_path: Path, backend: str, newer: str
) -> None:
    head = Head(number=0, committed_at=START, created_at=START, vector_dim=4, format_version=99)
    open_storage(str(tmp_path), backend).create(head)
    with pytest.raises(TableVersionError, match="version 99"):
        getattr(MemoryTable.open(tmp_path), newer)()


@pytest.mark.parametrize("days", [-1, 1.5, True, "30"])
@beside_the_table
def test_what_is_no_number_of_days_is_refused(table: MemoryTable, days: object) -> None:
    with pytest.raises(InvalidArgumentError, match="revision_ttl_days must be a whole number"):
        table.configure(revision_ttl_days=days)  # type: ignore[arg-type]  # what is tested
    assert table.version == 0


@beside_the_table
def test_a_negative_age_is_refused(table: MemoryTable) -> None:
    with pytest.raises(InvalidArgumentError, match="older_than"):
        table.vacuum(older_than=timedelta(seconds=-1))


def test_old_versions_and_what_failed_commits_left_go(table: MemoryTable) -> None:
    fill_table(table, range(3))
    for number in range(3):
        table.commit(actions(add(f"text {number}")), run_id=f"n{number}")
    before = table.to_arrow(include=EVERYTHING)
    report = table.vacuum(older_than=timedelta(0))
    assert report.size_before is not None
    assert report.size_after is not None
    assert report.size_after < report.size_before
    assert table.to_arrow(include=EVERYTHING).equals(before)
    assert table.runs().num_rows == 5


@beside_the_table
def test_ledger_files_that_no_run_names_go_once_they_are_old(table: MemoryTable) -> None:
    table.commit(actions(), run_id="r1", ledger=ledger("m1"))
    folder = Path(table.uri) / "ledger"
    (named,) = folder.iterdir()
    left_behind, under_way = folder / "left.parquet", folder / "young.parquet"
    for path, age in ((left_behind, 3), (named, 3), (under_way, 0)):
        path.write_bytes(named.read_bytes())
        set_age(path, age)
    assert table.vacuum(older_than=timedelta(days=1)).ledgers == 1
    assert sorted(folder.iterdir()) == sorted([named, under_way])
    assert len(table.ledger_keys()) == 1


def set_age(path: Path, days: float) -> None:
    """Let a file, or all files of a folder, be that much older than the table's beginning."""
    at = (START - timedelta(days=days)).timestamp()
    for each in (*path.rglob("*"), path):
        os.utime(each, (at, at))


@beside_the_table
def test_artifacts_of_committed_runs_go_when_they_are_old_and_those_of_others_never(
    table: MemoryTable, later: Callable[[timedelta], MemoryTable]
) -> None:
    table.commit(actions(add("Likes tea")), run_id="committed")
    committed = fill_run(table, "committed", range(1), status="done", committed=True).path
    planned = fill_run(table, "planned", range(1), status="planned").path
    failed = fill_run(table, "failed", range(1), status="failed").path
    idle = fill_run(table, "nothing-to-commit", range(1), status="done", committed=True).path
    for path in (committed, planned, failed, idle):
        set_age(path, 0)
    report = later(timedelta(days=29)).vacuum()
    assert (report.runs, report.kept_runs) == (0, 2)
    report = later(timedelta(days=31)).vacuum()
    assert (report.runs, report.kept_runs) == (2, 2)
    assert (planned.exists(), failed.exists()) == (True, True)
    assert (committed.exists(), idle.exists()) == (False, False)
    table.configure(artifact_ttl_days=None)
    table.commit(actions(), run_id="planned", ledger=ledger("m1"))
    assert later(10 * YEAR).vacuum().runs == 0


@beside_the_table
def test_a_folder_in_which_a_planning_died_goes_once_it_is_old(
    table: MemoryTable, later: Callable[[timedelta], MemoryTable]
) -> None:
    scratch = Path(table.uri) / "runs" / ".planning-x"
    scratch.mkdir(parents=True)
    set_age(scratch, 0)
    assert later(timedelta(days=29)).vacuum().runs == 0
    assert later(timedelta(days=31)).vacuum().runs == 1
    assert not scratch.exists()


@beside_the_table
def test_journal_segments_go_when_old_unless_a_run_that_waits_may_need_them(
    table: MemoryTable, later: Callable[[timedelta], MemoryTable]
) -> None:
    journal = Path(table.uri) / "journal"
    fill_journal(str(journal), range(2))
    set_age(journal, 0)
    waiting = fill_run(table, "waiting", range(1), started_at=START.isoformat(), status="planned")
    assert later(timedelta(days=31)).vacuum().segments == 0
    started_at = datetime(2024, 6, 1, tzinfo=UTC).isoformat()
    waiting.write_json("run", {"status": "planned", "started_at": started_at})
    assert later(timedelta(days=29)).vacuum().segments == 0
    assert take_inventory(str(journal)).usable == 2
    assert later(timedelta(days=31)).vacuum().segments == 1
    assert take_inventory(str(journal)).segments == 0


@beside_the_table
def test_records_of_batches_go_with_their_runs_unless_they_are_open(
    table: MemoryTable, later: Callable[[timedelta], MemoryTable]
) -> None:
    fill_batches(table, range(1), "created")
    fill_batches(table, range(1), "done")
    folder = Path(table.uri) / "batches"
    set_age(folder, 0)
    run = fill_run(table, "r1", range(1), status="planned").path
    assert later(timedelta(days=31)).vacuum().batches == 0
    table.commit(actions(add("Likes tea")), run_id="r1")
    set_age(run, 0)
    assert later(timedelta(days=31)).vacuum().batches == 1
    assert [each.name for each in BatchFolder(folder).records()] == ["batch-created"]


def test_a_vacuum_while_another_one_has_done_it_changes_nothing(
    table: MemoryTable, later: Callable[[timedelta], MemoryTable]
) -> None:
    write_history(table)
    first, second = (later(YEAR + timedelta(days=1)) for _ in range(2))
    assert first.vacuum().revisions == 3
    assert (second.vacuum().revisions, table.version) == (0, 4)
