"""Writers take turns, and nobody who is killed, slow or alone keeps another from writing."""

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from memorypipe.table.backends import BACKENDS, open_storage
from memorypipe.table.table import MemoryTable
from memorypipe.table.times import now_utc
from memorypipe.table.turns import back_off_s, turn
from tests.support.table_actions import actions, add

LONG_S = 600.0


class Patient:
    """A storage whose writers wait for as long as is said, and that counts their attempts."""

    def __init__(self, uri: str, patience_s: float = LONG_S) -> None:
        self._storage = open_storage(uri)
        self._uri = uri
        self._patience_s = patience_s
        self.attempts = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    @contextmanager
    def turn(self, races: int) -> Iterator[None]:
        with turn(self._uri, races, patience_s=self._patience_s):
            self.attempts += 1
            yield


def at_once(*works: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def is_free(folder: Path) -> bool:
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


@pytest.mark.parametrize("backend", BACKENDS)
def test_of_writers_at_once_none_builds_a_commit_twice(tmp_path: Path, backend: str) -> None:
    MemoryTable.open(tmp_path, backend=backend, embedder="none")
    storages = [Patient(str(tmp_path)) for _ in range(4)]

    def write(number: int) -> None:
        storage: Any = storages[number]
        table = MemoryTable(str(tmp_path), storage, now_utc)
        for each in range(3):
            table.commit(actions(add(f"text {number} {each}")), run_id=f"run {number} {each}")

    at_once(*(lambda n=n: write(n) for n in range(4)))
    assert MemoryTable.open(tmp_path, create=False).count() == 12
    assert [each.attempts for each in storages] == [3] * 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_who_commits_without_a_pause_lets_others_in(tmp_path: Path, backend: str) -> None:
    table = MemoryTable.open(tmp_path, backend=backend, embedder="none")
    landed = threading.Event()
    busy = threading.Event()
    versions: list[int] = []

    def without_a_pause() -> None:
        for number in range(100):
            table.commit(actions(add(f"text {number}")), run_id=f"run {number}")
            busy.set()
            versions.append(table.version)
            if landed.is_set():
                return

    def once() -> None:
        busy.wait()
        storage: Any = Patient(str(tmp_path))
        other = MemoryTable(str(tmp_path), storage, now_utc)
        other.commit(actions(add("Likes tea")), run_id="other")
        landed.set()

    at_once(without_a_pause, once)
    assert versions[-1] < 100


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_writer_whose_turn_does_not_come_commits_all_the_same(
    tmp_path: Path, backend: str
) -> None:
    table = MemoryTable.open(tmp_path, backend=backend, embedder="none")
    storage: Any = open_storage(str(tmp_path))
    hasty: Any = Patient(str(tmp_path), patience_s=0.0)
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        writer = MemoryTable(str(tmp_path), hasty, now_utc)
        assert writer.commit(actions(add("Likes tea")), run_id="r1").outcome == "landed"
    finally:
        os.close(handle)
    with storage.turn(0):
        assert not is_free(tmp_path)
    assert is_free(tmp_path)
    assert table.count() == 1


def test_a_writer_that_is_killed_leaves_no_turn_behind(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from memorypipe.table.turns import turn\n"
        f"with turn({str(tmp_path)!r}, 0):\n"
        "    print('has it', flush=True); sys.stdin.readline()\n"
    )
    holder = subprocess.Popen(  # noqa: S603  # our own code
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "has it\n"
    assert not is_free(tmp_path)
    holder.kill()
    holder.communicate(timeout=60)
    assert is_free(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_commit_inside_of_another_does_not_wait_for_it(tmp_path: Path) -> None:
    with turn(str(tmp_path), 0), turn(str(tmp_path), 0, patience_s=LONG_S):
        assert not is_free(tmp_path)
    assert is_free(tmp_path)


def test_where_nothing_can_be_written_or_locked_there_is_nothing_to_wait_for(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o555)
    for place in (str(tmp_path), str(tmp_path / "missing"), "memory://turns/table"):
        with turn(place, 0, patience_s=LONG_S):
            assert list(tmp_path.iterdir()) == []


def test_who_lost_more_races_may_wait_longer() -> None:
    assert back_off_s(0) == 0.0
    for races, most in ((1, 0.1), (3, 0.4), (99, 3.2)):
        assert 0.0 <= max(back_off_s(races) for _ in range(50)) <= most
    assert max(back_off_s(99) for _ in range(50)) > 0.4
