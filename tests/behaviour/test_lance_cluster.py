"""Sorting the rows of a Lance table by scope, however many of them fit into memory."""

from pathlib import Path

import pytest

from memorypipe import ids
from memorypipe.table.lance.cluster import cluster, groups
from memorypipe.table.lance.storage import LanceStorage
from memorypipe.table.storage import Where
from memorypipe.table.table import MemoryTable
from tests.support.table_actions import actions, add, minted, update

ROWS = 5000  # more than are read at a time where there is no room at all
COLUMNS = ["memory_id", "revision", "is_live", "scope_key", "text"]


@pytest.mark.parametrize("room_bytes", [1, 1 << 29])
def test_rows_read_in_parts_come_in_the_same_order_and_none_is_lost(
    tmp_path: Path, room_bytes: int
) -> None:
    table = MemoryTable.open(tmp_path, vector_dim=4)
    scopes = [{"user_id": f"u{number % 7}"} for number in range(ROWS)]
    rows = [add(f"Said {n}", scope=scope, seq=n) for n, scope in enumerate(scopes)]
    table.commit(actions(*rows), run_id="a")
    told = update(minted("Said 9", scopes[9]), "Says more", scope=scopes[9])
    table.commit(actions(told), run_id="b")
    storage = LanceStorage(str(tmp_path))
    before, history = table.to_arrow(), table.history(minted("Said 9", scopes[9]))

    snapshot = storage.snapshot()
    (group,) = groups(snapshot.dataset, snapshot.head_fragment, 4)
    cluster(snapshot.dataset, group, room_bytes=room_bytes)
    snapshot = storage.snapshot()
    assert groups(snapshot.dataset, snapshot.head_fragment, 4) == []
    stored = snapshot.scan(COLUMNS, Where()).to_pylist()
    order = [(not row["is_live"], row["scope_key"]) for row in stored]
    assert order == sorted(order)
    assert [row["text"] for row in stored if not row["is_live"]] == ["Said 9"]
    assert {key for _, key in order} == {ids.scope_key(scope) for scope in scopes}
    assert table.to_arrow().equals(before)
    assert table.history(minted("Said 9", scopes[9])).equals(history)
