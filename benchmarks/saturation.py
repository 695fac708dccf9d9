"""Does one worker keep the endpoint full, and what bounds it where it does not?

    python benchmarks/saturation.py [--rows 2000] [--latency-ms 200] [--in-flight 64]
        [--many 256] [--ray-llm-rows 60] [--daft-python /path/to/venv/bin/python]

A dataset with one `MemoryExtract` column is materialised by one worker, against an endpoint on
loopback with a fixed latency. Each cell has a Ray session of its own, which is up and has run
another dataset before; the worker is new. `worker_process_after_s` says when Ray started a process
for it (negative where one was there); about a second of what follows is Ray's own imports. The
cells: the default number of requests in flight over one block and over 200, then `--many` in
flight, then an endpoint that answers at once; the last two take four times the rows.

* Wall time of `materialize()` over the bound that no client can beat: rows times latency, divided
  by the requests in flight.
* Steady state, from the server's records: requests per second between the moment the first
  `in_flight` requests have arrived and the moment the last one arrives, over `in_flight / latency`.
* CPU per row of worker, driver and endpoint in the steady state, and the rates that it allows: one
  Python process runs on one CPU at a time, and all of them share the CPUs of the machine.

Peers send the bodies that the server recorded; their wall time begins after their start-up, ours
contains the start of the worker (`first_request_after_s`). They are the bare transport, which
shows what endpoint and machine give to anybody (`steady_over_bare`), the openai client library,
Ray's own HTTP processor (two actors, few rows, since each sends one request after another) and
Daft's `prompt` (in a virtual environment of its own: ``pip install "daft[openai]"``). There is no
randomness in it. Prints one JSON object.
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.data.expressions import col

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import common  # the checkout comes first
from memorypipe import MemoryExtract
from tests.support.endpoint import Endpoint, endpoint

# What the cells with the default number in flight have to reach.
OF_THE_BOUND = {"steady_over_ideal": {"at_least": 0.97}, "wall_over_bound": {"at_most": 1.25}}

# Rows of the cells with many requests a second, times the rows of the others.
MORE_ROWS = 4


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One setting.

    Attributes:
        rows: How many.
        latency_s: Of the endpoint.
        in_flight: Requests at one time.
        blocks: How many blocks the dataset is in.
    """

    rows: int
    latency_s: float
    in_flight: int
    blocks: int

    @property
    def bound_s(self) -> float:
        """The wall time that no client can beat."""
        return self.rows * self.latency_s / self.in_flight


def extract(dataset: Any, server: Endpoint, cell: Cell, model: str = "test") -> Any:
    """Add the column."""
    expression = MemoryExtract(
        base_url=server.base_url, model=model, max_concurrency=cell.in_flight
    ).options(num_workers={"IO": 1})
    return dataset.with_column(
        "facts_json", expression.with_column(col("messages"), col("context"))
    )


def warm_up(server: Endpoint, cell: Cell) -> None:
    """Run another dataset through another worker, so that Ray has started what it needs once."""
    extract(ray.data.from_items(common.make_rows(8)), server, cell, model="warm-up").materialize()


def check(dataset: Any, rows: int) -> None:
    """Check that every row has the answer to its own message."""
    found = dataset.select_columns(["n", "facts_json"]).take_all()
    assert len(found) == rows, "rows in are rows out"
    for row in found:
        (memory,) = json.loads(row["facts_json"])["memories"]
        assert common.row_number(memory) == row["n"], "an answer stands in its own row"


def cpu(watch: common.Watch, begin_s: float, end_s: float, per_s: float) -> dict[str, Any]:
    """Give the CPU per row in the steady state, and the rows per second that it allows."""
    spent = common.per_row_ms(watch, begin_s, end_s, per_s * (end_s - begin_s))
    busiest = max(spent, key=lambda role: spent[role])
    num_cpus = psutil.cpu_count() or 1
    return {
        "steady_cpu_ms_per_row": spent,
        "cpu_bound_per_s": {
            f"one_cpu_for_{busiest}": round(1e3 / spent[busiest], 1),
            f"{num_cpus}_cpus_for_all": round(num_cpus * 1e3 / sum(spent.values()), 1),
        },
    }


def measure(server: Endpoint, cell: Cell) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Measure us in one cell; give the request bodies too."""
    server.script(latency_s=cell.latency_s, count=0, max_in_flight=0, calls=[])
    rows = common.make_rows(cell.rows)
    dataset: Any = ray.data.from_items(rows, override_num_blocks=cell.blocks).materialize()
    with common.Watch() as watch:
        started_s, began_s = time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME)
        done = extract(dataset, server, cell).materialize()
        wall_s = time.monotonic() - started_s
    check(done, cell.rows)
    calls = server.calls()
    assert len(calls) == cell.rows, "every row is sent once"
    begin_s, end_s, per_s = common.steady(calls, cell.in_flight)
    result = {
        "rows": cell.rows,
        "latency_ms": cell.latency_s * 1e3,
        "in_flight": cell.in_flight,
        "blocks": dataset.num_blocks(),
        "wall_s": round(wall_s, 2),
        "rows_per_s": round(cell.rows / wall_s, 1),
        "worker_process_after_s": round(watch.born_s("worker") - began_s, 2),
        "first_request_after_s": round(min(call["at_s"] for call in calls) - started_s, 2),
        "after_last_answer_s": round(started_s + wall_s - max(call["done_s"] for call in calls), 2),
        "max_in_flight": server.max_in_flight(),
        "steady_requests_per_s": round(per_s, 1),
        **cpu(watch, begin_s, end_s, per_s),
        "whole_cpu_ms_per_row": common.per_row_ms(watch, started_s, started_s + wall_s, cell.rows),
    }
    if cell.latency_s:
        step_s = max(cell.latency_s, (end_s - begin_s) / 40)
        result["bound_s"] = round(cell.bound_s, 2)
        result["wall_over_bound"] = round(wall_s / cell.bound_s, 2)
        result["steady_over_ideal"] = round(per_s * cell.latency_s / cell.in_flight, 3)
        result["in_flight_step_s"] = round(step_s, 3)
        result["in_flight_means"] = common.in_flight_means(calls, step_s)
    return result, [call["body"] for call in calls]


# It has no cap: all rows are in flight at once, and with 2,000 of them it does not come to an end.
DAFT_ROWS = 500


def measure_peer(
    server: Endpoint, name: str, cell: Cell, bodies: list[dict[str, Any]], **how: Any
) -> dict[str, Any]:
    """Measure a peer in a cell, from the server's records like us."""
    server.script(latency_s=cell.latency_s, count=0, max_in_flight=0, calls=[])
    chains = [[body] for body in bodies]
    with common.Watch() as watch:
        answer = common.peer(
            name, base_url=server.base_url, chains=chains, in_flight=cell.in_flight, **how
        )
    assert answer["answered"] == len(bodies), f"{name} has an answer to every request"
    answer["rows"] = len(bodies)
    answer["rows_per_s"] = round(len(bodies) / answer["wall_s"], 1)
    answer["max_in_flight"] = server.max_in_flight()
    if len(bodies) > max(cell.in_flight, answer["max_in_flight"]):
        begin_s, end_s, per_s = common.steady(server.calls(), cell.in_flight)
        answer["steady_requests_per_s"] = round(per_s, 1)
        answer |= cpu(watch, begin_s, end_s, per_s)
    return answer


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--latency-ms", type=float, default=200.0)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--many", type=int, default=256, help="in flight, in the third cell")
    parser.add_argument("--ray-llm-rows", type=int, default=60)
    parser.add_argument("--daft-python", help="python of an environment that has daft[openai]")
    options = parser.parse_args()
    rows, latency_s, in_flight = options.rows, options.latency_ms / 1e3, options.in_flight
    cells = {
        "one_block": Cell(rows=rows, latency_s=latency_s, in_flight=in_flight, blocks=1),
        "blocks_200": Cell(rows=rows, latency_s=latency_s, in_flight=in_flight, blocks=200),
        "many_in_flight": Cell(
            rows=MORE_ROWS * rows, latency_s=latency_s, in_flight=options.many, blocks=200
        ),
        "answers_at_once": Cell(
            rows=MORE_ROWS * rows, latency_s=0.0, in_flight=in_flight, blocks=200
        ),
    }
    bodies: dict[str, list[dict[str, Any]]] = {}
    ours: dict[str, Any] = {}
    peers: dict[str, Any] = {}
    with endpoint(lifetime_s=3_600) as server:
        for name, cell in cells.items():
            with common.ray_up():
                warm_up(server, cell)
                ours[name], bodies[name] = measure(server, cell)
        for name in ("blocks_200", "many_in_flight", "answers_at_once"):
            peers[name] = {
                peer: measure_peer(server, peer, cells[name], bodies[name])
                for peer in ("aiohttp", "openai")
            }
            bare_per_s = peers[name]["aiohttp"]["steady_requests_per_s"]
            ours[name]["steady_over_bare"] = round(
                ours[name]["steady_requests_per_s"] / bare_per_s, 3
            )
        cell, sent = cells["blocks_200"], bodies["blocks_200"]
        few = sent[: options.ray_llm_rows]
        peers["blocks_200"]["ray_llm"] = measure_peer(server, "ray_llm", cell, few)
        peers["blocks_200"]["daft"] = "not measured: no --daft-python given"
        if options.daft_python:
            peers["blocks_200"]["daft"] = measure_peer(
                server, "daft", cell, sent[:DAFT_ROWS], python=options.daft_python
            )
    result = {"ours": ours, "peers": peers, "machine": common.machine("ray", "openai", "aiohttp")}
    many, at_once = ours["many_in_flight"], ours["answers_at_once"]
    common.finish(
        result,
        {
            "many_in_flight_per_s": common.Target(
                value=many["steady_requests_per_s"], at_least=700.0
            ),
            "answers_at_once_per_s": common.Target(
                value=at_once["steady_requests_per_s"], at_least=800.0
            ),
            **{
                f"{name}_{figure}": common.Target(value=ours[name][figure], **bound)
                for name in ("one_block", "blocks_200")
                for figure, bound in OF_THE_BOUND.items()
            },
        },
    )


if __name__ == "__main__":
    main()
