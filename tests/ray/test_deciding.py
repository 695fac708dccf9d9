"""How many facts a worker lays out as Python rows at a time."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import ray

from memorypipe import MemoryBuildAction
from memorypipe.ids import scope_key
from memorypipe.llm.owner import Owner
from memorypipe.pipeline.deciding import Decider, decide_partitions
from memorypipe.pipeline.settings import ConsolidationSettings
from memorypipe.schema import FACTS
from tests.support.endpoint import Endpoint, endpoint

pytestmark = pytest.mark.usefixtures("ray_2_cpus")


@pytest.fixture(name="slow")
def _slow() -> Iterator[Endpoint]:
    with endpoint(latency_s=0.2) as server:
        yield server


def _partition(user: str) -> pa.Table:
    """Lay out the one fact of one user."""
    scope = {"user_id": user}
    row: dict[str, Any] = {
        **{name: 0 for name in FACTS.names if pa.types.is_integer(FACTS.field(name).type)},
        "scope": [("user_id", user)],
        "scope_key": scope_key(scope),
        "conversation_id": user,
        "window_id": f"w-{user}",
        "event_time": datetime(2025, 1, 1, tzinfo=UTC),
        "message_ids": ["m1"],
        "message_times": [None],
        "facts_json": json.dumps({"memories": [{"text": f"{user} likes tea", "sources": ["m1"]}]}),
        "status": "ok",
        "latency_ms": 0.0,
        "cached": False,
    }
    return pa.Table.from_pylist([row], schema=FACTS)


def test_a_worker_lays_out_two_partitions_at_a_time_and_decides_all(
    slow: Endpoint, tmp_path: Path
) -> None:
    users = [f"u{n}" for n in range(8)]
    partitions = ray.data.from_arrow([_partition(user) for user in users])
    decider = Decider(
        decide=MemoryBuildAction(base_url=slow.base_url, model="m"),
        settings=ConsolidationSettings(),
        table_uri=str(tmp_path),
        base_version=None,
        owner=Owner.current(),
    )
    decided = pa.concat_tables(decide_partitions(partitions, decider))
    assert sorted(decided["scope_key"].to_pylist()) == sorted(
        scope_key({"user_id": user}) for user in users
    )
    assert slow.call_count() == len(users)
    assert slow.max_in_flight() == 2
