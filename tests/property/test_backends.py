"""Every back end holds the same after the same commits, whatever maintenance comes between."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memorypipe.table.backends import BACKENDS, open_storage
from memorypipe.table.parquet.rewrite import split_bounds
from memorypipe.table.parquet.storage import ParquetStorage
from memorypipe.table.rows import STATES
from memorypipe.table.table import MemoryTable
from tests.property.test_commit import BATCH, SCOPES, check_against_model, new_table, numbered
from tests.support.memory_storage import MemoryStorage
from tests.support.table_actions import add, delete, minted, update

MAINTENANCE = st.sampled_from(["nothing", "optimize", "clean", "purge", "open"])
ROUNDS = st.lists(st.tuples(BATCH, MAINTENANCE), min_size=1, max_size=5)


# Batches of all kinds that the few examples of a short run may miss.
TEA, OTHER = minted("Likes tea"), SCOPES[1]
RICH: list[Any] = [
    ([add("Likes tea"), add("Has a cat")], [add("Runs", scope=OTHER)], [add("Runs", scope={})]),
    (
        [update(TEA, "Runs"), delete(minted("Has a cat"))],
        [update(minted("Runs", OTHER), "Likes tea", scope=OTHER)],
        [],
    ),
    ([update(TEA, "Likes tea")], [], [delete(minted("Runs", {}), scope={})]),
]


@contextmanager
def folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as name:
        yield str(Path(name) / "table")


def check_same(left: MemoryTable, right: MemoryTable) -> None:
    """Check that two tables tell the same, now and of the past."""
    assert (left.version, left.commit_time) == (right.version, right.commit_time)
    assert left.to_arrow(include=STATES).equals(right.to_arrow(include=STATES))
    assert left.runs().equals(right.runs())
    for version in range(left.version + 1):
        assert left.at(version).to_arrow().equals(right.at(version).to_arrow())


def commit_all(tables: list[MemoryTable], batches: list[Any]) -> None:
    for number, parts in enumerate(batches):
        batch = numbered(parts)
        results = [table.commit(batch, run_id=f"r{number}", on_conflict="skip") for table in tables]
        assert all(result == results[0] for result in results)


def check_lance_and_parquet(batches: list[Any]) -> None:
    with folder() as left, folder() as right:
        tables = [
            new_table(open_storage(uri, name), uri)
            for name, uri in zip(BACKENDS, (left, right), strict=True)
        ]
        commit_all(tables, batches)
        check_same(*tables)


@given(st.lists(BATCH, min_size=1, max_size=3))
@example(RICH)
@settings(max_examples=4, deadline=None)
def test_lance_and_parquet_agree(batches: list[Any]) -> None:
    check_lance_and_parquet(batches)


@pytest.mark.slow
@given(st.lists(BATCH, min_size=1, max_size=6))
@settings(max_examples=100, deadline=None)
def test_lance_and_parquet_agree_after_many_batches(batches: list[Any]) -> None:
    check_lance_and_parquet(batches)


@given(st.lists(BATCH, min_size=2, max_size=3))
@example(RICH)
@settings(max_examples=4, deadline=None)
def test_batches_on_parquet_act_as_their_actions_one_by_one(batches: list[Any]) -> None:
    with folder() as uri:
        check_against_model(new_table(ParquetStorage(uri), uri), batches)


def maintain(table: MemoryTable, uri: str, how: str) -> MemoryTable:
    storage = ParquetStorage(uri)
    if how == "open":
        clock = table._clock
        return MemoryTable(uri, storage, clock)
    if how == "optimize":
        storage.optimize()
    elif how == "clean":
        storage.clean(older_than=timedelta())
    elif how == "purge":
        storage.purge()
    return table


def check_maintenance(rounds: list[tuple[Any, str]]) -> None:
    with folder() as uri:
        plain = new_table(MemoryStorage())
        table = new_table(ParquetStorage(uri), uri)
        for number, (parts, how) in enumerate(rounds):
            for each in (plain, table):
                each.commit(numbered(parts), run_id=f"r{number}", on_conflict="skip")
            table = maintain(table, uri, how)
        check_same(plain, table)


@given(ROUNDS)
@example(list(zip(RICH, ["optimize", "purge", "clean"], strict=True)))
@settings(max_examples=5, deadline=None)
def test_maintenance_between_commits_changes_nothing(rounds: list[tuple[Any, str]]) -> None:
    check_maintenance(rounds)


@pytest.mark.slow
@given(st.lists(st.tuples(BATCH, MAINTENANCE), min_size=5, max_size=20))
@settings(max_examples=60, deadline=None)
def test_long_maintenance_changes_nothing(rounds: list[tuple[Any, str]]) -> None:
    check_maintenance(rounds)


@given(
    st.lists(
        st.tuples(st.integers(0, 400), st.sampled_from([1, 50, 9000, 17_000])),
        min_size=1,
        max_size=12,
    ),
    st.integers(0, 100),
    st.integers(300, 500),
)
@settings(max_examples=60, deadline=None)
def test_a_bucket_is_split_so_that_only_single_scopes_are_too_big(
    scopes: list[tuple[int, int]], low: int, end: int
) -> None:
    hashes = np.concatenate([np.full(count, value, np.int64) for value, count in scopes])
    hashes = hashes[(hashes >= low) & (hashes < end)]
    bounds = split_bounds(hashes, low, end)
    assert bounds == sorted(set(bounds))
    assert all(low < bound < end for bound in bounds)
    edges = [low, *bounds, end]
    for start, stop in pairwise(edges):
        rows = int(((hashes >= start) & (hashes < stop)).sum())
        assert rows <= 3 * 16_384 or stop - start == 1
    if len(hashes) > 16_384 and end - low > 1:
        assert bounds
