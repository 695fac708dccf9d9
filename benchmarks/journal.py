"""What does a reply journal cost a worker: at its start, per look-up, per reply, on disk?

Start: a folder of segments with indexes is opened in a fresh process. The indexes are real (sorted
random keys, sixteen bytes a reply); of the segments only the size is (sparse files), since an
opener reads nothing of what an index covers. Beside it stands the physical limit: reading the
same index files once, from the page cache.

Per reply: `put` and `get` of replies of some 400 bytes through one handle, in CPU time, beside
the bare `os.write` of the same lines; the replies are checked. `journal_key` is timed for a request
of the extraction with 30 turns.

Run: ``python benchmarks/journal.py --replies 5000000 --out journal.json``
"""

import argparse
import asyncio
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from memorypipe import MemoryExtract
from memorypipe.llm.journal.index import Covered, Run, write_index
from memorypipe.llm.journal.keys import journal_key
from memorypipe.llm.journal.lines import encode_line
from memorypipe.llm.journal.local import LocalJournal
from memorypipe.llm.types import ExtractTask, Reply, Turn

LINE_BYTES = 600
REPLIES_PER_SEGMENT = 64 * 1024 * 1024 // LINE_BYTES

OPENER = """
import json, resource, sys, time
from pathlib import Path
from memorypipe.llm.journal.local import LocalJournal
before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
cpu, wall = time.process_time(), time.perf_counter()
journal = LocalJournal(Path(sys.argv[1]))
took = {"open_cpu_s": time.process_time() - cpu, "open_wall_s": time.perf_counter() - wall}
after_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
misses = [f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}" for number in range(20000)]
find = journal._catalog.places.find
cpu = time.process_time()
for half in misses:
    assert not list(find(half + "0" * 16))
took["look_up_us"] = (time.process_time() - cpu) / len(misses) * 1e6
took |= {"known": journal.stats.known, "mapped": len(journal._catalog.mapped)}
took |= {"memory_mb": (after_kb - before_kb) / 1024}
print(json.dumps(took))
"""


def make_folder(folder: Path, replies: int, seed: int) -> int:
    """Make segments with indexes; gives the size of the indexes."""
    rng = np.random.default_rng(seed)
    size_bytes = 0
    for number in range(-(-replies // REPLIES_PER_SEGMENT)):
        count = min(REPLIES_PER_SEGMENT, replies - number * REPLIES_PER_SEGMENT)
        name = f"w{number}.jsonl"
        with (folder / name).open("wb") as segment:
            segment.truncate(count * LINE_BYTES)
        covered = Covered(
            name=name, size_bytes=count * LINE_BYTES, usable=count, unusable=0, unreadable=0
        )
        halves = np.sort(rng.integers(0, 2**64 - 1, count, dtype=np.uint64))
        places = rng.permutation(count).astype(np.uint64) * np.uint64(LINE_BYTES)
        index = folder / f"w{number}.idx"
        write_index(index, [covered], Run(halves=halves, places=places))
        size_bytes += index.stat().st_size
    return size_bytes


def opened(folder: Path) -> dict[str, Any]:
    """Open a folder in a fresh process."""
    command = [sys.executable, "-c", OPENER, str(folder)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603  # ours
    values: dict[str, Any] = json.loads(output)
    return {name: round(value, 3) for name, value in values.items()}


def read_once_s(folder: Path) -> float:
    """Read all index files, as the least that a start without mapping takes."""
    begin = time.process_time()
    for path in folder.glob("*.idx"):
        path.read_bytes()
    return time.process_time() - begin


def start_cost(replies: int, seed: int) -> dict[str, Any]:
    """Measure the first and the second opening of a journal of so many replies."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        index_bytes = make_folder(folder, replies, seed)
        limit_s = read_once_s(folder)
        first, second = opened(folder), opened(folder)
        assert first["known"] == second["known"] == replies
        return {
            "replies": replies,
            "index_bytes_per_reply": round(index_bytes / replies, 2),
            "read_indexes_cpu_s": round(limit_s, 3),
            "first": first,
            "second": second,
        }


def per_reply(count: int) -> dict[str, Any]:
    """Time `put` and `get` through one handle."""
    reply = Reply(content="x" * 400, prompt_tokens=900, completion_tokens=90, model="model-1")
    keys = [f"{number * 0x9E3779B97F4A7C15 % 2**64:032x}"[::-1] for number in range(count)]
    with tempfile.TemporaryDirectory() as name:
        journal = LocalJournal(Path(name) / "journal")

        async def put() -> None:
            for key in keys:
                await journal.put(key, reply, usable=True)

        async def get() -> None:
            for key in keys:
                assert await journal.get(key) == reply

        put_us = timed_us(lambda: asyncio.run(put()), count)
        get_us = timed_us(lambda: asyncio.run(get()), count)
        journal.close()
        size_bytes = journal.stats.size_bytes
        journal = LocalJournal(Path(name) / "journal")
        assert journal.stats.known == count
        indexed_get_us = timed_us(lambda: asyncio.run(get()), count)
        lines = [encode_line(key, reply, usable=True, scope_key=None) for key in keys]
        fd = os.open(Path(name) / "bare", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        write_us = timed_us(lambda: [os.write(fd, line) for line in lines], count)
        os.close(fd)
    return {
        "replies": count,
        "put_cpu_us": put_us,
        "bare_write_cpu_us": write_us,
        "get_cpu_us": get_us,
        "get_by_index_cpu_us": indexed_get_us,
        "bytes_per_reply": round(size_bytes / count, 1),
    }


def key_cost(rounds: int) -> dict[str, Any]:
    """Time `journal_key` for a request of the extraction."""
    said = "I planted two apple trees with my brother Oskar, then we had tea in the garden. " * 2
    turns = [
        Turn(role=("user", "assistant")[number % 2], content=said + str(number))
        for number in range(30)
    ]
    extract = MemoryExtract(model="m", base_url="http://localhost:1/v1", temperature=0)
    request = extract.stage.request(ExtractTask(turns=turns))
    params = {**request.params, **extract.spec.params}

    def work() -> None:
        for _ in range(rounds):
            journal_key("e", "m", params, request.messages)

    characters = sum(len(str(message["content"])) for message in request.messages)
    return {"request_characters": characters, "key_cpu_us": timed_us(work, rounds)}


def timed_us(work: Callable[[], object], count: int) -> float:
    """Give the CPU time of one of `count` in microseconds."""
    begin = time.process_time()
    work()
    return round((time.process_time() - begin) / count * 1e6, 2)


def main() -> None:
    """Run the benchmark and write its result as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replies", type=int, nargs="+", default=[5_000_000])
    parser.add_argument("--puts", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, help="a file for the JSON; default standard output")
    options = parser.parse_args()
    result = {
        "start": [start_cost(replies, options.seed) for replies in options.replies],
        "per_reply": per_reply(options.puts),
        "key": key_cost(5_000),
        "seed": options.seed,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "orjson": orjson.__version__,
        "machine": platform.machine(),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    text = json.dumps(result, indent=2)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
