"""What a reader sees of the past, on every back end."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from memorypipe.errors import HistoryGoneError, InvalidArgumentError
from memorypipe.schema import table_schema
from memorypipe.table.table import MemoryTable
from tests.support.memory_table import memory_table
from tests.support.table_actions import START, actions, add, delete, minted, update
from tests.support.table_maintenance import drop_revisions

TEA, CAT = minted("Likes tea"), minted("Has a cat")
MICROSECOND = timedelta(microseconds=1)


def test_a_moment_reads_as_it_stood_whatever_came_later(table: MemoryTable) -> None:
    columns = [name for name in table_schema().names if name != "vector"]
    moments = []
    for number, batch in enumerate(
        [
            actions(add("Likes tea"), add("Has a cat")),
            actions(update(TEA, "Likes coffee"), add("Runs")),
            actions(delete(CAT)),
        ]
    ):
        table.commit(batch, run_id=f"r{number}")
        states = table.to_arrow(columns=columns, include=["live", "deleted"])
        moments.append((table.version, table.commit_time, states))
    table.restore(CAT)
    table.undo("r1", cascade=True)
    table.forget(TEA)
    for version, moment, rows in moments:
        for view in (table.as_of(version), table.as_of(moment), table.at(version)):
            assert (view.version, view.commit_time) == (version, moment)
            assert view.to_arrow(columns=columns, include=["live", "deleted"]).equals(rows)
            assert view.history(CAT).num_rows == (2 if version == 3 else 1)


def test_a_time_between_commits_is_the_commit_before(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    first = table.commit_time
    table.commit(actions(add("Runs")), run_id="r2")
    second = table.commit_time
    asked = [first - MICROSECOND, first, second - MICROSECOND, second, second + timedelta(days=9)]
    assert [table.as_of(moment).version for moment in asked] == [0, 1, 1, 2, 2]
    future = table.as_of(asked[-1])
    table.commit(actions(add("Has a cat")), run_id="r3")
    assert [future.count(), table.count()] == [2, 3]


def test_what_had_expired_by_the_moment_counts_as_expired() -> None:
    table = memory_table()
    expiry = START + timedelta(days=1)
    row = actions(add("Likes tea")).append_column(
        "expires_at", pa.array([expiry], pa.timestamp("us", tz="UTC"))
    )
    table.commit(row, run_id="r1")
    assert table.as_of(expiry - MICROSECOND).count() == 1
    assert table.as_of(expiry).count() == 0
    assert table.as_of(expiry).count(include=["expired"]) == 1


def test_moments_that_cannot_be_are_refused() -> None:
    table = memory_table()
    with pytest.raises(InvalidArgumentError, match="zone"):
        table.as_of(datetime(2024, 5, 2))  # noqa: DTZ001  # the case
    with pytest.raises(InvalidArgumentError, match="was made at 2024-05-01"):
        table.as_of(datetime(2020, 1, 1, tzinfo=UTC))
    with pytest.raises(InvalidArgumentError, match="no version 1"):
        table.as_of(1)


def test_a_moment_before_the_horizon_is_refused_by_old_views_too(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    first = table.commit_time
    table.commit(actions(update(TEA, "Likes coffee")), run_id="r2")
    view, horizon = table.as_of(1), table.commit_time
    drop_revisions(table)
    for asked in (1, first, horizon - MICROSECOND):
        with pytest.raises(HistoryGoneError, match="whole from 2024-05-01") as caught:
            table.as_of(asked)
        assert caught.value.horizon == horizon
    with pytest.raises(HistoryGoneError):
        view.count()
    assert table.as_of(horizon).count() == table.as_of(2).count() == 1


def test_history_can_be_narrowed_to_labels() -> None:
    table = memory_table()
    table.commit(actions(add("Likes tea")), run_id="r1", labels={"who": "me", "why": "x"})
    table.commit(actions(update(TEA, "Likes coffee")), run_id="r2")
    table.commit(actions(delete(TEA)), run_id="r3", labels={"who": "you", "why": "x"})
    found = {
        who: table.history(TEA, labels=labels)["event"].to_pylist()
        for who, labels in {
            "all": None,
            "any": {},
            "me": {"who": "me"},
            "x": {"why": "x"},
            "both": {"why": "x", "who": "you"},
            "none": {"who": "x"},
        }.items()
    }
    assert found == {
        "all": ["ADD", "UPDATE", "DELETE"],
        "any": ["ADD", "UPDATE", "DELETE"],
        "me": ["ADD"],
        "x": ["ADD", "DELETE"],
        "both": ["DELETE"],
        "none": [],
    }


def test_runs_tell_tokens_and_cost_where_they_are_known() -> None:
    table = memory_table()
    told = {"tokens_in": 12, "tokens_out": 3, "cost": 0.5}
    table.commit(actions(add("Likes tea")), run_id="r1", info=told)
    table.commit(actions(add("Runs")), run_id="r2", info={"tokens_in": "many", "cost": None})
    names = ["kind", "tokens_in", "tokens_out", "cost"]
    first, second = table.runs().select(names).to_pylist()
    assert first == {"kind": "commit", **told}
    assert second == {"kind": "commit", "tokens_in": None, "tokens_out": None, "cost": None}
