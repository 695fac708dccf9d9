"""Several processes on one table, and processes that are killed in the middle of a commit."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from memorypipe.table.lance import LanceStorage
from memorypipe.table.table import MemoryTable
from tests.support.table_actions import ledger_key
from tests.support.table_writer import COUNTER_ID, first_batch

ROOT = Path(__file__).parents[2]


def writer(uri: str, name: str, commits: int) -> "subprocess.Popen[str]":
    process = subprocess.Popen(  # noqa: S603  # our own script
        [sys.executable, "-m", "tests.support.table_writer", uri, name, str(commits)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def start(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def landed(output: str) -> list[str]:
    """Read the run ids that a writer reported; a torn last line was not reported."""
    return [
        json.loads(line)["run_id"] for line in output.splitlines(keepends=True) if "}\n" in line
    ]


def check(table: MemoryTable, reported: list[str]) -> None:
    """Check that the table is sound and holds at least what was reported."""
    runs = table.runs()
    committed = runs["run_id"].to_pylist()[1:]
    assert set(reported) <= set(committed)
    assert len(set(committed)) == len(committed)
    assert runs["commit_number"].to_pylist() == list(range(1, table.version + 1))
    times = runs["committed_at"].to_pylist()
    assert times == sorted(set(times))
    texts = Counter(table.to_arrow(columns=["text"])["text"].to_pylist())
    assert max(texts.values()) == 1
    assert {f"only {run_id}" for run_id in committed} <= texts.keys()
    counter = table.history(COUNTER_ID)["text"].to_pylist()
    assert counter == [str(number) for number in range(len(committed) + 1)]
    assert table.ledger_keys().to_pylist() == sorted(map(ledger_key, committed))


def test_four_writers_with_overlapping_keys_lose_and_double_nothing(tmp_path: Path) -> None:
    table = MemoryTable.open(tmp_path)
    table.commit(first_batch(), run_id="first")
    writers = [writer(table.uri, name, 15) for name in "abcd"]
    for process in writers:
        start(process)
    reported = [run_id for each in writers for run_id in landed(each.communicate(timeout=300)[0])]
    assert [each.returncode for each in writers] == [0] * 4
    assert len(reported) == 60
    check(table, reported)
    assert table.version == 61
    assert table.count() == 60 + 15 + 1


# What a commit writes, in its order: killed when the third file of a folder shows up, a writer
# has begun to write its ledger, its rows, or its transaction, and has not reported the commit.
@pytest.mark.parametrize(
    "folder", ["ledger", "memories.lance/data", "memories.lance/_transactions"]
)
@pytest.mark.parametrize("files", [3, 8])
def test_what_was_reported_before_a_kill_is_there_and_the_table_works_on(
    tmp_path: Path, folder: str, files: int
) -> None:
    table = MemoryTable.open(tmp_path)
    table.commit(first_batch(), run_id="first")
    process = writer(table.uri, "a", 1000)
    start(process)
    place = tmp_path / folder
    while not place.exists() or len(list(place.iterdir())) < files:
        assert process.poll() is None
    process.kill()
    check(table, landed(process.communicate(timeout=60)[0]))
    version = table.version
    again = writer(table.uri, "b", 2)
    start(again)
    check(table, landed(again.communicate(timeout=120)[0]))
    assert table.version == version + 2


def test_two_processes_that_make_the_table_at_once_make_one(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from memorypipe.table.table import MemoryTable\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        f"print(MemoryTable.open({str(tmp_path / 't')!r}).commit_time.isoformat())\n"
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
        start(maker)
    times = {maker.communicate(timeout=60)[0] for maker in makers}
    assert [maker.returncode for maker in makers] == [0] * 4
    assert len(times) == 1
    assert LanceStorage(str(tmp_path / "t")).snapshot().head.number == 0
