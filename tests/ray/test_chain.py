"""The three expressions as a chain on a plain dataset, against a real HTTP endpoint."""

import json
import pickle
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import ray
from ray.data.expressions import col, unnest

from memorypipe import ApplyActions, MemoryBuildAction, MemoryExtract
from memorypipe.errors import EndpointError
from tests.support.endpoint import Endpoint, endpoint

KEY = "sk-secret-0815"

pytestmark = pytest.mark.usefixtures("ray_2_cpus")


@pytest.fixture(scope="module")
def shared() -> Iterator[Endpoint]:
    with endpoint(require_key=KEY, latency_s=0.01) as server:
        yield server


@pytest.fixture
def server(shared: Endpoint) -> Endpoint:
    shared.script(faults=[], count=0, max_in_flight=0, calls=[])
    return shared


def rows(count: int) -> list[dict[str, str]]:
    return [
        {
            "messages": f"[user]: I own {n} pianos.",
            "context": f"User: u{n}\nDate: 2025-01-01",
            "existing_json": f'[{{"id": "m_{n}", "text": "Owns a digital keyboard"}}]',
        }
        for n in range(count)
    ]


def chain(ds: Any, server: Endpoint, **model: Any) -> Any:
    """The chain as the documentation shows it."""
    model = {"model": "m", "base_url": server.base_url, "api_key": KEY, **model}
    ds = ds.with_column(
        "facts_json",
        MemoryExtract(**model)
        .options(num_workers={"IO": 1}, batch_size=1)
        .with_column(col("messages"), col("context")),
    )
    ds = ds.with_column(
        "actions_json",
        MemoryBuildAction(**model)
        .options(num_workers={"IO": 1}, batch_size=1)
        .with_column(col("facts_json"), col("existing_json")),
    )
    return ds.with_column(
        "memories_json",
        ApplyActions().with_column(col("existing_json"), col("actions_json")),
    )


def stages(server: Endpoint) -> dict[str, int]:
    """How often each stage asked."""
    asked = [json.dumps(call["body"]["messages"][-1]) for call in server.calls()]
    return dict(Counter("decide" if "<facts-" in text else "extract" for text in asked))


def test_every_row_is_sent_once_per_stage_and_results_are_in_place(server: Endpoint) -> None:
    ds = chain(ray.data.from_items(rows(60), override_num_blocks=6), server)
    got = ds.take_all()
    assert len(got) == 60
    for row in got:
        said = row["messages"].removeprefix("[user]: ")
        assert json.loads(row["facts_json"])["memories"][0]["text"] == said
        (action,) = json.loads(row["actions_json"])["actions"]
        assert (action["event"], action["text"]) == ("ADD", said)
        old, new = json.loads(row["memories_json"])
        assert (old["text"], new["text"]) == ("Owns a digital keyboard", said)
    bodies = Counter(json.dumps(call["body"]["messages"][-1]) for call in server.calls())
    assert set(bodies.values()) == {1}
    assert stages(server) == {"extract": 60, "decide": 60}


def test_take_one_of_400_rows_sends_one_call_per_stage(server: Endpoint) -> None:
    assert len(chain(ray.data.from_items(rows(400)), server).take(1)) == 1
    assert stages(server) == {"extract": 1, "decide": 1}


def test_concurrency_holds_over_all_blocks_of_a_worker(server: Endpoint) -> None:
    server.script(latency_s=0.05)
    extract = MemoryExtract(
        model="m", base_url=server.base_url, api_key=KEY, max_concurrency=5
    ).with_column(col("messages"))
    ray.data.from_items(rows(80), override_num_blocks=8).with_column("f", extract).materialize()
    server.script(latency_s=0.01)
    assert server.max_in_flight() == 5
    assert stages(server) == {"extract": 80}


def test_no_second_holds_more_starts_than_the_rate_the_first_included(server: Endpoint) -> None:
    extract = MemoryExtract(
        model="m", base_url=server.base_url, api_key=KEY, max_qps=20, max_concurrency=64
    ).with_column(col("messages"))
    ray.data.from_items(rows(60), override_num_blocks=6).with_column("f", extract).materialize()
    at = sorted(call["at_s"] for call in server.calls())
    assert len(at) == 60
    fullest = max(sum(1 for t in at if start <= t < start + 1.0) for start in at)
    # Arrivals jitter by a few milliseconds against starts: one may slip into the next window.
    # One more: on a busy machine requests come in closer together than they left.
    assert fullest <= 20 + 1 + 1


def test_a_wrong_key_is_one_clear_error_that_names_no_key(server: Endpoint) -> None:
    ds = chain(
        ray.data.from_items(rows(200), override_num_blocks=20),
        server,
        api_key="sk-wrong-4711",
        max_concurrency=8,
    )
    with pytest.raises(EndpointError) as caught:
        ds.materialize()
    assert server.base_url in str(caught.value)
    assert "'m'" in str(caught.value)
    assert "4711" not in str(caught.value)
    assert server.call_count() <= 16, "what was in flight, and nothing after it"


def test_a_status_struct_is_unnested_into_columns_and_paid_once(server: Endpoint) -> None:
    extract = MemoryExtract(model="m", base_url=server.base_url, api_key=KEY)
    ds: Any = ray.data.from_items(rows(12), override_num_blocks=3)
    ds = ds.with_columns(unnest(extract.with_status(col("messages"), col("context"))))
    got = ds.take_all()
    assert {(row["status"], row["attempts"], row["cached"]) for row in got} == {("ok", 1, False)}
    assert all(row["prompt_tokens"] > 0 and row["prompt_hash"] for row in got)
    assert stages(server) == {"extract": 12}


def test_a_literal_holds_for_every_row_and_is_paid_once(server: Endpoint) -> None:
    extract = MemoryExtract(model="m", base_url=server.base_url, api_key=KEY)
    ds: Any = ray.data.from_items(rows(6), override_num_blocks=6)
    ds = ds.with_columns(unnest(extract.with_status(col("messages"), "Date: 2025-01-01")))
    assert {row["status"] for row in ds.take_all()} == {"ok"}
    asked = [call["body"]["messages"][-1]["content"] for call in server.calls()]
    assert len(asked) == 6
    assert all("Date: 2025-01-01" in text for text in asked)


def test_an_expression_holds_no_live_object_and_no_resolved_secret() -> None:
    extract = MemoryExtract(model="m", base_url="http://localhost:1/v1", api_key="env:MY_KEY")
    copy = pickle.loads(pickle.dumps(extract))  # noqa: S301  # our own bytes
    assert repr(copy) == repr(extract)
    assert copy.render(["[user]: Hi, I am Ana."]) == extract.render(["[user]: Hi, I am Ana."])
