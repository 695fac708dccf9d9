"""Several processes on one table, and processes that are killed in the middle of a commit."""

import random
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from memorypipe.table.backends import BACKENDS
from memorypipe.table.table import MemoryTable
from tests.support.table_processes import check_table, go, new_table, reports, start_writer


def check_writers(place: Path, backend: str, writers: int, commits: int) -> None:
    """Let writers that overlap in new keys and in a memory run to their end."""
    table = new_table(place, backend)
    processes = [start_writer(table.uri, f"w{n}", commits, backend) for n in range(writers)]
    for process in processes:
        go(process)
    said = [reports(process.communicate(timeout=3600)[0]) for process in processes]
    assert [process.returncode for process in processes] == [0] * writers
    reported = [report["run_id"] for each in said for report in each]
    assert len(reported) == writers * commits
    check_table(table, reported)
    assert table.version == writers * commits + 1
    assert table.count() == writers * commits + commits + 1
    # Each writer met the others: what they raced for was refused, and told.
    assert sum(each[-1]["conflicts"] for each in said) > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_writers_with_overlapping_keys_lose_and_double_nothing(
    tmp_path: Path, backend: str
) -> None:
    check_writers(tmp_path, backend, writers=3, commits=8)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_eight_writers_of_two_hundred_batches_lose_and_double_nothing(
    tmp_path: Path, backend: str
) -> None:
    check_writers(tmp_path, backend, writers=8, commits=200)


# What a commit writes, in its order: killed when the third file of a folder shows up, a writer
# has begun to write its ledger, its rows, or its transaction, and has not reported the commit.
@pytest.mark.parametrize(
    "folder", ["ledger", "memories.lance/data", "memories.lance/_transactions"]
)
def test_what_was_reported_before_a_kill_is_there_and_the_table_works_on(
    tmp_path: Path, folder: str
) -> None:
    table = new_table(tmp_path, "lance")
    process = start_writer(table.uri, "a", 1000, "lance")
    go(process)
    place = tmp_path / folder
    while not place.exists() or len(list(place.iterdir())) < 4:
        assert process.poll() is None
    process.kill()
    said = reports(process.communicate(timeout=60)[0])
    check_table(table, [report["run_id"] for report in said])


def check_kills(place: Path, backend: str, rounds: int, seed: int) -> None:
    """Kill a writer at a random moment, again and again on the same table."""
    draw = random.Random(seed)  # noqa: S311  # no secret
    table = new_table(place, backend)
    expected: list[str] = []
    for number in range(rounds):
        process = start_writer(table.uri, f"w{number}", 1000, backend)
        go(process)
        time.sleep(draw.uniform(0.0, 0.5))
        process.kill()
        said = [report["run_id"] for report in reports(process.communicate(timeout=60)[0])]
        committed = check_table(table, [*expected, *said])
        # One commit at most was under way: its run id tells that it has landed.
        in_doubt = [f"w{number}-{len(said)}"]
        assert committed in ([*expected, *said], [*expected, *said, *in_doubt])
        expected = committed
        if number % 3 == 2:
            table.vacuum(older_than=timedelta(0))
            assert check_table(table, expected) == expected
            check_nothing_left(table, place)


def check_nothing_left(table: MemoryTable, place: Path) -> None:
    """Check that vacuum left no file that the table does not need."""
    names = table.runs()["run_id"].to_pylist()
    ledgers = [path.name for path in (place / "ledger").iterdir()]
    assert len(ledgers) == len(names) - 1
    before = files(place)
    table.vacuum(older_than=timedelta(0))
    assert files(place) == before


def files(place: Path) -> set[Path]:
    return {path.relative_to(place) for path in place.rglob("*") if path.is_file()}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_table_whose_writers_are_killed_holds_what_was_reported(
    tmp_path: Path, backend: str
) -> None:
    check_kills(tmp_path, backend, rounds=3, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_table_whose_writers_are_killed_two_hundred_times_holds_what_was_reported(
    tmp_path: Path, backend: str
) -> None:
    check_kills(tmp_path, backend, rounds=200, seed=2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_processes_that_make_the_table_at_once_make_one(tmp_path: Path, backend: str) -> None:
    code = (
        "import sys\n"
        "from memorypipe.table.table import MemoryTable\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        f"table = MemoryTable.open({str(tmp_path / 't')!r}, backend={backend!r}, embedder='none')\n"
        "print(table.commit_time.isoformat())\n"
    )
    makers = [
        subprocess.Popen(  # noqa: S603  # our own code
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for maker in makers:
        assert maker.stdout is not None
        assert maker.stdout.readline() == "ready\n"
    for maker in makers:
        go(maker)
    times = {maker.communicate(timeout=60)[0] for maker in makers}
    assert [maker.returncode for maker in makers] == [0] * 4
    assert len(times) == 1
    assert MemoryTable.open(tmp_path / "t", create=False).version == 0
