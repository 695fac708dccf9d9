"""What killed processes left goes, what somebody may be at work on stays."""

import os
from pathlib import Path

from memorypipe.table.scratch import STALE_AFTER, remove_left

LONG_AGO_S = STALE_AFTER.total_seconds() + 1


def make(path: Path, age_s: float, *, folder: bool = False) -> None:
    file = path / "part" if folder else path
    file.parent.mkdir(exist_ok=True)
    file.touch()
    at = 1e9 - age_s
    for each in {file, path}:
        os.utime(each, (at, at))


def test_only_what_is_old_and_has_such_a_name_goes(tmp_path: Path) -> None:
    make(tmp_path / ".out.1.new", 0)
    for name, age_s in ((".out.2.new", LONG_AGO_S), (".out.3.new", 60), ("out", LONG_AGO_S)):
        make(tmp_path / name, age_s)
    make(tmp_path / ".out.4.new", LONG_AGO_S, folder=True)
    make(tmp_path / ".out.5.new", 60, folder=True)
    remove_left(tmp_path / ".out.1.new", ".out.*.new")
    left = sorted(each.name for each in tmp_path.iterdir())
    assert left == [".out.1.new", ".out.3.new", ".out.5.new", "out"]


def test_a_folder_in_which_a_file_is_being_written_is_as_young_as_the_file(tmp_path: Path) -> None:
    make(tmp_path / ".a", 0)
    make(tmp_path / ".b", LONG_AGO_S, folder=True)
    os.utime(tmp_path / ".b" / "part", (1e9, 1e9))
    remove_left(tmp_path / ".a", ".*")
    assert (tmp_path / ".b" / "part").exists()
