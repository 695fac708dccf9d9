"""Scopes are decided beside each other, each in order of time, whatever they weigh."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from memorypipe import MemoryBuildAction
from memorypipe.ids import scope_key
from memorypipe.llm.owner import Owner
from memorypipe.pipeline.deciding import Decider, decide_actions
from memorypipe.pipeline.scope_results import SCOPE_RESULTS
from memorypipe.pipeline.scopes.settings import ConsolidationSettings
from memorypipe.schema import FACTS
from tests.support.endpoint import Endpoint, endpoint

pytestmark = pytest.mark.usefixtures("ray_2_cpus")

HEAVY, LIGHT, IN_FLIGHT = 6, 20, 4


@pytest.fixture(name="slow")
def _slow() -> Iterator[Endpoint]:
    with endpoint(latency_s=0.2) as server:
        yield server


def _facts(path: Path, windows_of: dict[str, int]) -> str:
    """Write a fact per window, those of a scope latest first."""
    rows = [
        {
            **{name: 0 for name in FACTS.names if pa.types.is_integer(FACTS.field(name).type)},
            "scope": [("user_id", user)],
            "scope_key": scope_key({"user_id": user}),
            "conversation_id": f"{user}-{number}",
            "window_id": f"w-{user}-{number}",
            "event_time": datetime(2025, 1, 1, tzinfo=UTC) + timedelta(days=number),
            "message_ids": ["m1"],
            "message_times": [None],
            "facts_json": json.dumps({"memories": [{"text": f"{user}{number} likes tea"}]}),
            "status": "ok",
            "latency_ms": 0.0,
            "cached": False,
        }
        for user, count in windows_of.items()
        for number in reversed(range(count))
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=FACTS), path)
    return str(path)


def _asked(server: Endpoint) -> dict[str, list[dict[str, Any]]]:
    """Give the calls by user, in the order in which they came."""
    found: dict[str, list[dict[str, Any]]] = {}
    for call in server.calls():
        sections = call["body"]["messages"][-1]["content"]
        (fact,) = [line for line in sections.splitlines() if line.startswith('{"fact":')]
        name = json.loads(fact)["text"].split()[0]
        found.setdefault(name.rstrip("0123456789"), []).append({**call, "name": name})
    return found


def test_a_heavy_scope_is_in_order_and_keeps_nobody_waiting(slow: Endpoint, tmp_path: Path) -> None:
    windows_of = {"heavy": HEAVY} | {f"{chr(97 + n)}-light": 1 for n in range(LIGHT)}
    decider = Decider(
        decide=MemoryBuildAction(base_url=slow.base_url, model="m", max_concurrency=IN_FLIGHT),
        settings=ConsolidationSettings(facts_per_call=1),
        table_uri=str(tmp_path),
        base_version=None,
        owner=Owner.current(),
    )
    paths = [_facts(tmp_path / "facts.parquet", windows_of)]
    decided = pa.concat_tables(decide_actions(paths, decider, here=True))
    assert decided.schema.equals(SCOPE_RESULTS)
    assert {row["scope_key"]: row["windows"] for row in decided.to_pylist()} == {
        scope_key({"user_id": user}): count for user, count in windows_of.items()
    }
    asked = _asked(slow)
    chain = asked.pop("heavy")
    assert [call["name"] for call in chain] == [f"heavy{n}" for n in range(HEAVY)]
    assert all(one["done_s"] <= two["at_s"] for one, two in pairwise(chain))
    assert slow.max_in_flight() == IN_FLIGHT
    assert len(asked) == LIGHT
    assert sum(call["at_s"] < chain[-1]["at_s"] for (call,) in asked.values()) >= HEAVY * 2
