"""What does a commit cost over a bare Lance append and delete of the same rows?

Command::

    python benchmarks/commit.py --rows 1000000 --actions 100000 --out commit.json

A table of `--rows` live memories with 256-dimension vectors takes one commit of `--actions`
actions, half of them updates of random memories, half additions. Beside it, in a process of its
own on a copy of the same dataset, the rows that this commit wrote are appended with
`lance.write_dataset` and the rows that it closed are deleted by an id list with `dataset.delete`:
no check, no fold, no run row. Both run `--repeat` times, alternately; the medians count.

Prints JSON: seconds (of the clock, and of the processor, which other work on the machine moves
less), their ratios, the peak memory of each process, versions and machine. The
default sizes are small, so that the benchmark itself can be tried in seconds.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from memorypipe import ids
from memorypipe.schema import ACTIONS, SCOPE, table_schema
from memorypipe.table.records import Head, head_row
from memorypipe.table.table import MemoryTable

SEED = 7
VECTOR_DIM = 256
MEMORIES_PER_SCOPE = 100
START = datetime(2024, 5, 1, tzinfo=UTC)
RUN_ID = "benchmark"
BYTES_PER_MAXRSS_UNIT = 1024


def scope_columns(users: Any) -> dict[str, pa.Array]:
    """Make the scope columns of rows that belong to user numbers."""
    names = [f"user-{number}" for number in range(int(users.max()) + 1)]
    scopes = [{"user_id": name} for name in names]
    place = pa.array(users)
    return {
        "scope": pa.array([list(scope.items()) for scope in scopes], SCOPE).take(place),
        "scope_key": pa.array([ids.scope_key(scope) for scope in scopes]).take(place),
        "user_id": pa.array(names).take(place),
    }


def fill(columns: dict[str, Any], schema: pa.Schema, num_rows: int) -> pa.Table:
    """Make a table from columns, constants and nulls."""
    arrays = []
    for field in schema:
        value = columns.get(field.name)
        if not isinstance(value, pa.Array):
            zeros = pa.array(np.zeros(num_rows, np.int32))
            value = pa.array([value], field.type).take(zeros)
        arrays.append(value)
    return pa.table(arrays, schema=schema)


def seed_table(uri: Path, rows: int) -> None:
    """Write the table that both start from."""
    rng = np.random.default_rng(SEED)
    numbers = np.arange(rows)
    texts = [f"Memory number {number} says what it says" for number in numbers]
    scopes = scope_columns(numbers // MEMORIES_PER_SCOPE)
    keys = scopes["scope_key"].to_pylist()
    named = zip(keys, texts, strict=True)
    values = pa.array(rng.random(rows * VECTOR_DIM, dtype=np.float32))
    columns = scopes | {
        "record_type": "memory",
        "memory_id": pa.array([ids.memory_id("memory", key, text) for key, text in named]),
        "revision": 1,
        "is_current": True,
        "event": "ADD",
        "text": pa.array(texts),
        "search_text": pa.array(texts),
        "text_hash": pa.array([ids.text_hash(text) for text in texts]),
        "created_at": START,
        "updated_at": START,
        "valid_from": START,
        "deleted": False,
        "status": "valid",
        "is_live": True,
        "run_id": "seed",
        "source_ids": ["m1", "m2"],
        "vector": pa.FixedSizeListArray.from_arrays(values, VECTOR_DIM),
    }
    head = Head(number=0, committed_at=START, created_at=START, vector_dim=VECTOR_DIM)
    place = str(uri / "memories.lance")
    schema = table_schema(VECTOR_DIM)
    lance.write_dataset(fill(columns, schema, rows), place, data_storage_version="2.2")
    lance.write_dataset(head_row(head), place, mode="append")


def make_actions(uri: Path, rows: int, count: int) -> pa.Table:
    """Make the actions: updates of random memories and additions, half and half."""
    rng = np.random.default_rng(SEED)
    updates = count // 2
    picked = np.sort(rng.choice(rows, updates, replace=False))
    memories = lance.dataset(str(uri / "memories.lance")).take(picked, columns=["memory_id"])
    users = np.concatenate([picked, rng.integers(0, rows, count - updates)]) // MEMORIES_PER_SCOPE
    scopes = scope_columns(users)
    texts = [f"Action number {number} says something new" for number in range(count)]
    added = zip(scopes["scope_key"].to_pylist()[updates:], texts[updates:], strict=True)
    names = memories["memory_id"].to_pylist()
    names += [ids.memory_id("memory", key, text) for key, text in added]
    columns = scopes | {
        "seq": pa.array(range(count), pa.int32()),
        "record_type": "memory",
        "event": pa.array(["UPDATE"] * updates + ["ADD"] * (count - updates)),
        "memory_id": pa.array(names),
        "text": pa.array(texts),
        "event_time": START,
        "conversation_id": "c1",
        "window_id": "w1",
        "source_ids": ["m7", "m8"],
        "model": "model",
        "prompt_hash": "hash",
    }
    return fill(columns, ACTIONS, count)


def prepare(uri: Path, rows: int, actions: int) -> None:
    """Write the table and, beside it, the actions."""
    seed_table(uri, rows)
    pq.write_table(make_actions(uri, rows, actions), uri.parent / "actions.parquet")


def copy_table(source: Path, target: Path) -> None:
    """Copy by hard links: the files of a dataset never change."""
    shutil.copytree(source, target, copy_function=os.link)


def measured(work: Any) -> dict[str, float]:
    """Time some work in this process; report it with the process's peak memory."""
    start, cpu_start = time.perf_counter(), time.process_time()
    work()
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * BYTES_PER_MAXRSS_UNIT
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "peak_mb": peak / 1e6}


def run_commit(folder: Path, uri: Path) -> dict[str, float]:
    """Commit the actions; leave what it wrote for the bare run."""
    actions = pq.read_table(folder / "actions.parquet")
    table = MemoryTable.open(uri, create=False)
    result = measured(lambda: table.commit(actions, run_id=RUN_ID, base_version=0))
    dataset = lance.dataset(str(uri / "memories.lance"))
    written = dataset.to_table(filter=f"run_id = '{RUN_ID}' OR valid_to IS NOT NULL")
    updates = written.filter(pc.is_valid(written["valid_to"])).num_rows
    assert written.num_rows == actions.num_rows + updates + 1
    assert table.version == 1
    pq.write_table(written, folder / "written.parquet")
    return result


def run_bare(folder: Path, uri: Path) -> dict[str, float]:
    """Append the rows of the commit and delete those that it closed."""
    written = pq.read_table(folder / "written.parquet").cast(table_schema(VECTOR_DIM))
    closed = written.filter(pc.is_valid(written["valid_to"]))["memory_id"].to_pylist()
    place = str(uri / "memories.lance")

    def work() -> None:
        dataset = lance.dataset(place)
        names = ", ".join(f"'{name}'" for name in closed)
        dataset.delete(f"memory_id IN ({names})")
        lance.write_dataset(written, place, mode="append")

    return measured(work)


def in_process(step: str, folder: Path, uri: Path) -> dict[str, float]:
    """Run a step in a process of its own."""
    command = [sys.executable, __file__, "--step", step, str(folder), str(uri)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603  # ours
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def compare(folder: Path, rows: int, actions: int, repeat: int) -> dict[str, Any]:
    """Run both, alternately, each on a fresh copy."""
    source = folder / "source"
    # A process of its own too: on Linux, children inherit their parent's peak memory.
    command = [sys.executable, __file__, "--prepare", str(rows), str(actions), str(source)]
    subprocess.run(command, check=True)  # noqa: S603  # ours
    runs: dict[str, list[dict[str, float]]] = {"commit": [], "bare": []}
    for number in range(repeat):
        for step, results in runs.items():
            copy = folder / f"{step}-{number}"
            copy_table(source, copy)
            results.append(in_process(step, folder, copy))
            shutil.rmtree(copy)
    medians = {
        f"{step}_{name}": statistics.median(result[name] for result in results)
        for step, results in runs.items()
        for name in ("seconds", "cpu_seconds", "peak_mb")
    }
    return {
        "rows": rows,
        "actions": actions,
        **{name: round(value, 3) for name, value in medians.items()},
        "cpu_ratio": round(medians["commit_cpu_seconds"] / medians["bare_cpu_seconds"], 2),
        "ratio": round(medians["commit_seconds"] / medians["bare_seconds"], 2),
        "all_seconds": {
            step: [round(result["seconds"], 3) for result in results]
            for step, results in runs.items()
        },
        "seed": SEED,
        "versions": {"lance": lance.__version__, "pyarrow": pa.__version__},
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "machine": platform.platform(),
    }


def main() -> None:
    """Read the command line and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--actions", type=int, default=2_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=Path, help="also write the JSON to this file")
    parser.add_argument("--step", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--prepare", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.prepare is not None:
        rows, actions, uri = options.prepare
        prepare(Path(uri), int(rows), int(actions))
        return
    if options.step is not None:
        step, folder, uri = options.step
        run = {"commit": run_commit, "bare": run_bare}[step]
        print(json.dumps(run(Path(folder), Path(uri))))
        return
    with tempfile.TemporaryDirectory() as folder:
        result = compare(Path(folder), options.rows, options.actions, options.repeat)
    text = json.dumps(result, indent=2)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
