"""Files that go while somebody looks at their folder are passed over."""

import os
from datetime import UTC, datetime
from pathlib import Path

from memorypipe.table.artifacts import remove_artifacts
from memorypipe.table.file_stats import size_bytes, stats_below, written_at
from memorypipe.table.run_folders import list_runs
from memorypipe.table.staging import remove_stale
from tests.support.table_actions import START

ZERO = START - START


def fill(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"four")
        os.utime(path, (9, 9))
    for each in (*folder.rglob("*"), folder):
        os.utime(each, (9, 9))


def test_a_folder_is_as_large_as_its_files_and_as_young_as_the_youngest(tmp_path: Path) -> None:
    fill(tmp_path, "a", "b/c", "b/d/e")
    os.utime(tmp_path / "b" / "d" / "e", (99, 99))
    assert (size_bytes(tmp_path), size_bytes(tmp_path / "b")) == (12, 8)
    assert written_at(tmp_path) == datetime.fromtimestamp(99, UTC)
    assert written_at(tmp_path / "a") == datetime.fromtimestamp(9, UTC)
    assert (written_at(tmp_path / "gone"), size_bytes(tmp_path / "gone")) == (None, 0)


def test_files_and_folders_that_go_meanwhile_are_passed_over(tmp_path: Path) -> None:
    fill(tmp_path, "a", "b", "c/d", "e/f")
    stats = stats_below(tmp_path)
    next(stats)
    for path in (tmp_path / "c" / "d", tmp_path / "a"):
        path.unlink()
    (tmp_path / "c").rmdir()
    sizes = sorted(each.st_size for each in stats if each.st_mode & 0o100000)
    assert sizes == [4, 4]


def test_maintenance_goes_on_where_a_writer_has_removed_its_file_meanwhile(tmp_path: Path) -> None:
    """A name that leads nowhere stands for one that was listed and is gone."""
    fill(tmp_path, "runs/r1/run.json", "staged/x/part")
    for name in ("runs/r1/.tmp", "staged/gone", "journal/gone.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to("nowhere")
    os.utime(tmp_path / "runs" / "r1", (9, 9))
    assert [run.written_at.timestamp() for run in list_runs(tmp_path)] == [9]
    assert remove_stale(tmp_path, before=START) == 1
    assert remove_artifacts(tmp_path, {}, ttl=ZERO, now=START).segments == 0
