"""Endpoints that refuse and workers that are killed, through Ray and over real HTTP."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
from ray.data.expressions import col, unnest

from memorypipe import MemoryExtract
from memorypipe.errors import EndpointError
from tests.support.endpoint import Endpoint, endpoint

KEY = "sk-right-0815"
WRONG_KEY = "sk-wrong-4711"
IN_FLIGHT = 8
ROWS = 60

pytestmark = pytest.mark.usefixtures("ray_2_cpus")


@pytest.fixture(scope="module")
def shared() -> Iterator[Endpoint]:
    with endpoint(require_key=KEY, latency_s=0.02) as server:
        yield server


@pytest.fixture
def server(shared: Endpoint) -> Endpoint:
    shared.script(faults=[], count=0, max_in_flight=0, calls=[])
    return shared


def rows(count: int = ROWS) -> list[dict[str, Any]]:
    return [{"n": n, "messages": f"[user]: I own {n} pianos."} for n in range(count)]


def extraction(server: Endpoint, **model: Any) -> MemoryExtract:
    settings = {"api_key": KEY, "max_concurrency": IN_FLIGHT, **model}
    return MemoryExtract(base_url=server.base_url, model="m", **settings)


def answered(server: Endpoint, **model: Any) -> list[dict[str, Any]]:
    """Run the dataset; give its rows, ordered, with the status columns."""
    cells = extraction(server, **model).with_status(col("messages"))
    ds: Any = ray.data.from_items(rows(), override_num_blocks=6).with_columns(unnest(cells))
    return sorted(ds.take_all(), key=lambda row: int(row["n"]))


def check_cells(got: list[dict[str, Any]]) -> None:
    """Every row is there once, with the answer to its own message, in full."""
    assert [row["n"] for row in got] == list(range(ROWS))
    assert {row["status"] for row in got} == {"ok"}
    for row in got:
        said = row["messages"].removeprefix("[user]: ")
        assert json.loads(row["value"]) == {"memories": [{"text": said}]}


def times_sent(server: Endpoint) -> Counter[str]:
    return Counter(json.dumps(call["body"]) for call in server.calls())


def wait_for_calls(server: Endpoint, count: int, result: "Future[Any]") -> None:
    """Wait until so many requests have arrived, or the run ends before that."""
    while not result.done() and server.call_count() < count:
        wait([result], timeout=0.02)


def map_workers() -> list[psutil.Process]:
    """The processes below this one that run a stage of a dataset."""
    below = psutil.Process().children(recursive=True)
    return [process for process in below if "ray::MapWorker" in " ".join(process.cmdline())]


def test_a_third_refused_changes_no_cell_and_no_request_exceeds_its_attempts(
    server: Endpoint,
) -> None:
    refused = {"kind": "status", "status": 429, "headers": {"retry-after-ms": "20"}}
    server.script(faults=[{**refused, "rate": 0.333}])
    got = answered(server, max_retries=15)
    check_cells(got)
    sent = times_sent(server)
    assert len(sent) == ROWS
    assert 1 < max(sent.values()) <= 1 + 15
    assert sum(row["attempts"] for row in got) == server.call_count() > ROWS


def test_an_endpoint_that_admits_fewer_than_we_may_send_answers_every_row(
    server: Endpoint,
) -> None:
    refused = {"kind": "status", "status": 429, "headers": {"retry-after-ms": "20"}}
    server.script(faults=[{**refused, "over_in_flight": 3}])
    got = answered(server, max_retries=30)
    check_cells(got)
    statuses = Counter(call["status"] for call in server.calls())
    assert statuses[200] == ROWS
    assert statuses[429] > 0
    assert sum(row["attempts"] for row in got) == server.call_count()


def test_a_worker_killed_at_half_costs_at_most_what_was_in_flight(
    server: Endpoint, tmp_path: Path
) -> None:
    half = ROWS // 2
    earlier = map_workers()  # those of tests before this one may still be going
    # From half on no answer comes, so that the kill meets a worker with its flight full.
    server.script(faults=[{"kind": "hang", "calls": list(range(half + 1, 4 * ROWS))}])
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(answered, server, journal=str(tmp_path / "journal"))
        wait_for_calls(server, half + IN_FLIGHT, result)
        server.script(faults=[])
        (worker,) = (each for each in map_workers() if each not in earlier)
        worker.kill()
        check_cells(result.result())
    sent = times_sent(server)
    assert len(sent) == ROWS
    assert sum(sent.values()) == ROWS + IN_FLIGHT
    assert max(sent.values()) == 2


def test_a_wrong_key_stops_every_block_in_hand(server: Endpoint) -> None:
    ds: Any = ray.data.from_items(rows(), override_num_blocks=8)
    wrong = extraction(server, api_key=WRONG_KEY).with_column(col("messages"))
    with pytest.raises(EndpointError) as caught:
        ds.with_column("cell", wrong).materialize()
    shown = str(caught.value)
    assert re.search(r"EndpointError: .*'m'.*401", shown)
    assert server.base_url in shown
    assert "4711" not in shown
    # Another run takes its time; a block of the first one that went on would send meanwhile.
    check_cells(answered(server))
    keys = Counter(call["headers"]["authorization"] for call in server.calls())
    assert 1 <= keys[f"Bearer {WRONG_KEY}"] < 2 * IN_FLIGHT
    assert keys[f"Bearer {KEY}"] == ROWS
