"""Which commits count follows from the undos in the order of their commits."""

from datetime import timedelta
from typing import Any

import pytest

from memorypipe.errors import HistoryGoneError, TableError
from memorypipe.table.records import RunRecord
from memorypipe.table.run_log import Revision, RunLog, microseconds_of, trace
from memorypipe.table.undone import counted_ledgers, numbered, undone_numbers
from tests.support.table_actions import START


def run(number: int, run_id: str, **values: Any) -> RunRecord:
    return RunRecord(
        run_id=run_id,
        part=0,
        number=number,
        committed_at=START + timedelta(seconds=number),
        content_hash="",
        kind="undo" if "undoes" in values else "commit",
        **values,
    )


def revisions(*numbers: int, first: int = 1) -> list[Revision]:
    """Give revisions that the commits of these numbers wrote; the row is the revision's number."""
    times = [microseconds_of(START + timedelta(seconds=number)) for number in numbers]
    return [Revision(n, time, n) for n, time in enumerate(times, start=first)]


def test_an_undo_turns_off_and_its_undo_turns_on_however_deep() -> None:
    runs = [run(1, "a", ledger="l1"), run(2, "b"), run(3, "u", undoes=(2, 1), reopens=(1,))]
    assert (undone_numbers(runs), counted_ledgers(runs)) == ({1, 2}, [])
    runs.append(run(4, "uu", undoes=(3,)))
    assert (undone_numbers(runs), counted_ledgers(runs)) == ({3}, ["l1"])
    runs.append(run(5, "uuu", undoes=(4,)))
    assert (undone_numbers(runs), counted_ledgers(runs)) == ({1, 2, 4}, [])
    assert RunLog(runs).undid(1).run_id == "u"


def test_a_run_is_named_after_what_it_does_by_the_first_name_that_is_free() -> None:
    taken = ["undo-a", "undo2-a", "undo4-a"]
    assert [numbered("undo", name, taken) for name in ("a", "b")] == ["undo3-a", "undo-b"]


def test_a_record_goes_back_to_the_revision_before_the_first_that_is_undone() -> None:
    log = RunLog([run(number, f"r{number}") for number in range(1, 5)])
    found = trace(revisions(1, 2, 4), log, log.times_us([2, 4]))
    assert found is not None
    assert (found.before, found.current, found.built_on) == (1, 3, frozenset())
    added = trace(revisions(2, 3), log, log.times_us([2]))
    assert added is not None
    assert (added.before, added.current, added.built_on) == (None, 2, frozenset([3]))
    assert trace(revisions(1, 3), log, log.times_us([2])) is None


def test_what_was_undone_since_is_not_in_the_way_and_an_undo_that_went_further_back_is() -> None:
    runs = [run(1, "a"), run(2, "b"), run(3, "c"), run(4, "u", undoes=(3,))]
    log = RunLog(runs)
    found = trace(revisions(1, 2, 3, 4), log, log.times_us([2]))
    assert found is not None
    assert (found.before, found.built_on) == (1, frozenset())
    log = RunLog([*runs, run(5, "uu", undoes=(2, 1))])
    found = trace(revisions(1, 2, 3, 4, 5), log, log.times_us([4]))
    assert found is not None
    assert found.built_on == {5}


def test_a_gap_in_what_is_kept_is_told() -> None:
    log = RunLog([run(number, f"r{number}") for number in (1, 2, 3)])
    for left in (revisions(2, 3, first=3), revisions(2, first=2)):
        with pytest.raises(HistoryGoneError, match="is not kept"):
            trace(left, log, log.times_us([2]))
    with pytest.raises(TableError, match="no run row of the commit at 2024-05-01T00:00:09"):
        trace(revisions(1, 9), log, log.times_us([1]))
