"""Writer processes on one table, and what must hold of the table whatever became of them."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from memorypipe.table.table import MemoryTable
from tests.support.table_actions import ledger_key
from tests.support.table_writer import COUNTER_ID, first_batch

ROOT = Path(__file__).parents[2]

Process = subprocess.Popen[str]


def new_table(place: Path, backend: str) -> MemoryTable:
    """Make a table with the counter that all writers update."""
    table = MemoryTable.open(place, backend=backend, embedder="none")
    table.commit(first_batch(), run_id="first")
    return table


def start_writer(uri: str, name: str, commits: int, backend: str) -> Process:
    """Start a process that commits, once it is told to `go`."""
    arguments = [uri, name, str(commits), backend]
    process = subprocess.Popen(  # noqa: S603  # our own script
        [sys.executable, "-m", "tests.support.table_writer", *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def reports(output: str) -> list[dict[str, Any]]:
    """Read what a writer reported as landed; a torn last line was not reported."""
    return [json.loads(line) for line in output.splitlines(keepends=True) if "}\n" in line]


def check_table(table: MemoryTable, reported: list[str]) -> list[str]:
    """Check that the table is sound and holds at least what was reported; the runs it has."""
    runs = table.runs()
    committed: list[str] = runs["run_id"].to_pylist()[1:]
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
    return committed
