"""How near is an estimate to the run, in calls, tokens and time?

Starts a local OpenAI-compatible endpoint with a fixed latency (it gives one fact per user turn and
counts four characters as a token), and estimates a log three ways: with what is assumed of a model
when nothing is known, with a calibration, and after it, with what the journal then tells. Then it
runs the plan, and sets beside each number of the run what was estimated, as a ratio.

What the calibration spent is added to what it estimated, since the run takes those replies from
the journal. The time is compared for the run with the calls that were left.

    python benchmarks/estimate.py LOG [--calibrate 40] [--latency-ms 200] [--in-flight 64]

Prints one JSON object: the estimates, the run, the ratios (1.0 is exact), machine.
"""

import argparse
import contextlib
import json
import logging
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import ray

sys.path.insert(0, str(Path(__file__).parents[1]))

from memorypipe import MemoryBuildAction, MemoryExtract, MemoryPipeline  # the checkout comes first
from memorypipe.cli.ray_session import ray_session
from tests.support.endpoint import endpoint  # as above

NUMBERS = ("calls", "tokens_in", "tokens_out", "facts")


def quarters(text: str) -> float:
    """Count as the endpoint does."""
    return len(text) / 4


def timed(estimate: Any) -> dict[str, Any]:
    """Make an estimate; add what it took."""
    started = time.monotonic()
    found: dict[str, Any] = estimate().to_dict()
    return {**found, "estimating_s": round(time.monotonic() - started, 2)}


def ratios(estimate: dict[str, Any], run: dict[str, Any], server_calls: int) -> dict[str, float]:
    """Set an estimate beside the run: all calls and tokens of both, those of calibration too."""
    spent = estimate["spent"]
    whole = {"calls": spent["calls"], **{n: spent[n] for n in ("tokens_in", "tokens_out")}}
    really = {**run, "calls": server_calls}
    found = {
        name: round((estimate[name] + whole.get(name, 0)) / really[name], 3) for name in NUMBERS
    }
    return {**found, "wall_s": round(estimate["wall_s"] / run["wall_s"], 3)}


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log")
    parser.add_argument("--calibrate", type=int, default=40)
    parser.add_argument("--latency-ms", type=float, default=200.0)
    parser.add_argument("--in-flight", type=int, default=64)
    options = parser.parse_args()
    logging.getLogger("memorypipe").setLevel(logging.ERROR)
    with contextlib.ExitStack() as stack:
        # Before Ray, whose workers write to it until they end.
        table = stack.enter_context(tempfile.TemporaryDirectory(prefix="estimate-"))
        stack.enter_context(ray_session(None))
        server = stack.enter_context(endpoint(latency_s=options.latency_ms / 1e3, lifetime_s=3_600))
        model: Any = {"model": "test", "base_url": server.base_url}
        model["max_concurrency"] = options.in_flight
        memories = MemoryPipeline(
            table=table, extract=MemoryExtract(**model), decide=MemoryBuildAction(**model)
        )
        result: dict[str, Any] = {}
        result["assumed"] = timed(lambda: memories.estimate(options.log, count_tokens=quarters))
        assert server.call_count() == 0, "an estimate without calibration sends nothing"
        result["calibrated"] = timed(
            lambda: memories.estimate(
                options.log, calibrate=options.calibrate, count_tokens=quarters
            )
        )
        assert server.call_count() == options.calibrate, "calibration sends so many calls"
        result["own_count"] = timed(lambda: memories.estimate(options.log))
        summary = memories.plan(options.log).summary().to_dict()
        result["run"] = summary
        result["server_calls"] = calls = server.call_count()
        # The run pays for what calibration left; both together are what a log takes.
        spent = result["calibrated"]["spent"]
        whole = {**summary}
        whole["tokens_in"] += spent["tokens_in"]
        whole["tokens_out"] += spent["tokens_out"]
        result["ratios"] = {
            "assumed": ratios(result["assumed"], whole, calls),
            "calibrated": ratios(result["calibrated"], whole, calls),
        }
        result["machine"] = {"python": platform.python_version(), "cpus": psutil.cpu_count()}
        result["ray"] = ray.__version__
    print(json.dumps(result, indent=2, default=str))


if __name__ == "__main__":
    main()
