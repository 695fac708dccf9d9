"""Landed, surely not landed, unknown: what a commit does after each."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from memorypipe.errors import ConflictError, TableError
from memorypipe.table.lance.storage import LanceSnapshot, LanceStorage
from memorypipe.table.storage import RaceLostError, UnknownOutcomeError
from memorypipe.table.table import MemoryTable
from tests.support.table_actions import (
    SteppingClock,
    actions,
    add,
    delete,
    ledger,
    ledger_key,
    minted,
    update,
)

TEA = minted("Likes tea")

# Gets the real commit, runs it or not, and may raise.
Step = Callable[[Callable[[], None]], None]


@dataclass(frozen=True)
class FaultySnapshot(LanceSnapshot):
    """A snapshot whose commits meet what the script says."""

    script: list[Step]

    def commit(self, *, closed: pa.Array, rows: pa.Table, head: pa.Table) -> None:
        def land() -> None:
            super(FaultySnapshot, self).commit(closed=closed, rows=rows, head=head)

        if self.script:
            self.script.pop(0)(land)
        else:
            land()


@dataclass(frozen=True)
class FaultyStorage(LanceStorage):
    """A storage whose commits meet what the script says, one step per attempt."""

    script: list[Step] = field(default_factory=list)

    def snapshot(self) -> FaultySnapshot:
        real = super().snapshot()
        return FaultySnapshot(real.dataset, real.head, real.head_fragment, self.script)


@pytest.fixture
def table(tmp_path: Path) -> MemoryTable:
    table = MemoryTable.open(tmp_path / "table", clock=SteppingClock())
    table.commit(actions(add("Likes tea")), run_id="r1")
    return table


def faulty(table: MemoryTable, *script: Step) -> MemoryTable:
    storage = FaultyStorage(table.uri, list(script))
    return MemoryTable(table.uri, storage, SteppingClock())


def lands_then_fails(land: Callable[[], None]) -> None:
    land()
    raise UnknownOutcomeError("connection lost")


def fails_first(_: Callable[[], None]) -> None:
    raise UnknownOutcomeError("connection lost")


def lost(_: Callable[[], None]) -> None:
    raise RaceLostError("another came first")


def commit(table: MemoryTable) -> Any:
    batch = actions(update(TEA, "Likes coffee"), add("Has a cat"))
    return table.commit(batch, run_id="r2", base_version=1, ledger=ledger("m1"))


@pytest.mark.parametrize(
    "script", [(lands_then_fails,), (fails_first,), (fails_first, lands_then_fails), (lost, lost)]
)
def test_whatever_happened_the_batch_lands_once(table: MemoryTable, script: Any) -> None:
    result = commit(faulty(table, *script))
    assert (result.outcome, result.version, result.added, result.updated) == ("landed", 2, 1, 1)
    assert (table.version, table.count(), table.history(TEA).num_rows) == (2, 2, 2)
    assert table.ledger_keys().to_pylist() == [ledger_key("m1")]


def test_an_outcome_that_stays_unknown_is_told_and_running_again_settles_it(
    table: MemoryTable,
) -> None:
    with pytest.raises(TableError, match=r"unknown.*same run_id"):
        commit(faulty(table, fails_first, fails_first, fails_first))
    assert commit(table).outcome == "landed"
    assert commit(table).outcome == "already_landed"


def test_endless_races_end_in_an_error_that_says_nothing_was_changed(table: MemoryTable) -> None:
    with pytest.raises(TableError, match="Nothing was changed"):
        commit(faulty(table, *[lost] * 100))
    assert table.version == 1


def test_a_commit_that_lost_is_decided_against_the_fresh_version(table: MemoryTable) -> None:
    def another_first(land: Callable[[], None]) -> None:
        table.commit(actions(add("Has a cat"), delete(TEA)), run_id="other")
        land()

    with pytest.raises(ConflictError) as caught:
        commit(faulty(table, another_first))
    assert caught.value.memory_ids == (TEA,)
    result = faulty(table).commit(actions(add("Has a cat")), run_id="r3")
    assert result.duplicates == 1


def test_two_commits_that_only_add_never_double_a_memory(table: MemoryTable) -> None:
    def same_first(land: Callable[[], None]) -> None:
        table.commit(actions(add("Has a cat")), run_id="other")
        land()

    result = faulty(table, same_first).commit(
        actions(add("Has a cat"), add("Has a dog")), run_id="r2"
    )
    assert (result.version, result.added, result.duplicates) == (3, 1, 1)
    assert table.count() == 3


def test_a_merge_of_files_between_reading_and_committing_loses_nothing(table: MemoryTable) -> None:
    table.commit(actions(add("Has a dog")), run_id="dog")

    def merge_first(land: Callable[[], None]) -> None:
        snapshot = LanceStorage(table.uri).snapshot()
        metrics = snapshot.dataset.optimize.compact_files(
            excluded_fragment_ids=[snapshot.head_fragment]
        )
        assert metrics.fragments_removed > 1
        land()

    result = faulty(table, merge_first).commit(actions(update(TEA, "Likes coffee")), run_id="r2")
    assert (result.outcome, table.version) == ("landed", 3)
    assert table.history(TEA)["text"].to_pylist() == ["Likes tea", "Likes coffee"]
    assert table.count() == 2


def test_what_a_failed_commit_left_behind_is_not_seen(table: MemoryTable) -> None:
    def dies(_: Callable[[], None]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        commit(faulty(table, dies))
    assert len(list((Path(table.uri) / "ledger").iterdir())) == 1
    assert (table.version, table.count()) == (1, 1)
    assert table.ledger_keys().to_pylist() == []
