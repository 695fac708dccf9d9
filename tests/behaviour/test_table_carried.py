"""Metadata, labels and expiry that come with single actions, in the rows of every back end."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from memorypipe import MemoryTable
from tests.support.table_actions import SteppingClock, actions, add, delete, minted, update

EXPIRES = datetime(2025, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["lance", "parquet"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> MemoryTable:
    return MemoryTable.open(tmp_path, backend=request.param, embedder="none", clock=SteppingClock())


def metadata_of(table: MemoryTable, memory_id: str) -> Any:
    row = table.get(memory_id)
    assert row is not None
    return None if row["metadata"] is None else orjson.loads(row["metadata"])


@pytest.mark.parametrize(
    ("given", "merge", "after"),
    [
        (None, None, {"a": 1, "b": 1}),
        ("{}", None, {}),
        ('{"b":2}', None, {"b": 2}),
        ('{"b":2}', "MERGE", {"a": 1, "b": 2}),
        (None, "MERGE", {"a": 1, "b": 1}),
    ],
)
def test_an_update_gives_metadata_as_its_strategy_says(
    table: MemoryTable, given: str | None, merge: str | None, after: Any
) -> None:
    name = minted("Likes tea")
    table.commit(actions(add("Likes tea", metadata='{"a":1,"b":1}')), run_id="r1")
    change = update(name, "Likes green tea", metadata=given, metadata_merge=merge)
    table.commit(actions(change), run_id="r2")
    assert metadata_of(table, name) == after


def test_several_actions_on_one_memory_merge_in_their_order(table: MemoryTable) -> None:
    name = minted("Likes tea")
    table.commit(
        actions(
            add("Likes tea", metadata='{"a":1}'),
            update(name, "Likes green tea", metadata='{"b":2}', metadata_merge="MERGE"),
            update(name, "Likes black tea", metadata='{"a":3}', metadata_merge="MERGE"),
            add("Has a cat", metadata='{"c":1}'),
        ),
        run_id="r1",
    )
    assert metadata_of(table, name) == {"a": 3, "b": 2}
    assert metadata_of(table, minted("Has a cat")) == {"c": 1}


def test_revisions_have_the_labels_of_their_action_beside_those_of_the_run(
    table: MemoryTable,
) -> None:
    name = minted("Likes tea")
    table.commit(
        actions(add("Likes tea", revision_labels='{"source":"321"}'), add("Has a cat")),
        run_id="r1",
        labels={"team": "x"},
    )
    table.commit(actions(update(name, "Likes green tea")), run_id="r2")
    assert table.history(name, labels={"source": "321"})["text"].to_pylist() == ["Likes tea"]
    assert table.history(name, labels={"team": "x", "source": "321"}).num_rows == 1
    assert table.get(minted("Has a cat"))["labels"] == {"team": "x"}  # type: ignore[index]


def test_a_revision_keeps_the_expiry_that_it_was_given(table: MemoryTable) -> None:
    name, other = minted("Likes tea"), minted("Has a cat")
    table.commit(
        actions(add("Likes tea", revision_expires_at=EXPIRES), add("Has a cat")), run_id="r1"
    )
    table.commit(actions(update(name, "Likes coffee"), delete(other)), run_id="r2")
    first, second = table.history(name).to_pylist()
    assert first["revision_expires_at"] == EXPIRES
    assert second["revision_expires_at"] is None
    closed = table.history(other).to_pylist()[0]
    assert closed["revision_expires_at"] == closed["valid_to"] + timedelta(days=365)
