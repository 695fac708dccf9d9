"""Do a million rows stream through, at a steady rate and in steady memory?

    python benchmarks/million.py [--rows 1000000] [--mark 100000] [--batch-rows 4096]

Short transcripts are made lazily, one `MemoryExtract` column is computed by the rule-based model
inside one worker, and the result is consumed batch by batch and dropped. Nothing is ever
materialised. The memory that worker and driver share with no other process is sampled every
second; its mean over the last tenth of the rows must be within 10 % of its mean over the tenth of
the rows that follows the mark.

The limit is the rules alone, called in a loop in one process without Ray, Arrow or cells: one
worker is one process and has no more than that. There is no randomness in it. Prints one JSON
object.
"""

import argparse
import asyncio
import statistics
import sys
import time
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray
from ray.data.expressions import col

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import common  # the checkout comes first
from memorypipe import MemoryExtract
from memorypipe.llm.offline import OfflineModel
from memorypipe.llm.types import ExtractTask, Request, Turn

CONTEXT = "Date: 2025-01-01"
WORKER_AND_DRIVER = ("worker", "driver")
SHOWN_SAMPLES = 40


def say(number: int) -> str:
    """Give what the user of a row said."""
    return f"I own {number} pianos."


def make_batch(batch: pa.Table) -> pa.Table:
    """Make transcripts of row numbers."""
    said = [f"[user]: {say(number)}" for number in batch["id"].to_pylist()]
    return pa.table({"id": batch["id"], "messages": said})


@dataclass(kw_only=True)
class Progress:
    """How far the consumer was, and when."""

    at_s: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def rows_at(self, at_s: float) -> int:
        """Give the rows that had been consumed at a moment."""
        done = bisect_left(self.at_s, at_s)
        return self.rows[done - 1] if done else 0

    def time_of(self, rows: int) -> float:
        """Give the moment at which so many rows had been consumed."""
        return self.at_s[bisect_left(self.rows, rows)]


def check(batch: pa.Table) -> int:
    """Check the cells of a batch; give the sum of its row numbers."""
    numbers = batch["id"].to_pylist()
    for number, cell in zip(numbers, batch["facts_json"].to_pylist(), strict=True):
        assert cell.count('"text"') == 1, "one fact per row"
        assert f"{number} pianos" in cell, "an answer stands in its own row"
    return sum(numbers)


def consume(rows: int, batch_rows: int) -> Progress:
    """Stream all rows through and check each."""
    expression = MemoryExtract(base_url="offline:", model="offline-rules")
    facts = expression.options(num_workers={"IO": 1}).with_column(col("messages"), CONTEXT)
    dataset: Any = ray.data.range(rows).map_batches(make_batch, batch_format="pyarrow")
    dataset = dataset.with_column("facts_json", facts)
    progress = Progress()
    seen = total = 0
    for batch in dataset.iter_batches(batch_size=batch_rows, batch_format="pyarrow"):
        total += check(batch)
        seen += batch.num_rows
        progress.at_s.append(time.monotonic())
        progress.rows.append(seen)
    assert (seen, total) == (rows, rows * (rows - 1) // 2), "every row came once"
    return progress


async def _rules(rows: int) -> None:
    model = OfflineModel()
    for number in range(rows):
        turn = Turn(role="user", content=say(number))
        task = ExtractTask(turns=[turn], context=CONTEXT)
        assert (await model.complete(Request(messages=[], task=task))).content


def rules_alone_per_s(rows: int) -> float:
    """Measure the rules without anything around them."""
    started_s = time.process_time()
    asyncio.run(_rules(rows))
    return rows / (time.process_time() - started_s)


def memory_mb(
    samples: list[common.Sample], progress: Progress, role: str, from_row: int, until_row: int
) -> float:
    """Give the mean memory of a role while rows of a range were consumed."""
    seen = [
        (progress.rows_at(sample.at_s), sample.private_bytes[role])
        for sample in samples
        if role in sample.private_bytes
    ]
    values = [size for rows, size in seen if from_row <= rows <= until_row]
    # A short run may pass a range between two samples; the nearest one then stands for it.
    values = values or [min(seen, key=lambda one: abs(one[0] - until_row))[1]]
    return round(statistics.mean(values) / 1e6, 1)


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--mark", type=int, default=100_000, help="from where memory is flat")
    parser.add_argument("--batch-rows", type=int, default=4_096)
    parser.add_argument("--sample-s", type=float, default=1.0)
    options = parser.parse_args()
    rows, mark = options.rows, options.mark
    with common.ray_up(), common.Watch(every_s=options.sample_s, memory=True) as watch:
        started_s = time.monotonic()
        progress = consume(rows, options.batch_rows)
    ended_s, marked_s = progress.at_s[-1], progress.time_of(mark)
    rules_per_s = rules_alone_per_s(min(rows, 20_000))
    after_mark_per_s = (rows - mark) / (ended_s - marked_s)
    means = {
        role: {
            "after_mark_mb": memory_mb(watch.samples, progress, role, mark, mark + rows // 10),
            "last_tenth_mb": memory_mb(watch.samples, progress, role, rows - rows // 10, rows),
        }
        for role in WORKER_AND_DRIVER
    }
    step = max(len(watch.samples) // SHOWN_SAMPLES, 1)
    series = [
        {"rows": progress.rows_at(sample.at_s), "at_s": round(sample.at_s - started_s, 1)}
        | {f"{role}_mb": round(n / 1e6, 1) for role, n in sorted(sample.private_bytes.items())}
        for sample in watch.samples[::step]
    ]
    result = {
        "rows": rows,
        "mark": mark,
        "wall_s": round(ended_s - started_s, 1),
        "rows_per_s": round(rows / (ended_s - started_s), 1),
        "after_mark_rows_per_s": round(after_mark_per_s, 1),
        "cpu_ms_per_row": common.per_row_ms(watch, marked_s, ended_s, rows - mark),
        "rules_alone_rows_per_s": round(rules_per_s, 1),
        "over_rules_alone": round(after_mark_per_s / rules_per_s, 3),
        "memory": means,
        "series": series,
        "machine": common.machine("ray", "pyarrow"),
    }
    growth = {
        f"{role}_memory_ratio": common.Target(
            value=round(memory["last_tenth_mb"] / memory["after_mark_mb"], 3), at_most=1.1
        )
        for role, memory in means.items()
    }
    common.finish(result, growth)


if __name__ == "__main__":
    main()
