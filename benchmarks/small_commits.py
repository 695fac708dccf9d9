"""Does the time of a small commit stay flat, and is a reader beside it left in peace?

Command::

    python benchmarks/small_commits.py --commits 10000 > small_commits.json

One writer commits `--commits` times two actions (an addition, and an update of an earlier
memory) in `--scopes` scopes; files are merged and old versions removed as every commit does by
itself. A second process reads one scope all the while and checks that it is whole. Half-way the
table is optimized once.

The time per commit is reported per tenth of the run, in seconds of the clock and of the
processor; the last tenth must take at most 1.5 times what the second one took (the first has
nearly empty files). With them: how many fragments, versions and files there are, how long opening
takes, and the reader's times.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import lance
import pyarrow as pa

from benchmarks.common import Target, finish, machine  # the checkout comes first
from memorypipe import ids
from memorypipe.schema import ACTIONS
from memorypipe.table.table import MemoryTable

STEPS = 10


def scope_of(number: int, scopes: int) -> dict[str, str]:
    """Spread commits over the scopes."""
    return {"user_id": f"user-{number % scopes}"}


def action(event: str, text: str, name: str, scope: dict[str, str], seq: int) -> dict[str, Any]:
    """Make one action."""
    return dict.fromkeys(ACTIONS.names) | {
        "scope": list(scope.items()),
        "scope_key": ids.scope_key(scope),
        "seq": seq,
        "record_type": "memory",
        "event": event,
        "text": text,
        "memory_id": name,
    }


def batch(number: int, scopes: int) -> pa.Table:
    """Make the actions of one commit: what is added is updated by a later one."""
    scope = scope_of(number, scopes)
    key, text = ids.scope_key(scope), f"Memory {number} says something"
    rows = [action("ADD", text, ids.memory_id("memory", key, text), scope, 0)]
    if number >= scopes:
        earlier = ids.memory_id("memory", key, f"Memory {number - scopes} says something")
        rows.append(action("UPDATE", f"Changed by {number}", earlier, scope, 1))
    return pa.Table.from_pylist(rows, schema=ACTIONS)


def write(table: MemoryTable, numbers: range, scopes: int) -> dict[str, Any]:
    """Commit, and say how long each commit took."""
    cpu_s, times = time.process_time(), []
    for number in numbers:
        start = time.perf_counter()
        result = table.commit(batch(number, scopes), run_id=f"run-{number}")
        times.append(time.perf_counter() - start)
        assert result.version == number + 1
    ordered = sorted(times)
    return {
        "commits": numbers.stop,
        "mean_ms": round(1e3 * statistics.mean(times), 2),
        "median_ms": round(1e3 * ordered[len(ordered) // 2], 2),
        "max_ms": round(1e3 * ordered[-1], 2),
        "cpu_ms": round(1e3 * (time.process_time() - cpu_s) / len(times), 2),
        **sizes(Path(table.uri) / "memories.lance"),
    }


def sizes(place: Path) -> dict[str, Any]:
    """Look at what lies on the disk."""
    start = time.perf_counter()
    dataset = lance.dataset(str(place))
    open_ms = 1e3 * (time.perf_counter() - start)
    return {
        "open_ms": round(open_ms, 2),
        "fragments": len(dataset.get_fragments()),
        "versions": len(list((place / "_versions").iterdir())),
        "data_files": len(list((place / "data").iterdir())),
    }


def read(uri: str, scopes: int) -> None:
    """Read one scope until told to stop; every read must be whole, and never shorter."""
    table = MemoryTable.open(uri, create=False)
    print("ready", flush=True)
    times: list[float] = []
    seen = 0
    stop = Path(uri) / "stop"
    while not stop.exists():
        start = time.perf_counter()
        rows = table.to_arrow(scope_of(0, scopes), columns=["memory_id", "text"])
        times.append(time.perf_counter() - start)
        assert len(set(rows["memory_id"].to_pylist())) == rows.num_rows >= seen
        seen = rows.num_rows
    ordered = sorted(times)
    print(
        json.dumps(
            {
                "reads": len(times),
                "rows_at_the_end": seen,
                "median_ms": round(1e3 * ordered[len(ordered) // 2], 2),
                "p99_ms": round(1e3 * ordered[int(len(ordered) * 0.99)], 2),
            }
        )
    )


def run(uri: str, commits: int, scopes: int) -> dict[str, Any]:
    """Write with a reader beside."""
    table = MemoryTable.open(uri, embedder="none")
    command = [sys.executable, __file__, "--read", uri, "--scopes", str(scopes)]
    reader = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603  # ours
    assert reader.stdout is not None
    assert reader.stdout.readline() == "ready\n"
    bounds = [commits * step // STEPS for step in range(STEPS + 1)]
    tenths = []
    for step in range(STEPS):
        if step == STEPS // 2:
            table.optimize()
        tenths.append(write(table, range(bounds[step], bounds[step + 1]), scopes))
        print(json.dumps(tenths[-1]), file=sys.stderr, flush=True)
    (Path(uri) / "stop").touch()
    reads = json.loads(reader.communicate(timeout=60)[0])
    assert reader.returncode == 0
    assert table.count() == commits
    assert table.runs().num_rows == commits
    return {"tenths": tenths, "reader": reads}


def main() -> None:
    """Read the command line and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--scopes", type=int, default=20)
    parser.add_argument("--read", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read is not None:
        read(options.read, options.scopes)
        return
    with tempfile.TemporaryDirectory() as folder:
        result = run(folder, options.commits, options.scopes)
    tenths = result["tenths"]
    growth = round(tenths[-1]["cpu_ms"] / tenths[1]["cpu_ms"], 2)
    finish(
        {"commits": options.commits, **result, "machine": machine("pylance", "pyarrow")},
        {"last tenth over second tenth": Target(value=growth, at_most=1.5)},
    )


if __name__ == "__main__":
    main()
