"""Do two chained stages work at the same time, on a machine with two CPUs?

    python benchmarks/overlap.py [--rows 2000] [--latency-ms 200] [--in-flight 64]
        [--blocks 200] [--num-cpus 2]

A dataset goes through `MemoryExtract`, `MemoryBuildAction` and `ApplyActions`, each model stage
with its own requests in flight, against an endpoint on loopback. Every row needs its first answer
before its second request. The bound that no client can beat: the rows of one stage at full
concurrency, and one more latency for the last row's second request. Stages one after the other
take at least twice the rows' part.

The peer is the bare client library, which sends the second request of a row as soon as the first
is answered, with one semaphore per stage; it sends the bodies that the server recorded. There is
no randomness in it. Prints one JSON object.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from ray.data.expressions import col

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import common  # the checkout comes first
from memorypipe import ApplyActions, MemoryBuildAction, MemoryExtract
from tests.support.endpoint import Endpoint, endpoint


def chain(dataset: Any, server: Endpoint, in_flight: int) -> Any:
    """Add the three columns."""
    model: dict[str, Any] = {"base_url": server.base_url, "model": "test"}
    model["max_concurrency"] = in_flight
    extract = MemoryExtract(**model).options(num_workers={"IO": 1})
    decide = MemoryBuildAction(**model).options(num_workers={"IO": 1})
    facts = extract.with_column(col("messages"), col("context"))
    dataset = dataset.with_column("facts_json", facts)
    actions = decide.with_column(col("facts_json"), col("existing_json"))
    dataset = dataset.with_column("actions_json", actions)
    memories = ApplyActions().with_column(col("existing_json"), col("actions_json"))
    return dataset.with_column("memories_json", memories)


def check(dataset: Any, rows: int) -> None:
    """Check that every row has its own message among its memories."""
    found = dataset.select_columns(["n", "memories_json"]).take_all()
    assert len(found) == rows, "rows in are rows out"
    for row in found:
        _, added = json.loads(row["memories_json"])
        assert common.row_number(added) == row["n"], "an answer stands in its own row"


def by_stage(calls: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Split the server's records into extractions and decisions, each in row order."""
    ordered = sorted(calls, key=lambda call: common.row_number(call["body"]["messages"][-1]))
    decides = ["<facts-" in call["body"]["messages"][-1]["content"] for call in ordered]
    pairs = list(zip(ordered, decides, strict=True))
    return [call for call, is_second in pairs if not is_second], [
        c for c, second in pairs if second
    ]


def times(
    calls: Sequence[dict[str, Any]], rows: int, latency_s: float, in_flight: int
) -> dict[str, Any]:
    """Say when the stages worked, counted from the first request."""
    first, second = by_stage(calls)
    assert len(first) == len(second) == rows, "every row is sent once per stage"
    origin_s = min(call["at_s"] for call in first)
    end_s = max(call["done_s"] for call in second)
    bound_s = rows * latency_s / in_flight + latency_s
    step_s = max(latency_s, (end_s - origin_s) / 40)
    return {
        "second_stage_starts_s": round(min(call["at_s"] for call in second) - origin_s, 2),
        "first_stage_ends_s": round(max(call["done_s"] for call in first) - origin_s, 2),
        "requests_s": round(end_s - origin_s, 2),
        "requests_over_bound": round((end_s - origin_s) / bound_s, 2),
        "in_flight_step_s": round(step_s, 3),
        "in_flight_means": {
            "first": common.in_flight_means(first, step_s),
            "second": common.in_flight_means(second, step_s),
        },
    }


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--latency-ms", type=float, default=200.0)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=200)
    parser.add_argument("--num-cpus", type=int, default=2)
    options = parser.parse_args()
    rows, latency_s, in_flight = options.rows, options.latency_ms / 1e3, options.in_flight
    bound_s = rows * latency_s / in_flight + latency_s
    with endpoint(latency_s=latency_s, lifetime_s=3_600) as server:
        with common.ray_up(num_cpus=options.num_cpus):
            chain(ray.data.from_items(common.make_rows(8)), server, in_flight).materialize()
            server.script(count=0, max_in_flight=0, calls=[])
            dataset = ray.data.from_items(
                common.make_rows(rows), override_num_blocks=options.blocks
            )
            dataset = dataset.materialize()
            started_s = time.monotonic()
            done = chain(dataset, server, in_flight).materialize()
            wall_s = time.monotonic() - started_s
            check(done, rows)
        calls = server.calls()
        ours: dict[str, Any] = {
            "wall_s": round(wall_s, 2),
            "wall_over_bound": round(wall_s / bound_s, 2),
            "first_request_after_s": round(min(c["at_s"] for c in calls) - started_s, 2),
            **times(calls, rows, latency_s, in_flight),
        }
        chains = [[one["body"], two["body"]] for one, two in zip(*by_stage(calls), strict=True)]
        server.script(count=0, max_in_flight=0, calls=[])
        bare = common.peer("openai", base_url=server.base_url, chains=chains, in_flight=in_flight)
        assert bare["answered"] == 2 * rows, "the peer has an answer to every request"
        bare |= times(server.calls(), rows, latency_s, in_flight)
    result = {
        "rows": rows,
        "latency_ms": options.latency_ms,
        "in_flight_per_stage": in_flight,
        "blocks": options.blocks,
        "num_cpus": options.num_cpus,
        "bound_s": round(bound_s, 2),
        "ours": ours,
        "peers": {"openai": bare},
        "machine": common.machine("ray", "openai"),
    }
    second_over_first = ours["second_stage_starts_s"] / ours["first_stage_ends_s"]
    target = common.Target(value=round(second_over_first, 2), at_most=0.5)
    common.finish(result, {"second_starts_over_first_ends": target})


if __name__ == "__main__":
    main()
