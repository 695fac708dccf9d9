"""What does a commit to a Parquet table cost beside a MERGE of the same rows?

Command::

    python benchmarks/parquet_commit.py --rows 1000000 --actions 100000 --out out.json

A Parquet table of `--rows` live memories takes one commit of `--actions` actions, half of them
updates of random memories, half additions: every bucket is touched and written anew. Beside it, in
processes of their own, Delta Lake (`deltalake`) and DuckDB (a database file of its own format)
take a MERGE of the rows that this commit wrote, closed revisions and new ones; and all files of
the table are read and written once more by pyarrow, one after the other, which is what rewriting
costs without any decision. `--vector-dim 0` leaves the vectors null. `--small` commits of one
update and one addition follow, in one process.

Prints JSON: seconds (of the clock, and of the processor, which other work on the machine moves
less), the peak memory of each process, versions and machine. The default sizes are small, so that
the benchmark itself can be tried in seconds. Peers that are not installed are left out.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.table_rows import SEED, START, live_rows, make_actions  # the checkout comes first
from memorypipe.schema import table_schema
from memorypipe.table.parquet.storage import ParquetStorage
from memorypipe.table.records import Head, head_row
from memorypipe.table.storage import Where
from memorypipe.table.table import MemoryTable

RUN_ID = "benchmark"
BYTES_PER_MAXRSS_UNIT = 1024
PEERS = {"delta": "deltalake", "duckdb": "duckdb"}
KEY = "t.memory_id = s.memory_id AND t.revision = s.revision"


def plain(rows: pa.Table) -> pa.Table:
    """Give rows the types that every peer takes: lists, not lists of one size."""
    place = rows.schema.get_field_index("vector")
    vectors = rows["vector"].cast(pa.list_(pa.float32()))
    return rows.set_column(place, "vector", vectors).replace_schema_metadata()


def prepare(folder: Path, rows: int, actions: int, dim: int) -> None:
    """Write the table, the peers' tables and the actions."""
    memories = live_rows(rows, dim)
    pq.write_table(make_actions(memories, actions, dim), folder / "actions.parquet")
    head = Head(number=0, committed_at=START, created_at=START, vector_dim=dim or 1)
    storage = ParquetStorage(str(folder / "table"))
    storage.create(head)
    none = pa.array([], pa.uint64())
    storage.snapshot().commit(closed=none, rows=memories, head=head_row(head))
    if "delta" in installed():
        import deltalake  # noqa: PLC0415  # a peer that may be missing

        deltalake.write_deltalake(str(folder / "delta"), plain(memories))
    if "duckdb" in installed():
        import duckdb  # noqa: PLC0415  # as above

        source = plain(memories)
        with duckdb.connect(str(folder / "peer.duckdb")) as database:
            database.register("source", source)
            database.execute("CREATE TABLE t AS SELECT * FROM source")


def installed() -> list[str]:
    """Name the peers that are there."""
    return [name for name, module in PEERS.items() if importlib.util.find_spec(module)]


def measured(work: Callable[[], Any]) -> dict[str, float]:
    """Time some work in this process; report it with the process's peak memory."""
    start, cpu_start = time.perf_counter(), time.process_time()
    work()
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * BYTES_PER_MAXRSS_UNIT
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "peak_mb": peak / 1e6}


def run_commit(folder: Path) -> dict[str, float]:
    """Commit the actions; leave what was written for the peers."""
    actions = pq.read_table(folder / "actions.parquet")
    uri = str(folder / "table")
    table = MemoryTable.open(uri, create=False)
    before = {file.name for file in ParquetStorage(uri).snapshot().manifest.files}
    result = measured(lambda: table.commit(actions, run_id=RUN_ID, base_version=0))
    snapshot = ParquetStorage(uri).snapshot()
    columns = table_schema(table.vector_dim).names
    written = snapshot.scan(columns, Where(touched_at=table.commit_time))
    assert written.num_rows == actions.num_rows + actions.num_rows // 2
    pq.write_table(plain(written), folder / "written.parquet")
    new = [file for file in snapshot.manifest.files if file.name not in before]
    return result | {
        "files": len(snapshot.manifest.files),
        "files_written": len(new),
        "written_mb": sum(file.size_bytes for file in new) / 1e6,
        "manifest_kb": len(snapshot.manifest.encode()) / 1e3,
    }


def run_small(folder: Path, commits: int) -> dict[str, float]:
    """Commit single updates and additions, in one process."""
    table = MemoryTable.open(str(folder / "table"), create=False)
    some = pq.read_table(folder / "actions.parquet")
    half = some.num_rows // 2
    times = []
    for number in range(commits):
        batch = some.take(pa.array([number, half + number]))
        texts = pa.array([f"small {number} a", f"small {number} b"])
        batch = batch.set_column(batch.schema.get_field_index("text"), "text", texts)
        names = pa.array([batch["memory_id"][0].as_py(), None], pa.string())
        batch = batch.set_column(batch.schema.get_field_index("memory_id"), "memory_id", names)
        start = time.process_time()
        table.commit(batch, run_id=f"small-{number}")
        times.append(time.process_time() - start)
    return {
        "first_cpu_ms": times[0] * 1e3,
        "median_cpu_ms": statistics.median(times) * 1e3,
    }


def run_delta(folder: Path) -> dict[str, float]:
    """Merge into a Delta table."""
    import deltalake  # noqa: PLC0415  # a peer that may be missing

    written = pq.read_table(folder / "written.parquet")

    def work() -> None:
        merge = deltalake.DeltaTable(str(folder / "delta")).merge(
            written, KEY, source_alias="s", target_alias="t"
        )
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    return measured(work)


def run_duckdb(folder: Path) -> dict[str, float]:
    """Merge into a table of a DuckDB file, and write that out."""
    import duckdb  # noqa: PLC0415  # a peer that may be missing

    written = pq.read_table(folder / "written.parquet")

    def work() -> None:
        with duckdb.connect(str(folder / "peer.duckdb")) as database:
            database.register("s", written)
            database.execute(
                f"MERGE INTO t USING s ON {KEY} WHEN MATCHED THEN UPDATE "
                "WHEN NOT MATCHED THEN INSERT"
            )
            database.execute("CHECKPOINT")

    return measured(work)


def run_bare(folder: Path) -> dict[str, float]:
    """Read all files of the table and write them again: the floor of rewriting."""
    files = ParquetStorage(str(folder / "table")).snapshot().manifest.files

    def work() -> None:
        for file in files:
            rows = pq.ParquetFile(folder / "table" / file.name).read(use_threads=False)
            pq.write_table(rows, folder / "again.parquet", use_dictionary=False)

    return measured(work)


STEPS = {"commit": run_commit, "bare": run_bare, "delta": run_delta, "duckdb": run_duckdb}


def in_process(*arguments: str) -> dict[str, float]:
    """Run a step in a process of its own: children inherit their parent's peak memory."""
    done = subprocess.run(  # noqa: S603  # ours
        [sys.executable, __file__, *arguments], check=True, stdout=subprocess.PIPE, text=True
    )
    answer: dict[str, float] = json.loads(done.stdout or "{}")
    return answer


def compare(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run all on tables with the same rows."""
    place = str(folder)
    sizes = [str(options.rows), str(options.actions), str(options.vector_dim)]
    in_process("--prepare", place, *sizes)
    steps = ["bare", "commit", *installed()]
    results = {step: in_process("--step", step, place) for step in steps}
    results["small"] = in_process("--small-step", place, str(options.small))
    names = ["pyarrow", *(PEERS[peer] for peer in installed())]
    return {
        "rows": options.rows,
        "actions": options.actions,
        "vector_dim": options.vector_dim,
        **{
            step: {name: round(value, 3) for name, value in result.items()}
            for step, result in results.items()
        },
        "seed": SEED,
        "versions": {name: importlib.metadata.version(name) for name in names},
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "machine": platform.platform(),
    }


def main() -> None:
    """Read the command line and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--actions", type=int, default=2_000)
    parser.add_argument("--vector-dim", type=int, default=256)
    parser.add_argument("--small", type=int, default=20, help="small commits at the end")
    parser.add_argument("--out", type=Path, help="also write the JSON to this file")
    parser.add_argument("--prepare", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--step", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--small-step", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.prepare is not None:
        place, *sizes = options.prepare
        prepare(Path(place), *map(int, sizes))
        return
    if options.step is not None:
        step, place = options.step
        print(json.dumps(STEPS[step](Path(place))))
        return
    if options.small_step is not None:
        place, commits = options.small_step
        print(json.dumps(run_small(Path(place), int(commits))))
        return
    with tempfile.TemporaryDirectory() as folder:
        result = compare(Path(folder), options)
    text = json.dumps(result, indent=2)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
