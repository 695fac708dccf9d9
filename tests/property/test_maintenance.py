"""Commits and maintenance in any order leave what the commits alone leave."""

import tempfile
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorypipe import ids
from memorypipe.table.backends import BACKENDS, open_storage
from memorypipe.table.lance.cluster import index_scopes
from memorypipe.table.lance.storage import LanceStorage
from memorypipe.table.lance.tidy import merge
from memorypipe.table.records import Head
from memorypipe.table.storage import Storage, Where
from memorypipe.table.table import MemoryTable
from tests.support.memory_storage import MemoryStorage
from tests.support.table_actions import START, SteppingClock, action, actions, minted

DIM = 4
SCOPES: tuple[dict[str, str], ...] = ({"user_id": "u1"}, {"user_id": 'u"2'}, {})
TEXTS = ("Likes tea", "likes  TEA", "Has a cat", "Runs", "Läuft")


def merge_files(storage: Storage) -> None:
    """Merge as `tidy` does once there are many files."""
    if not isinstance(storage, LanceStorage):
        storage.tidy()
        return
    snapshot = storage.snapshot()
    merge(snapshot.dataset, [snapshot.head_fragment], rows=1 << 12)


def index(storage: Storage) -> None:
    if isinstance(storage, LanceStorage):
        index_scopes(storage.snapshot().dataset, anew=True)


MAINTENANCE: dict[str, Callable[[Storage], None]] = {
    "tidy": lambda storage: storage.tidy(),
    "merge": merge_files,
    "optimize": lambda storage: storage.optimize(),
    "index": index,
    "clean": lambda storage: storage.clean(older_than=timedelta(0)),
    "purge": lambda storage: storage.purge(),
}


@st.composite
def batches(draw: st.DrawFn) -> list[Any]:
    """Draw actions of one scope, each with a vector; many of them find no target."""
    scope = draw(st.sampled_from(SCOPES))
    names = [minted(text, scope) for text in TEXTS]
    rows = []
    for number in range(draw(st.integers(1, 4))):
        event, text = (
            draw(st.sampled_from(["ADD", "ADD", "UPDATE", "DELETE"])),
            draw(st.sampled_from(TEXTS)),
        )
        name = minted(text, scope) if event == "ADD" else draw(st.sampled_from(names))
        text = "" if event == "DELETE" else text
        rows.append(action(event, text, scope=scope, memory_id=name, seq=number))
    return rows


def with_vectors(rows: list[Any]) -> pa.Table:
    vectors = [[float(number + 1)] * DIM for number in range(len(rows))]
    return actions(*rows).append_column("vector", pa.array(vectors, pa.list_(pa.float32())))


STEP = st.one_of(batches(), batches(), st.sampled_from(sorted(MAINTENANCE)))


def new_table(storage: Storage, uri: str) -> MemoryTable:
    storage.create(Head(number=0, committed_at=START, created_at=START, vector_dim=DIM))
    return MemoryTable(uri, storage, SteppingClock())


def check_same(table: MemoryTable, model: MemoryTable) -> None:
    every = ("live", "deleted", "history")
    assert table.version == model.version
    assert table.to_arrow(include=every).equals(model.to_arrow(include=every))
    for scope in SCOPES:
        assert table.to_arrow(scope).equals(model.to_arrow(scope))
    assert table.runs().equals(model.runs())


def run(storage: Storage, uri: str, steps: list[Any]) -> None:
    table, model = new_table(storage, uri), new_table(MemoryStorage(), "")
    for number, step in enumerate(steps):
        if isinstance(step, str):
            MAINTENANCE[step](storage)
        else:
            batch = with_vectors(step)
            results = [
                each.commit(batch, run_id=f"r{number}", on_conflict="skip")
                for each in (table, model)
            ]
            assert results[0] == results[1]
        check_same(table, model)


@pytest.mark.parametrize("backend", BACKENDS)
@given(steps=st.lists(STEP, max_size=10))
@settings(max_examples=4, deadline=None)
def test_maintenance_changes_no_row(backend: str, steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run(open_storage(folder, backend), folder, steps)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@given(steps=st.lists(STEP, min_size=5, max_size=40))
@settings(max_examples=60, deadline=None)
def test_maintenance_changes_no_row_however_long_it_goes(backend: str, steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run(open_storage(folder, backend), folder, steps)


def test_rows_that_the_index_lacks_are_found_and_rows_that_are_gone_are_not() -> None:
    with tempfile.TemporaryDirectory() as folder:
        storage = LanceStorage(folder)
        table = new_table(storage, folder)
        table.commit(with_vectors([action("ADD", text) for text in TEXTS[2:]]), run_id="a")
        storage.optimize()
        changed = action("UPDATE", "Walks", memory_id=minted("Runs"))
        table.commit(with_vectors([changed, action("ADD", "Likes tea")]), run_id="b")
        scope_key = ids.scope_key(SCOPES[0])
        where = Where(scope_keys=[scope_key], rows="live")
        snapshot = storage.snapshot()
        plan = snapshot.dataset.scanner(filter=f"scope_key = '{scope_key}'").explain_plan()
        assert "ScalarIndexQuery" in plan
        texts = snapshot.scan(["text"], where)["text"].to_pylist()
        assert sorted(texts) == ["Has a cat", "Likes tea", "Läuft", "Walks"]
