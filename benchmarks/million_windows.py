"""Does a pipeline take a million windows, at a steady rate, in steady memory, in one commit?

    python benchmarks/million_windows.py [--windows 1000000] [--scopes 100000] [--workers 1]
        [--object-store-mb 500]

A log of short conversations is written to disk, a window each, of `--scopes` users; a hundredth
of the users has a tenth of the windows. The rule-based model extracts and decides inside the
workers: no network, no journal, no randomness. The plan is made, then applied.

Every second the memory that driver and workers share with no other process is sampled, and how
far the run is. Targets: all windows are decided, no window is left open, there is one commit, and
in each long stage the driver's memory in the last fifth is at most 1.25 times that of the second
fifth. Prints one JSON object.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import common  # the checkout comes first
from memorypipe import (
    MemoryBuildAction,
    MemoryExtract,
    MemoryPipeline,
    MemoryTable,
    read_conversations,
)
from memorypipe.llm.spec import OFFLINE_MODEL, OFFLINE_URL

_SYLLABLES = ("ba", "de", "fi", "go", "lu", "ma", "ne", "pi", "ro", "tu")
_SHOWN = 60
_LONG = ("windows", "extract", "decide")


class Step(NamedTuple):
    """How far a run was."""

    at_s: float
    stage: str
    done: int


class Steps:
    """Notes how far a run is, and what waits on disk to be sorted."""

    def __init__(self, table: Path) -> None:
        self.steps: list[Step] = []
        self.sorting_bytes = 0
        self.spilled_bytes = 0
        self._runs = table / "runs"
        self._looked_s = 0.0

    def note(self, stage: str, done: int) -> None:
        """Note a step."""
        now_s = time.monotonic()
        self.steps.append(Step(now_s, stage, done))
        if now_s > self._looked_s + 1.0:
            self._looked_s = now_s
            self.sorting_bytes = max(self.sorting_bytes, _size(self._runs, "*/.sorting*/*"))
            self.spilled_bytes = max(self.spilled_bytes, common.spilled_bytes())


def write_log(path: Path, windows: int, scopes: int) -> None:
    """Write a conversation of one window per line."""
    heavy = max(1, scopes // 100)
    with path.open("w") as file:
        for number in range(windows):
            user = number % heavy if number % 10 == 0 else number % scopes
            file.write(json.dumps(_conversation(number, user)) + "\n")


def _conversation(number: int, user: int) -> dict[str, Any]:
    word = "".join(_SYLLABLES[int(digit)] for digit in f"{number:07d}")
    things = " ".join(f"{word}{end}" for end in ("x", "q", "w", "j"))
    at = f"2025-{1 + number // 40_320 % 12:02d}-{1 + number // 1_440 % 28:02d}"
    time_of_day = f"{number // 60 % 24:02d}:{number % 60:02d}:00Z"
    said = [
        {"role": "user", "content": f"I own a {things} cupboard."},
        {"role": "assistant", "content": "What a lovely thing to have in a kitchen."},
    ]
    return {
        "user_id": f"u{user:07d}",
        "conversation_id": f"c{number:08d}",
        "messages": [{**each, "timestamp": f"{at}T{time_of_day}"} for each in said],
    }


def stages(steps: list[Step], watch: common.Watch) -> dict[str, Any]:
    """Give rows per second and memory of each stage."""
    found: dict[str, Any] = {}
    for stage, group in groupby(steps, key=lambda step: step.stage):
        seen = list(group)
        begin_s, end_s = seen[0].at_s, seen[-1].at_s
        samples = [sample for sample in watch.samples if begin_s <= sample.at_s <= end_s]
        wall_s = max(end_s - begin_s, 1e-9)
        driver = [sample.private_bytes.get("driver", 0) / 1e6 for sample in samples]
        workers = [sample.private_bytes.get("worker", 0) / 1e6 for sample in samples]
        found[stage] = {
            "rows": seen[-1].done,
            "wall_s": round(wall_s, 1),
            "rows_per_s": round(seen[-1].done / wall_s, 1),
            "cpu_ms_per_row": common.per_row_ms(watch, begin_s, end_s, max(1, seen[-1].done)),
            "driver_mb": _shape(driver),
            "workers_mb": _shape(workers),
        }
    return found


def _shape(megabytes: list[float]) -> dict[str, Any]:
    if not megabytes:
        return {}
    fifth = max(1, len(megabytes) // 5)
    step = max(1, len(megabytes) // _SHOWN)
    return {
        "second_fifth": round(fmean(megabytes[fifth : 2 * fifth] or megabytes), 1),
        "last_fifth": round(fmean(megabytes[-fifth:]), 1),
        "peak": round(max(megabytes), 1),
        "over_time": [round(value) for value in megabytes[::step]],
    }


def _targets(
    shown: dict[str, Any], *, left: int, open_windows: int, commits: int
) -> Iterator[tuple[str, common.Target]]:
    yield "windows_not_decided", common.Target(value=left, at_least=0, at_most=0)
    yield "open_windows", common.Target(value=open_windows, at_least=0, at_most=0)
    yield "commits", common.Target(value=commits, at_least=1, at_most=1)
    for stage in _LONG:
        memory = shown[stage]["driver_mb"]
        if memory:
            growth = memory["last_fifth"] / memory["second_fifth"]
            yield f"{stage}_driver_growth", common.Target(value=round(growth, 2), at_most=1.25)


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=1_000_000)
    parser.add_argument("--scopes", type=int, default=None, help="a tenth of the windows")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--object-store-mb", type=int, default=500)
    options = parser.parse_args()
    scopes = options.scopes or max(1, options.windows // 10)
    with tempfile.TemporaryDirectory(prefix="million-") as folder:
        log, table = Path(folder) / "log.jsonl", Path(folder) / "table"
        write_log(log, options.windows, scopes)
        with (
            common.ray_up(object_store_mb=options.object_store_mb),
            common.Watch(every_s=1.0, memory=True) as watch,
        ):
            model: dict[str, Any] = {"base_url": OFFLINE_URL, "model": OFFLINE_MODEL}
            workers = {"num_workers": options.workers}
            pipeline = MemoryPipeline(
                table=str(table),
                extract=MemoryExtract(**model).options(**workers),
                decide=MemoryBuildAction(**model).options(**workers),
                embedder="none",
                on_progress=lambda now: progress.note(now.stage, now.done),
            )
            progress = Steps(table)
            progress.note("read", 0)
            read = read_conversations(str(log))
            progress.note("read", read.conversations)
            plan = pipeline.plan(read)
            planned = plan.summary()
            summary = pipeline.apply(plan)
        opened = MemoryTable.open(str(table), create=False)
        shown = stages(progress.steps, watch)
        result = {
            "question": "Does a pipeline take a million windows, steadily, in one commit?",
            "options": {**vars(options), "scopes": scopes},
            "windows": planned.windows,
            "facts": planned.facts,
            "memories": opened.count(),
            "plan_wall_s": planned.wall_s,
            "wall_s": summary.wall_s,
            "rows_per_s": round(planned.windows / summary.wall_s, 1),
            "log_mb": round(log.stat().st_size / 1e6, 1),
            "run_folder_mb": round(_size(table / "runs") / 1e6, 1),
            "on_disk_at_most_mb": {
                "object_store": round(progress.spilled_bytes / 1e6, 1),
                "sorting": round(progress.sorting_bytes / 1e6, 1),
            },
            "stages": shown,
            "machine": common.machine("ray", "memorypipe"),
        }
        commits = opened.runs().num_rows
    targets = _targets(
        shown,
        left=options.windows - planned.windows,
        open_windows=planned.windows_failed,
        commits=commits,
    )
    common.finish(result, dict(targets))


def _size(folder: Path, pattern: str = "**/*") -> int:
    return sum(path.stat().st_size for path in folder.glob(pattern) if path.is_file())


if __name__ == "__main__":
    main()
