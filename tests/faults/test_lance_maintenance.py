"""Maintenance of a Lance table side by side with commits, and with itself."""

import contextlib
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from memorypipe.errors import TableError
from memorypipe.table.lance.storage import LanceStorage
from memorypipe.table.storage import Where
from memorypipe.table.table import MemoryTable
from tests.support.table_actions import actions, add, minted, update

SHARED = "Likes tea"


def side_by_side(works: Sequence[Callable[[], None]]) -> None:
    """Do all at once, each in a thread of its own, to its end; raise what any of them raises."""
    start = threading.Barrier(len(works))
    errors: list[Exception] = []

    def go(work: Callable[[], None]) -> None:
        start.wait()
        try:
            work()
        except Exception as error:  # noqa: BLE001  # what a thread raises is raised below
            errors.append(error)

    threads = [threading.Thread(target=go, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def writer(table: MemoryTable, name: str, commits: int) -> None:
    """Add memories, and change the one that all writers change."""
    for number in range(commits):
        run_id = f"{name}-{number}"
        told = update(minted(SHARED), f"Likes {run_id}", seq=1)
        table.commit(actions(add(f"Said by {run_id}"), told), run_id=run_id)


def maintain(work: Callable[[], None], rounds: int) -> None:
    """Do maintenance again and again; it may give up where commits come first each time."""
    for _ in range(rounds):
        with contextlib.suppress(TableError):
            work()


def check(place: Path, writers: int, commits: int) -> None:
    """Let writers and all kinds of maintenance, each of them twice, meet on one table."""
    table = MemoryTable.open(place, backend="lance", vector_dim=4)
    table.commit(actions(add(SHARED)), run_id="first")
    storage = LanceStorage(str(place))
    kinds = (
        storage.optimize,
        storage.purge,
        storage.tidy,
        partial(storage.clean, older_than=timedelta(hours=1)),
    )
    writers_at_work = [partial(writer, table, f"w{n}", commits) for n in range(writers)]
    # A purge wins over every commit under way: unlike the others it cannot go on for ever.
    maintained = [partial(maintain, kind, commits) for kind in (*kinds, *kinds)]
    side_by_side([*writers_at_work, *maintained])
    named = {f"w{n}-{number}" for n in range(writers) for number in range(commits)}
    assert set(table.runs()["run_id"].to_pylist()) == {"first", *named}
    assert table.version == 1 + len(named)
    said = table.to_arrow()["text"].to_pylist()
    assert sorted(text for text in said if text.startswith("Said")) == sorted(
        f"Said by {name}" for name in named
    )
    assert len(said) == len(named) + 1
    history = table.history(minted(SHARED))
    assert history["revision"].to_pylist() == list(range(1, len(named) + 2))
    # Nothing was removed that a version names, and no version is left but what the last one names.
    storage.purge()
    snapshot = storage.snapshot()
    assert snapshot.scan(["memory_id"], Where()).num_rows == 2 * len(named) + 1
    assert len(snapshot.dataset.versions()) == 1
    assert table.to_arrow()["text"].to_pylist() == said


def test_maintenance_of_every_kind_disturbs_no_commit_and_no_maintenance(tmp_path: Path) -> None:
    check(tmp_path / "table", writers=2, commits=3)


@pytest.mark.slow
def test_long_maintenance_of_every_kind_disturbs_no_commit(tmp_path: Path) -> None:
    check(tmp_path / "table", writers=4, commits=40)
