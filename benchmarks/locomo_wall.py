"""How long does a log of long conversations take through an endpoint, beside a plain `add` loop?

    python benchmarks/locomo_wall.py LOG [--latency-ms 200] [--in-flight 64] [--pairs 150]
        [--every-turn]

`LOG` is any log that `read_conversations` reads, LoCoMo for one. A local endpoint answers after a
fixed latency, with a fact for every second user turn (`--every-turn`: for each; models find fewer
in small talk than either), and adds every fact. The log is planned and applied, and
the wall time set beside what no client can beat: the larger of all calls times latency by the
requests in flight, and the longest chain, which is the extraction of a window and then the
decision calls of the heaviest scope.

The plain loop makes the calls of a memory layer that takes a pair of turns at a time: one
extraction and one decision about its facts and ten memories, one after the other, through the
client library in a process of its own. It takes `--pairs` pairs; wall time and calls for the
whole log are those of so many times as many pairs. There is no randomness.

Targets: wall time at most 1.3 times the bound, at most 2 calls per window on average. Prints one
JSON object.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import common  # the checkout comes first
from memorypipe import MemoryBuildAction, MemoryExtract, MemoryPipeline, read_conversations
from tests.support.endpoint import DEFAULT_RESPONDER, Endpoint, endpoint

_SEEN = 10
_HALF = "tests.support.responders:answer_half"


def turn_pairs(conversations: pa.Table) -> Iterator[list[dict[str, Any]]]:
    """Give the turns of all conversations, two at a time."""
    for row in conversations.to_pylist():
        turns = [turn for turn in row["messages"] if turn["role"] != "system"]
        for start in range(0, len(turns), 2):
            yield turns[start : start + 2]


def loop_bodies(pairs: list[list[dict[str, Any]]], *, every_turn: bool) -> list[dict[str, Any]]:
    """Give the requests of a plain loop, one after the other."""
    model: dict[str, Any] = {"base_url": "http://127.0.0.1:1/v1", "model": "test"}
    extract, decide = MemoryExtract(**model), MemoryBuildAction(**model)
    known: list[dict[str, str]] = []
    bodies: list[dict[str, Any]] = []
    for pair in pairs:
        said = [f"[{turn['role']}]: {turn['content']}" for turn in pair]
        texts = [turn["content"] for turn in pair if turn["role"] == "user"]
        texts = texts if every_turn else texts[:1]
        facts = json.dumps({"memories": [{"text": text} for text in texts]})
        seen = json.dumps(known[-_SEEN:])
        asked = (*extract.requests(["\n".join(said)]), *decide.requests([facts], [seen]))
        bodies += [{"model": "test", "messages": list(each.messages)} for each in asked if each]
        known += [{"id": f"m_{len(known) + n}", "text": text} for n, text in enumerate(texts)]
    return bodies


def run(log: str, server: Endpoint, in_flight: int) -> dict[str, Any]:
    """Plan and apply a log; give what it took."""
    with tempfile.TemporaryDirectory(prefix="wall-") as table:
        model: dict[str, Any] = {"base_url": server.base_url, "model": "test"}
        model["max_concurrency"] = in_flight
        pipeline = MemoryPipeline(
            table=table, extract=MemoryExtract(**model), decide=MemoryBuildAction(**model)
        )
        started_s = time.monotonic()
        summary = pipeline.run(log)
        wall_s = time.monotonic() - started_s
        scopes = pq.read_table(Path(table) / "runs" / summary.run_id / "scopes.parquet")
    chains = scopes["decision_calls"].to_pylist()
    return {
        "wall_s": round(wall_s, 2),
        "windows": summary.windows,
        "scopes": len(chains),
        "facts": summary.facts,
        "calls": server.call_count(),
        "longest_chain": 1 + max(chains, default=0),
        "max_in_flight": server.max_in_flight(),
        "in_flight": common.in_flight_means(server.calls(), 0.5),
    }


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log")
    parser.add_argument("--latency-ms", type=float, default=200.0)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=150)
    parser.add_argument("--every-turn", action="store_true", help="a fact for every user turn")
    options = parser.parse_args()
    latency_s = options.latency_ms / 1e3
    responder = DEFAULT_RESPONDER if options.every_turn else _HALF
    with common.ray_up():
        read = read_conversations(options.log)
        batches = read.dataset.iter_batches(batch_size=None, batch_format="pyarrow")
        pairs = list(turn_pairs(pa.concat_tables(batches)))
        with endpoint(latency_s=latency_s, responder=responder, lifetime_s=3_600) as server:
            ours = run(options.log, server, options.in_flight)
    bodies = loop_bodies(pairs[: options.pairs], every_turn=options.every_turn)
    with endpoint(latency_s=latency_s, responder=responder, lifetime_s=3_600) as server:
        looped = common.peer("openai", base_url=server.base_url, chains=[bodies], in_flight=1)
    times = len(pairs) / min(options.pairs, len(pairs))
    loop = {
        "pairs": len(pairs),
        "measured_pairs": min(options.pairs, len(pairs)),
        "measured_s": round(looped["wall_s"], 2),
        "wall_s": round(looped["wall_s"] * times, 1),
        "calls": round(len(bodies) * times),
    }
    bound_s = latency_s * max(ours["calls"] / options.in_flight, ours["longest_chain"])
    common.finish(
        {
            "question": "How long does a log take, beside a plain add loop?",
            "options": vars(options),
            "ours": ours,
            "bound_s": round(bound_s, 2),
            "plain_loop": loop,
            "loop_over_ours": {
                "wall": round(loop["wall_s"] / ours["wall_s"], 1),
                "calls": round(loop["calls"] / ours["calls"], 2),
            },
            "machine": common.machine("ray", "memorypipe"),
        },
        {
            "wall_over_bound": common.Target(value=round(ours["wall_s"] / bound_s, 2), at_most=1.3),
            "calls_per_window": common.Target(
                value=round(ours["calls"] / ours["windows"], 2), at_most=2.0
            ),
        },
    )


if __name__ == "__main__":
    main()
