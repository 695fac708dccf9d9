"""Locks on files: given back at the end of the block, and seen by whoever looks."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memorypipe.pipeline.runs.file_lock import is_locked, locked

_FORKS = """
import os, sys
from pathlib import Path
from memorypipe.pipeline.runs.file_lock import is_locked, locked

path = Path(sys.argv[1])
waits, ends = os.pipe()
with locked(path):
    if not (child := os.fork()):
        os.close(ends)
        os.read(waits, 1)  # until the parent has ended
        os._exit(0)
print(is_locked(path))
os.close(ends)
os.waitpid(child, 0)
"""


def test_a_lock_is_held_for_a_block_and_no_longer(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_locked(path)
    with locked(path):
        assert is_locked(path)
    assert not is_locked(path)


def test_a_process_forked_meanwhile_does_not_keep_the_lock(tmp_path: Path) -> None:
    forked = subprocess.run(  # noqa: S603  # our own interpreter
        [sys.executable, "-c", _FORKS, str(tmp_path / "lock")],
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert forked.stdout.split() == [b"False"]


def test_who_only_looks_is_not_taken_for_who_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    with path.open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        assert not is_locked(path)


def test_the_lock_of_a_file_of_another_user_can_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_open = os.open

    def opening(path: Path, how: int) -> int:
        # As the system says it; but not to root, who may run tests.
        if how & (os.O_RDWR | os.O_WRONLY):
            raise PermissionError(str(path))
        return really_open(path, how)

    path = tmp_path / "lock"
    with locked(path):
        monkeypatch.setattr(os, "open", opening)
        assert is_locked(path)
    assert not is_locked(path)
