"""Does `max_qps` hold: with one worker, with two that share it, and when one of two is killed?

Run (about two minutes)::

    python benchmarks/pace.py

The endpoint, a process of its own, notes when each request came in. Looked at are 20 seconds from
the first request that came after all workers were up. For each case: requests a second, and the
most in any window of one second, ends included. Right is 49.0 to 50.5 a second, and no window
above 51, `max_qps` + 1.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import threading
from bisect import bisect_right
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.common import (  # the checkout comes first
    machine,
    make_rows,
    map_workers,
    ray_up,
    wait_until,
)
from tests.support.endpoint import Endpoint, endpoint

MAX_QPS = 50.0
SECONDS = 20.0
LATENCY_S = 0.2
# The second worker starts, and the killed one is replaced, while requests go on.
EXTRA_S = 14.0


def main() -> None:
    """Run the three cases and print them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="also write the JSON here")
    options = parser.parse_args()
    # Ray tells of the worker that is killed.
    with contextlib.redirect_stdout(sys.stderr), ray_up():
        cases = {
            "one worker": _case(num_workers=1),
            "two workers": _case(num_workers=2),
            "one of two killed": _case(num_workers=2, kill=True),
        }
    result = {
        "max_qps": MAX_QPS,
        "seconds": SECONDS,
        "cases": cases,
        "holds": all(case["holds"] for case in cases.values()),
        "machine": machine("ray", "aiohttp"),
    }
    text = json.dumps(result, indent=2)
    if options.out is not None:
        options.out.write_text(text + "\n")
    print(text)


def _case(*, num_workers: int, kill: bool = False) -> dict[str, Any]:
    with endpoint(latency_s=LATENCY_S) as server, tempfile.TemporaryDirectory() as folder:
        killer = threading.Thread(target=_kill_one, args=(server,)) if kill else None
        if killer is not None:
            killer.start()
        _run(server, num_workers, folder)
        if killer is not None:
            killer.join()
        times = sorted(call["at_s"] for call in server.calls())
    seen = [at_s for at_s in times if at_s >= times[0] + EXTRA_S / 2]
    seen = [at_s for at_s in seen if at_s < seen[0] + SECONDS]
    rate = len(seen) / SECONDS
    fullest = _fullest_window(times)
    return {
        "requests_per_s": round(rate, 2),
        "fullest_window": fullest,
        "requests": len(times),
        "holds": 0.98 * MAX_QPS <= rate <= 1.01 * MAX_QPS and fullest <= MAX_QPS + 1,
    }


def _run(server: Endpoint, num_workers: int, folder: str) -> None:
    import ray  # noqa: PLC0415  # `ray_up` has started it
    from ray.data.expressions import col  # noqa: PLC0415  # as above

    from memorypipe import MemoryExtract  # noqa: PLC0415  # as above

    # Each worker has half of the rows; the one that is left must not run out of them.
    count = int(MAX_QPS * (SECONDS + EXTRA_S * (1 if num_workers == 1 else 2)))
    extract = MemoryExtract(
        base_url=server.base_url,
        model="m",
        max_qps=MAX_QPS,
        rate_scope="cluster" if num_workers > 1 else "worker",
        # What the killed worker had been told already is not asked again.
        journal=folder,
    ).options(num_workers={"IO": num_workers})
    rows = ray.data.from_items(make_rows(count), override_num_blocks=count // 20)
    answered = rows.with_column(
        "facts_json", extract.with_column(col("messages"), col("context"))
    ).materialize()
    assert answered.count() == count
    assert all(row["facts_json"] is not None for row in answered.iter_rows())


def _kill_one(server: Endpoint) -> None:
    """Kill a worker with -9 in the middle of what is looked at."""
    first = int(MAX_QPS * (EXTRA_S / 2 + SECONDS / 2))
    assert wait_until(lambda: server.call_count() >= first, within_s=120, every_s=0.1)
    workers = map_workers()
    assert len(workers) == 2, "both workers are there"  # noqa: PLR2004  # two were asked for
    os.kill(workers[0].pid, signal.SIGKILL)


def _fullest_window(times: list[float]) -> int:
    return max(bisect_right(times, first + 1.0) - place for place, first in enumerate(times))


if __name__ == "__main__":
    main()
