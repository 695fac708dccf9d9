"""How fast do events come in, and how fast is what is due found among many streams?

Command::

    python benchmarks/streams.py --streams 100000 --events 1000000 > streams.json

Events go round robin into a tenth of `--streams` first, with a tenth of `--events`, then, in
another folder, into all: in batches of 100 requests of one event each, and at the end some one by
one. Each stream has a rule of one event more than it has, and 1,000 streams get that one. Then a
process that knows nothing yet opens the streams and looks for what is due, and once more with all
at hand; then it flushes, with a generation that does nothing, so that all that is measured is
ours. A tenth of the events comes a second time at the end: none of them may be taken.

Reported are events per second of the clock and of the processor, how long one `fsync` of a small
file takes there (each commit makes two, and the name of a file adds one), and how the times grow
from the small size to the large one. A commit's processor time must grow less than twofold, and
finding what is due less than tenfold, as its streams do.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.common import Target, finish, machine  # the checkout comes first
from memorypipe.streams.generation import Generated, Generation
from memorypipe.streams.streams import EventStreams

BATCH = 100


def request(number: int, streams: int, limit: int) -> dict[str, Any]:
    """Make a request of one event."""
    stream = number % streams
    text = f"Event {number}: I bought item {number % 977} and liked it more than the last one."
    event = {
        "content": {"role": "user", "parts": [{"text": text}]},
        "event_id": f"e{number}",
    }
    return {
        "scope": {"user_id": f"u{stream}"},
        "direct_contents_source": {"events": [event]},
        "generation_trigger_config": {"generation_rule": {"event_count": limit}},
    }


def batches(first: int, count: int, streams: int, limit: int) -> Iterator[list[dict[str, Any]]]:
    """Make requests, so many at a time."""
    for start in range(first, first + count, BATCH):
        numbers = range(start, min(start + BATCH, first + count))
        yield [request(number, streams, limit) for number in numbers]


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Do something; give its result, and its seconds of the clock and of the processor."""
    wall, cpu = time.perf_counter(), time.process_time()
    value = work()
    return value, {
        "wall_s": round(time.perf_counter() - wall, 4),
        "cpu_s": round(time.process_time() - cpu, 4),
    }


def rates(seconds: dict[str, float], events: int) -> dict[str, float]:
    """Give events per second."""
    return {
        **seconds,
        "events": events,
        "per_wall_s": round(events / seconds["wall_s"], 1),
        "per_cpu_s": round(events / max(seconds["cpu_s"], 1e-9), 1),
    }


def fsync_ms(folder: str) -> float:
    """Measure one `fsync` of a small file."""
    times = []
    for number in range(20):
        path = Path(folder) / f"sync-{number}"
        with path.open("wb") as file:
            file.write(b"x" * 500)
            file.flush()
            start = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - start)
    return round(sorted(times)[10] * 1000, 3)


def measure(folder: str, streams: int, events: int, single: int, due: int) -> dict[str, Any]:
    """Measure one size."""
    limit = events // streams + 1
    opened = EventStreams(folder)
    taken = [0]

    def ingest() -> None:
        for batch in batches(0, events, streams, limit):
            taken[0] += opened.ingest_batch(batch).new

    _, ingesting = timed(ingest)
    assert taken[0] == events

    def one_by_one() -> None:
        for number in range(events, events + single):
            opened.ingest_events(**request(number, streams, limit))

    _, singly = timed(one_by_one)
    rest = due - single
    for batch in batches(events + single, rest, streams, limit):
        opened.ingest_batch(batch)

    def again() -> int:
        return sum(opened.ingest_batch(b).new for b in batches(0, events // 10, streams, limit))

    repeated, repeating = timed(again)
    assert repeated == 0

    made = [0]

    def nothing(generation: Generation) -> dict[bytes, Generated]:
        made[0] += sum(len(batch.messages) for batch in generation.batches)
        return {}

    flusher = EventStreams(folder, pipeline=nothing)
    cold_found, cold = timed(flusher.due)
    warm_found, warm = timed(flusher.due)
    assert len(cold_found) == len(warm_found) == due
    report, flushing = timed(flusher.flush)
    assert len(report.streams) == due
    assert report.evaluated == streams
    assert made[0] == due * limit
    assert not flusher.due()
    size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    return {
        "streams": streams,
        "batches_of_100": rates(ingesting, events),
        "one_by_one": rates(singly, single),
        "repeated": rates(repeating, events // 10),
        "due_cold": cold,
        "due_warm": warm,
        "flush_of_due": {**flushing, "due": due, "events": made[0]},
        "size_mb": round(size / 1e6, 1),
        "fsync_ms": fsync_ms(folder),
    }


def main() -> None:
    """Read the command line and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--streams", type=int, default=2_000)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--single", type=int, default=100, help="events ingested one by one")
    parser.add_argument("--due", type=int, default=200, help="streams that are due")
    parser.add_argument("--folder", help="where to measure; else the folder for temporary files")
    options = parser.parse_args()
    sizes = [(options.streams // 10, options.events // 10), (options.streams, options.events)]
    results = []
    for streams, events in sizes:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            due = min(options.due, streams)
            results.append(measure(folder, streams, events, min(options.single, due), due))
            print(results[-1], file=sys.stderr)
    small, large = results

    def growth(name: str, figure: str) -> float:
        return round(float(large[name][figure]) / max(float(small[name][figure]), 1e-9), 2)

    finish(
        {"sizes": results, "machine": machine("pyarrow", "numpy")},
        {
            "processor time of an event in a batch, large over small": Target(
                value=round(1 / growth("batches_of_100", "per_cpu_s"), 2), at_most=2
            ),
            "finding what is due, large over small": Target(
                value=growth("due_warm", "wall_s"), at_most=10
            ),
        },
    )


if __name__ == "__main__":
    main()
