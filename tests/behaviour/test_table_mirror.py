"""The mirror: a folder that any Parquet reader reads, with exactly the live rows."""

import logging
import os
import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from memorypipe.errors import InvalidArgumentError, TableError
from memorypipe.table.erasing.requests import EraseRequest
from memorypipe.table.parquet.mirror import MIRROR_FILE, MirroredStorage
from memorypipe.table.table import MemoryTable
from tests.support.table_actions import (
    START,
    USER,
    SteppingClock,
    actions,
    add,
    delete,
    minted,
    update,
)

TEA = minted("Likes tea")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "mirror"


@pytest.fixture
def table(tmp_path: Path, backend: str, place: Path) -> MemoryTable:
    clock = SteppingClock()
    return MemoryTable.open(
        tmp_path / "table", backend=backend, vector_dim=4, mirror=place, clock=clock
    )


def read(place: Path) -> pa.Table:
    """Read the folder, as a tool would that knows nothing of us."""
    assert [file.name for file in place.iterdir()] == [MIRROR_FILE]
    return ds.dataset(place, format="parquet").to_table()


def texts(place: Path) -> list[str]:
    return sorted(read(place)["text"].to_pylist())


def test_the_mirror_has_the_live_rows_after_each_commit(table: MemoryTable, place: Path) -> None:
    assert texts(place) == []
    table.commit(actions(add("Likes tea"), add("Has a cat"), add("Runs")), run_id="r1")
    assert texts(place) == ["Has a cat", "Likes tea", "Runs"]
    change = actions(update(TEA, "Likes coffee"), delete(minted("Runs")))
    table.commit(change, run_id="r2")
    assert texts(place) == ["Has a cat", "Likes coffee"]
    expected = table.to_arrow().drop_columns(["search_text"]).sort_by("memory_id")
    assert read(place).sort_by("memory_id").equals(expected)


def test_a_commit_of_nothing_leaves_the_mirror_alone(table: MemoryTable, place: Path) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    before = (place / MIRROR_FILE).stat().st_ino
    table.commit(actions(add("Likes tea")), run_id="r2")
    assert (place / MIRROR_FILE).stat().st_ino == before


def test_opening_brings_the_mirror_to_what_others_committed(
    table: MemoryTable, place: Path
) -> None:
    MemoryTable.open(table.uri, clock=SteppingClock()).commit(
        actions(add("Likes tea")), run_id="r1"
    )
    assert texts(place) == []
    MemoryTable.open(table.uri, mirror=place)
    assert texts(place) == ["Likes tea"]


def test_expired_rows_are_not_in_the_mirror(table: MemoryTable, place: Path) -> None:
    batch = actions(add("Likes tea"), add("Runs"))
    expiry = pa.array([START - timedelta(days=1), None], pa.timestamp("us", tz="UTC"))
    table.commit(batch.append_column("expires_at", expiry), run_id="r1")
    assert texts(place) == ["Runs"]


def test_a_mirror_that_cannot_be_written_fails_no_commit_and_catches_up(
    table: MemoryTable, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (place / MIRROR_FILE).unlink()
    place.rmdir()
    place.write_text("in the way")
    with caplog.at_level(logging.WARNING):
        assert table.commit(actions(add("Likes tea")), run_id="r1").outcome == "landed"
    assert "its mirror is behind" in caplog.text
    place.unlink()
    table.commit(actions(add("Runs")), run_id="r2")
    assert texts(place) == ["Likes tea", "Runs"]


def test_the_mirror_of_another_table_is_refused(
    table: MemoryTable, tmp_path: Path, place: Path
) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    with pytest.raises(TableError, match="no mirror of this table"):
        MemoryTable.open(tmp_path / "other", mirror=place)
    assert texts(place) == ["Likes tea"]


@pytest.mark.parametrize("inside", ["", "/data", "/"])
def test_a_mirror_in_the_table_is_refused(table: MemoryTable, inside: str) -> None:
    with pytest.raises(InvalidArgumentError, match="outside of the table"):
        MemoryTable.open(table.uri, mirror=table.uri + inside)


def test_a_table_with_a_mirror_can_be_pickled(table: MemoryTable, place: Path) -> None:
    copy = pickle.loads(pickle.dumps(table))  # noqa: S301  # our own bytes
    copy.commit(actions(add("Likes tea")), run_id="r1")
    assert texts(place) == ["Likes tea"]


# What lies beside the mirror's file is the same for every back end.
one_backend = pytest.mark.parametrize("backend", ["parquet"])


def left_behind(place: Path, name: str, days: float) -> Path:
    """Lay what a refresh that was killed leaves, so many days ago."""
    folder = place / name
    folder.mkdir()
    (folder / MIRROR_FILE).write_bytes(b"Likes tea, and says so")
    at = datetime.now(UTC).timestamp() - days * 86_400
    for each in (folder / MIRROR_FILE, folder):
        os.utime(each, (at, at))
    return folder


@one_backend
def test_a_refresh_removes_what_one_left_that_was_killed_long_ago(
    table: MemoryTable, place: Path
) -> None:
    old, young = left_behind(place, ".mirror-a", 2), left_behind(place, ".mirror-b", 0)
    foreign = left_behind(place, "mine", 9)
    table.commit(actions(add("Runs")), run_id="r1")
    assert (old.exists(), young.exists(), foreign.exists()) == (False, True, True)


def test_an_erasure_leaves_nothing_beside_the_mirror_that_says_it(
    table: MemoryTable, place: Path
) -> None:
    table.commit(actions(add("Likes tea, and says so"), add("Runs", scope={})), run_id="r1")
    left_behind(place, ".mirror-a", 0)
    assert table.erase([EraseRequest(scope=USER)]).is_complete
    assert texts(place) == ["Runs"]
    assert list(place.parent.rglob(".mirror-*")) == []


@one_backend
def test_what_lies_in_the_mirrors_folder_is_searched_after_an_erasure(
    table: MemoryTable, place: Path
) -> None:
    table.commit(actions(add("Likes tea, and says so")), run_id="r1")
    copy = left_behind(place, "copy", 9) / MIRROR_FILE
    receipt = table.erase([EraseRequest(scope=USER)])
    assert [each.path for each in receipt.checked.left] == [str(copy)]


def test_what_a_killed_refresh_of_a_mirror_in_a_store_left_on_this_machine_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("obstore")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    mirror = f"memory://{uuid4().hex}/m"
    table = MemoryTable.open(tmp_path / "t", mirror=mirror, vector_dim=4, clock=SteppingClock())
    assert isinstance(table._storage, MirroredStorage)
    own, others = (
        left_behind(tmp_path / "scratch", f"{prefix}x", 0)
        for prefix in (table._storage._aside()[1], ".mirror-")
    )
    table._storage.purge()
    assert (own.exists(), others.exists()) == (False, True)
