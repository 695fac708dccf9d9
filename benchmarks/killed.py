"""How many calls does a run pay for that was killed at half and started again?

    python benchmarks/killed.py [--rows 2000] [--latency-ms 200] [--in-flight 64] [--blocks 50]

A driver in a process of its own materialises a dataset with one `MemoryExtract` column that has a
journal, against an endpoint on loopback. When half of the requests have arrived, it is killed
(`kill -9`), and the same driver is started again at once. All calls of both runs together must be
at most the rows plus what was in flight, and the second result must equal that of a run that was
never disturbed. The cases:

* `driver`: the driver has a Ray of its own, which ends with it;
* `driver_on_cluster`: Ray stands in another process, so that the workers of the dead driver live
  on for a while, and the second driver is there sooner;
* `worker`: the process of the worker is killed, the driver lives and finishes;
* `without_journal`: as `driver`, as a reference: what a client pays that remembers nothing.

The least number of calls is the number of rows. There is no randomness in it, except for the
moment of the kill. Prints one JSON object.
"""

import argparse
import contextlib
import functools
import itertools
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import common  # the checkout comes first
from tests.support.endpoint import Endpoint, endpoint

# Far longer than any start of Ray; a driver that takes longer is stuck.
LONGEST_S = 600.0


def drive(job: Mapping[str, Any]) -> None:
    """Run the dataset and write its cells in row order; this is the process that gets killed."""
    import ray  # noqa: PLC0415  # the parent needs no Ray
    from ray.data.expressions import col  # noqa: PLC0415  # as above

    from memorypipe import MemoryExtract  # noqa: PLC0415  # as above

    with common.ray_up(address=job["address"]):
        expression = MemoryExtract(
            base_url=job["base_url"],
            model="test",
            max_concurrency=job["in_flight"],
            journal=job["journal"],
        ).options(num_workers={"IO": 1})
        cells = expression.with_column(col("messages"), col("context"))
        rows = ray.data.from_items(common.make_rows(job["rows"]), override_num_blocks=job["blocks"])
        found = rows.with_column("cell", cells).select_columns(["n", "cell"]).take_all()
    found.sort(key=lambda row: int(row["n"]))
    Path(job["out"]).write_bytes(orjson.dumps(found))


def stand() -> None:
    """Hold a Ray cluster until the standard input closes."""
    import ray  # noqa: PLC0415  # the parent needs no Ray

    with common.ray_up():
        print(ray.get_runtime_context().gcs_address, flush=True)
        sys.stdin.read()


@functools.cache
def environment() -> dict[str, str]:
    """Give the environment of all Ray processes: a cluster takes drivers with its token only."""
    return {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


@contextlib.contextmanager
def standing_cluster() -> Iterator[str]:
    """Run a cluster in a process of its own; give its address."""
    with subprocess.Popen(  # noqa: S603  # our own script
        [sys.executable, __file__, "--stand"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as head:
        assert head.stdout is not None
        assert head.stdin is not None
        yield head.stdout.readline().strip()
        head.stdin.close()


def start(job: Mapping[str, Any]) -> "subprocess.Popen[bytes]":
    """Start a driver."""
    command = [sys.executable, __file__, "--drive", json.dumps(job)]
    # Ray prints about dead workers; the standard output of the benchmark is for its result.
    return subprocess.Popen(command, env=environment(), stdout=sys.stderr)  # noqa: S603  # our own


def finish(driver: "subprocess.Popen[bytes]", job: Mapping[str, Any]) -> list[Any]:
    """Wait for a driver, and give the cells that it wrote."""
    assert driver.wait(LONGEST_S) == 0, "the driver ends well"
    found: list[Any] = orjson.loads(Path(job["out"]).read_bytes())
    assert len(found) == job["rows"], "rows in are rows out"
    return found


def wait_for_half(
    server: Endpoint, driver: "subprocess.Popen[bytes]", job: Mapping[str, Any]
) -> None:
    """Wait until half of the requests have arrived."""
    half = job["rows"] // 2
    ready = common.wait_until(
        lambda: server.call_count() >= half or driver.poll() is not None, within_s=LONGEST_S
    )
    assert ready, "half of the requests come in time"
    assert driver.poll() is None, "the driver still runs at half"


def kill_driver(server: Endpoint, job: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Kill the driver at half and start it again at once."""
    driver = start(job)
    wait_for_half(server, driver, job)
    driver.kill()
    driver.wait()
    killed_s, killed_calls = time.monotonic(), server.call_count()
    cells = finish(start(job), job)
    return {"calls_at_kill": killed_calls} | after_kill(server, killed_s), cells


def kill_worker(server: Endpoint, job: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Kill the worker at half; the driver goes on."""
    driver = start(job)
    wait_for_half(server, driver, job)
    workers = common.map_workers(psutil.Process(driver.pid))
    assert workers, "the worker was found"
    for worker in workers:
        worker.kill()
    killed_s, killed_calls = time.monotonic(), server.call_count()
    cells = finish(driver, job)
    return {"calls_at_kill": killed_calls} | after_kill(server, killed_s), cells


def after_kill(server: Endpoint, killed_s: float) -> dict[str, Any]:
    """Say what the server saw, and the longest silence after the kill."""
    calls = server.calls()
    later = sorted(call["at_s"] for call in calls if call["at_s"] > killed_s)
    at = [killed_s, *later]
    silences = [two - one for one, two in itertools.pairwise(at)]
    times_sent = Counter(orjson.dumps(call["body"]) for call in calls)
    resumed = at.index(later[silences.index(max(silences))]) if silences else 0
    return {
        "calls": len(calls),
        "sent_again": len(calls) - len(times_sent),
        "calls_before_resuming": max(resumed - 1, 0),
        "longest_silence_s": round(max(silences, default=0.0), 2),
    }


def measure(
    server: Endpoint, name: str, job: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Any]]:
    """Run one case."""
    server.script(count=0, max_in_flight=0, calls=[])
    started_s = time.monotonic()
    if name == "undisturbed":
        cells = finish(start(job), job)
        result = {"calls": server.call_count()}
    elif name == "worker":
        result, cells = kill_worker(server, job)
    elif name == "driver_on_cluster":
        with standing_cluster() as address:
            result, cells = kill_driver(server, {**job, "address": address})
    else:
        result, cells = kill_driver(server, job)
    return {**result, "wall_s": round(time.monotonic() - started_s, 1)}, cells


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--latency-ms", type=float, default=200.0)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=50)
    parser.add_argument("--drive", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--stand", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.drive is not None:
        drive(options.drive)
        return
    if options.stand:
        stand()
        return
    rows, in_flight = options.rows, options.in_flight
    runs: dict[str, dict[str, Any]] = {}
    cells: dict[str, list[Any]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="killed-") as folder,
        endpoint(latency_s=options.latency_ms / 1e3, lifetime_s=3_600) as server,
    ):
        for name in ("undisturbed", "driver", "driver_on_cluster", "worker", "without_journal"):
            place = Path(folder) / name
            job = {
                "base_url": server.base_url,
                "rows": rows,
                "in_flight": in_flight,
                "blocks": options.blocks,
                "address": None,
                "out": f"{place}.json",
                "journal": None if name == "without_journal" else str(place),
            }
            runs[name], cells[name] = measure(server, name, job)
            print(f"{name}: {runs[name]}", file=sys.stderr)
    assert all(found == cells["undisturbed"] for found in cells.values()), "a kill changes no cell"
    result = {
        "rows": rows,
        "latency_ms": options.latency_ms,
        "in_flight": in_flight,
        "blocks": options.blocks,
        "least_calls": rows,
        "runs": runs,
        "machine": common.machine("ray", "openai"),
    }
    bounded = {
        f"{name}_calls": common.Target(value=runs[name]["calls"], at_most=rows + in_flight)
        for name in ("driver", "driver_on_cluster", "worker")
    }
    common.finish(result, bounded)


if __name__ == "__main__":
    main()
