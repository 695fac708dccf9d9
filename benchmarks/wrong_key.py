"""How many calls does a wrong key cost, with eight blocks in hand?

    python benchmarks/wrong_key.py [--rows 2000] [--latency-ms 200] [--max-concurrency 64]

A dataset of eight blocks with one `MemoryExtract` column is materialised with a key that the
endpoint on loopback refuses (401). What counts is every request that arrives until 3 seconds after
the error has reached the user: blocks in hand must not go on sending. No client that fills its
concurrency at once learns of the refusal before `max_concurrency` requests are out: that is the
limit to compare with. The user must get an `EndpointError` that names endpoint and model and not
the key, in a text that fits a screen or two, Ray's own frames included.

The peer is Ray's own HTTP processor on an eighth of the rows, which gives refusals back as rows.
There is no randomness in it. Prints one JSON object.
"""

import argparse
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import ray
from ray.data.expressions import col

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import common  # the checkout comes first
from memorypipe import MemoryExtract
from memorypipe.errors import EndpointError
from tests.support.endpoint import Endpoint, endpoint

BLOCKS = 8
WATCHED_S = 3.0
LONGEST_ERROR_LINES = 150
WRONG_KEY = "sk-wrong-4711"
WARM_UP_ROWS = 8


def extract(server: Endpoint, key: str, rows: int, in_flight: int) -> Any:
    """Give the dataset."""
    expression = MemoryExtract(
        base_url=server.base_url, model="test", api_key=key, max_concurrency=in_flight
    ).options(num_workers={"IO": 1})
    dataset: Any = ray.data.from_items(common.make_rows(rows), override_num_blocks=BLOCKS)
    return dataset.with_column(
        "facts_json", expression.with_column(col("messages"), col("context"))
    )


def refused(server: Endpoint, rows: int, in_flight: int) -> dict[str, Any]:
    """Run with the wrong key; say what the user sees and what the server saw."""
    started_s = time.monotonic()
    try:
        extract(server, WRONG_KEY, rows, in_flight).materialize()
    except EndpointError as error:
        caught: BaseException = error
    else:
        raise AssertionError("a wrong key is an error")
    raised_s, calls_when_raised = time.monotonic(), server.call_count()
    time.sleep(WATCHED_S)
    first_s = min(call["at_s"] for call in server.calls())
    shown = "".join(traceback.format_exception(caught))
    assert "4711" not in shown, "the key is shown nowhere"
    assert server.base_url in str(caught), "the error names the endpoint"
    assert "'test'" in str(caught), "the error names the model"
    return {
        "error_class": type(caught).__name__,
        "error": next(line for line in shown.splitlines() if "EndpointError: " in line),
        "error_lines": shown.count("\n"),
        "raised_after_s": round(raised_s - started_s, 2),
        "raised_after_first_request_s": round(raised_s - first_s, 2),
        "calls_when_raised": calls_when_raised,
        "calls": server.call_count(),
        "calls_over_limit": round(server.call_count() / in_flight, 2),
    }


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--latency-ms", type=float, default=200.0)
    parser.add_argument("--max-concurrency", type=int, default=64)
    options = parser.parse_args()
    latency_s, in_flight = options.latency_ms / 1e3, options.max_concurrency
    with endpoint(latency_s=latency_s, require_key="sk-right", lifetime_s=3_600) as server:
        with common.ray_up():
            extract(server, "sk-right", WARM_UP_ROWS, in_flight).materialize()
            bodies = [call["body"] for call in server.calls()]
            server.script(count=0, max_in_flight=0, calls=[])
            ours = refused(server, options.rows, in_flight)
        server.script(count=0, max_in_flight=0, calls=[])
        chains = [[bodies[n % WARM_UP_ROWS]] for n in range(max(options.rows // BLOCKS, 1))]
        ray_llm = common.peer("ray_llm", base_url=server.base_url, chains=chains, api_key=WRONG_KEY)
        ray_llm["calls"] = server.call_count()
    result = {
        "rows": options.rows,
        "blocks": BLOCKS,
        "latency_ms": options.latency_ms,
        "max_concurrency": in_flight,
        "watched_s": WATCHED_S,
        "ours": ours,
        "peers": {"ray_llm": ray_llm},
        "machine": common.machine("ray", "openai"),
    }
    common.finish(
        result,
        {
            "calls": common.Target(value=ours["calls"], at_most=2 * in_flight - 1),
            "error_lines": common.Target(value=ours["error_lines"], at_most=LONGEST_ERROR_LINES),
        },
    )


if __name__ == "__main__":
    main()
