"""What does a commit cost over a bare Lance append and delete of the same rows?

Command::

    python benchmarks/commit.py --rows 1000000 --actions 100000 > commit.json

A table of `--rows` live memories takes one commit of `--actions` actions, half of them updates of
random memories, half additions; once with 256-dimension vectors in table and actions, and once
without any. Beside it, each in a process of its own on a copy of the same dataset:

* `append_delete`: the rows that the commit wrote are appended and the rows that it closed are
  deleted by their ids, with `lance.write_dataset` and `dataset.delete`: no check, no fold, no
  history read, two commits. This is the yardstick.
* `offsets`: the same with nothing to look for: the rows' places are known before the clock
  starts, one commit of fragments and deletion files. The floor that writing alone sets.
* `merge_insert`: Lance's own upsert by id, which keeps no history.

All run `--repeat` times, in turn; medians count. Processor seconds are shown beside those of the
clock, as other work on the machine moves them less. The default sizes are small, so that the
benchmark itself can be tried in seconds; its ratios mean little then.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from lance.fragment import write_fragments

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.common import Target, finish, machine  # the checkout comes first
from benchmarks.table_rows import SEED, START, live_rows, make_actions
from memorypipe.schema import ACTION_OPTIONS, ACTIONS, table_schema
from memorypipe.table.records import Head, Settings, head_row
from memorypipe.table.table import MemoryTable

VECTOR_DIM = 256
RUN_ID = "benchmark"
BYTES_PER_MAXRSS_UNIT = 1024


def seed_table(uri: Path, rows: int, vectors: str) -> None:
    """Write the table that all start from."""
    dim = VECTOR_DIM if vectors == "with" else 0
    head = Head(
        number=0,
        committed_at=START,
        created_at=START,
        vector_dim=VECTOR_DIM,
        settings=Settings(embedder="benchmark" if dim else None),
    )
    place = str(uri / "memories.lance")
    lance.write_dataset(live_rows(rows, dim, width=VECTOR_DIM), place, data_storage_version="2.2")
    lance.write_dataset(head_row(head), place, mode="append")


def prepare(folder: Path, rows: int, actions: int) -> None:
    """Write the tables and, beside them, the actions, without and with vectors."""
    for vectors in ("without", "with"):
        seed_table(folder / f"source-{vectors}", rows, vectors)
        names = lance.dataset(dataset_of(folder / f"source-{vectors}")).to_table(
            columns=["memory_id"], filter="record_type = 'memory'", scan_in_order=True
        )
        made = make_actions(names, actions, VECTOR_DIM if vectors == "with" else 0)
        pq.write_table(made, folder / f"actions-{vectors}.parquet")


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


def dataset_of(uri: Path) -> str:
    """Give the place of a table's dataset."""
    return str(uri / "memories.lance")


def run_commit(folder: Path, uri: Path, vectors: str) -> dict[str, float]:
    """Commit the actions; leave what it wrote for the others."""
    schema = pa.schema([*ACTIONS, *([ACTION_OPTIONS.field("vector")] * (vectors == "with"))])
    actions = pq.read_table(folder / f"actions-{vectors}.parquet").cast(schema)
    table = MemoryTable.open(uri, create=False)
    result = measured(lambda: table.commit(actions, run_id=RUN_ID, base_version=0))
    dataset = lance.dataset(dataset_of(uri))
    written = dataset.to_table(filter=f"run_id = '{RUN_ID}' OR valid_to IS NOT NULL")
    updates = written.filter(pc.is_valid(written["valid_to"])).num_rows
    assert written.num_rows == actions.num_rows + updates + 1
    assert table.version == 1
    with_vector = written.num_rows - written["vector"].null_count
    assert with_vector == (actions.num_rows if vectors == "with" else 0)
    lance.write_dataset(
        written, folder / f"written-{vectors}", mode="overwrite", data_storage_version="2.2"
    )
    return result


def written_rows(folder: Path, vectors: str) -> pa.Table:
    """Read what the commit wrote."""
    return lance.dataset(folder / f"written-{vectors}").to_table().cast(table_schema(VECTOR_DIM))


def closed_ids(written: pa.Table) -> pa.ChunkedArray:
    """Give the ids of the rows that the commit closed."""
    return written.filter(pc.is_valid(written["valid_to"]))["memory_id"]


def run_append_delete(folder: Path, uri: Path, vectors: str) -> dict[str, float]:
    """Append the rows of the commit and delete those that it closed, by their ids."""
    written, place = written_rows(folder, vectors), dataset_of(uri)
    closed = closed_ids(written).to_pylist()

    def work() -> None:
        dataset = lance.dataset(place)
        names = ", ".join(f"'{name}'" for name in closed)
        dataset.delete(f"memory_id IN ({names})")
        lance.write_dataset(written, place, mode="append")

    return measured(work)


def run_offsets(folder: Path, uri: Path, vectors: str) -> dict[str, float]:
    """Do the same in one transaction, with the places of the rows known beforehand."""
    written, place = written_rows(folder, vectors), dataset_of(uri)
    keys = lance.dataset(place).to_table(columns=["memory_id"], with_row_address=True)
    closed = keys.filter(pc.is_in(keys["memory_id"], closed_ids(written)))["_rowaddr"]
    addresses = np.sort(np.asarray(closed))
    numbers, offsets = addresses >> 32, (addresses & 0xFFFFFFFF).astype(np.int64)

    def work() -> None:
        dataset = lance.dataset(place)
        updated: Any = [
            fragment.delete_rows(offsets[numbers == fragment.fragment_id])
            for fragment in dataset.get_fragments()
            if np.any(numbers == fragment.fragment_id)
        ]
        new = write_fragments(written, place, schema=written.schema, data_storage_version="2.2")
        operation = lance.LanceOperation.Update(
            removed_fragment_ids=[], updated_fragments=updated, new_fragments=new
        )
        lance.LanceDataset.commit(place, operation, read_version=dataset.version)

    return measured(work)


def run_merge_insert(folder: Path, uri: Path, vectors: str) -> dict[str, float]:
    """Upsert the new revisions by their ids."""
    written, place = written_rows(folder, vectors), dataset_of(uri)
    new = written.filter(written["is_current"])

    def work() -> None:
        merge = lance.dataset(place).merge_insert("memory_id")
        merge.when_matched_update_all().when_not_matched_insert_all().execute(new)

    return measured(work)


STEPS = {
    "commit": run_commit,
    "append_delete": run_append_delete,
    "offsets": run_offsets,
    "merge_insert": run_merge_insert,
}


def in_process(*arguments: str) -> str:
    """Run this script in a process of its own: memory is measured per process."""
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603  # ours
    return done.stdout


def compare(folder: Path, vectors: str, repeat: int) -> dict[str, Any]:
    """Run all steps of one case, in turn, each on a fresh copy."""
    runs: dict[str, list[dict[str, float]]] = {step: [] for step in STEPS}
    for number in range(repeat):
        for step, results in runs.items():
            copy = folder / f"{step}-{number}"
            copy_table(folder / f"source-{vectors}", copy)
            results.append(json.loads(in_process("--step", step, str(folder), str(copy), vectors)))
            shutil.rmtree(copy)
    medians = {
        step: {
            name: round(statistics.median(result[name] for result in results), 3)
            for name in ("seconds", "cpu_seconds", "peak_mb")
        }
        for step, results in runs.items()
    }
    ratios = {
        f"{name}_over_{peer}": round(medians["commit"][name] / medians[peer][name], 2)
        for peer in STEPS
        if peer != "commit"
        for name in ("seconds", "cpu_seconds")
    }
    seconds = {
        step: [round(each["seconds"], 3) for each in results] for step, results in runs.items()
    }
    return {"medians": medians, "ratios": ratios, "all_seconds": seconds}


def targets(cases: dict[str, Any]) -> dict[str, Target]:
    """Say what each case has to reach."""
    wanted = {}
    for vectors, case in cases.items():
        ratio = case["ratios"]["seconds_over_append_delete"]
        peak_gb = case["medians"]["commit"]["peak_mb"] / 1e3
        wanted[f"time over append and delete, {vectors} vectors"] = Target(value=ratio, at_most=1.5)
        wanted[f"peak memory in GB, {vectors} vectors"] = Target(value=peak_gb, at_most=2.5)
    return wanted


def main() -> None:
    """Read the command line and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--actions", type=int, default=2_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--step", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--prepare", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.prepare is not None:
        rows, actions, folder = options.prepare
        prepare(Path(folder), int(rows), int(actions))
        return
    if options.step is not None:
        step, folder, uri, vectors = options.step
        print(json.dumps(STEPS[step](Path(folder), Path(uri), vectors)))
        return
    with tempfile.TemporaryDirectory() as folder:
        sizes = str(options.rows), str(options.actions)
        # On Linux, children inherit their parent's peak memory: this one stays small.
        in_process("--prepare", *sizes, folder)
        cases = {
            vectors: compare(Path(folder), vectors, options.repeat)
            for vectors in ("without", "with")
        }
    result = {
        "rows": options.rows,
        "actions": options.actions,
        "seed": SEED,
        "cases": cases,
        "machine": machine("pylance", "pyarrow"),
    }
    finish(result, targets(cases))


if __name__ == "__main__":
    main()
