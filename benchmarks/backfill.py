"""How long does a whole log take through an endpoint, against what the endpoint allows?

Starts a local OpenAI-compatible endpoint with a fixed latency, runs `memorypipe backfill` over a
log twice as a user would, and sets the wall time beside two bounds that no client can beat:

* all calls at the given concurrency: calls times latency, divided by the requests in flight;
* the longest chain: the extraction of a window, then the decision calls of the heaviest scope,
  one after the other.

The second run must make no call and add no row. With `--offline` the rule-based model takes the
endpoint's place, and the bounds are left out.

    python benchmarks/backfill.py LOG [--latency-ms 200] [--in-flight 64] [--offline]

Prints one JSON object: both runs, bounds, ratios, peak memory of the process tree, machine.
"""

import argparse
import contextlib
import json
import platform
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))

from memorypipe import MemoryTable  # the checkout comes first
from tests.support.endpoint import endpoint  # as above


class Peak:
    """Peak memory of a process with all that it started, counting shared pages once."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._done = threading.Event()
        self.bytes = 0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._done.wait(0.25):
            with contextlib.suppress(psutil.Error):
                tree = [self._root, *self._root.children(recursive=True)]
                self.bytes = max(self.bytes, sum(_private_bytes(process) for process in tree))

    def stop(self) -> int:
        """Stop watching and give the peak in bytes."""
        self._done.set()
        self._thread.join()
        return self.bytes


def _private_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:
        return 0


def run(command: list[str]) -> dict[str, Any]:
    """Run a command that prints JSON; add wall time and peak memory."""
    started = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603  # our own command
        peak = Peak(process.pid)
        output = process.stdout.read() if process.stdout else ""
    summary: dict[str, Any] = json.loads(output)
    summary["exit_code"] = process.returncode
    summary["command_wall_s"] = round(time.monotonic() - started, 2)
    summary["peak_mb"] = round(peak.stop() / 1e6)
    return summary


def bounds(table: str, summary: dict[str, Any], latency_s: float, in_flight: int) -> dict[str, Any]:
    """Give the two bounds in seconds."""
    scopes = pq.read_table(Path(table) / "runs" / summary["run_id"] / "scopes.parquet")
    chain = 1 + max(scopes["decision_calls"].to_pylist(), default=0)
    return {
        "calls_s": round(summary["attempts"] * latency_s / in_flight, 2),
        "longest_chain_calls": chain,
        "longest_chain_s": round(chain * latency_s, 2),
    }


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log")
    parser.add_argument("--latency-ms", type=float, default=200.0)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--offline", action="store_true")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        table = stack.enter_context(tempfile.TemporaryDirectory(prefix="backfill-"))
        model = ["--offline"]
        latency_s = options.latency_ms / 1e3
        if not options.offline:
            server = stack.enter_context(endpoint(latency_s=latency_s, lifetime_s=3_600))
            model = ["--base-url", server.base_url, "--model", "test"]
            model += ["--max-concurrency", str(options.in_flight)]
        command = [sys.executable, "-m", "memorypipe", "backfill", options.log]
        command += ["--table", table, "--json", *model]
        first = run(command)
        second = run(command)
        result: dict[str, Any] = {"first": first, "second": second}
        result["memories"] = MemoryTable.open(table, create=False).count()
        if not options.offline:
            limit = bounds(table, first, latency_s, options.in_flight)
            result["bounds"] = limit
            longest = max(limit["calls_s"], limit["longest_chain_s"])
            result["wall_over_bound"] = round(first["wall_s"] / longest, 2)
            result["server_calls"] = server.call_count()
            result["max_in_flight"] = server.max_in_flight()
            assert server.call_count() == first["attempts"], "every call is accounted for"
        assert (second["attempts"], second["added"]) == (0, 0), "a second run does nothing"
        result["machine"] = {"python": platform.python_version(), "cpus": psutil.cpu_count()}
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
