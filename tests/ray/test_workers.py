"""Small runs are done by the process that asks for them, others by workers of Ray: all the same."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray

from memorypipe import MemoryBuildAction, MemoryExtract, MemoryPipeline, read_conversations
from memorypipe.errors import EndpointError
from memorypipe.logs.read import ConversationLog
from memorypipe.pipeline.on_ray import fits_here
from tests.support.endpoint import Endpoint, endpoint

_NOW = datetime(2026, 1, 1, tzinfo=UTC)

# What says how long things took.
_LEFT_OUT = {"run.json", "metrics.prom"}

pytestmark = pytest.mark.usefixtures("ray_2_cpus")


@pytest.fixture(name="shared", scope="module")
def _shared() -> Iterator[Endpoint]:
    with endpoint() as server:
        yield server


@pytest.fixture(name="server")
def _server(shared: Endpoint) -> Endpoint:
    shared.script(faults=[], count=0, max_in_flight=0, calls=[], require_key=None)
    return shared


def _pipeline(server: Endpoint, table: Path, workers: int) -> MemoryPipeline:
    model: Any = {"model": "m", "base_url": server.base_url, "max_retries": 0}
    return MemoryPipeline(
        table=str(table),
        extract=MemoryExtract(**model).options(num_workers=workers),
        decide=MemoryBuildAction(**model).options(num_workers=workers),
        embedder="none",
        clock=lambda: _NOW,
    )


def _log(users: int, days: int) -> ConversationLog:
    return read_conversations(
        [
            {
                "user_id": f"u{user}",
                "conversation_id": f"c{user}-{day}",
                "messages": [
                    {
                        "role": "user",
                        "content": f"User {user} bought {thing} number {day}.",
                        "timestamp": f"2025-01-{day:02}T10:00:00Z",
                    }
                    for thing in ("a lamp", "a carpet")
                ],
            }
            for user in range(users)
            for day in range(1, days + 1 if user else 2 * days)
        ]
    )


def _files(table: Path, run_id: str) -> dict[str, str]:
    run = table / "runs" / run_id
    files = {
        str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in run.rglob("*")
        if path.is_file() and path.name not in _LEFT_OUT and path.parent.name != "facts"
    }
    facts = pa.concat_tables(pq.read_table(path) for path in sorted((run / "facts").iterdir()))
    return {**files, "facts": repr(facts.drop_columns(["latency_ms"]).to_pylist())}


def test_a_plan_is_the_same_to_the_byte_whoever_makes_it(server: Endpoint, tmp_path: Path) -> None:
    log = _log(users=5, days=3)
    assert log.rows is not None
    here = _pipeline(server, tmp_path / "here", 1).plan(log)
    calls = server.call_count()
    # From Ray's store, and through it to its workers.
    spread = replace(log, source=ray.data.from_arrow(log.rows).repartition(4).materialize())
    assert spread.rows is None
    there = _pipeline(server, tmp_path / "there", 2).plan(spread)
    assert server.call_count() == 2 * calls
    assert there.run_id == here.run_id
    assert _files(tmp_path / "there", there.run_id) == _files(tmp_path / "here", here.run_id)
    for stage in ("extract", "decide"):
        told, found = (plan.summary().to_dict()["stages"][stage] for plan in (here, there))
        for name in ("calls", "attempts", "failures", "tokens_in", "tokens_out"):
            assert told[name] == found[name], (stage, name)
        assert told["latency_ms"]


def test_a_scope_is_decided_while_others_are_still_extracted(
    server: Endpoint, tmp_path: Path
) -> None:
    # One window of the heavier scope is answered when the other scope has long been decided.
    slow = {"kind": "slow", "latency_s": 2.0, "contains": ["<transcript", "number 3."]}
    server.script(faults=[slow])
    _pipeline(server, tmp_path, 1).plan(_log(users=2, days=2))
    bodies = [json.dumps(call["body"]["messages"]) for call in server.calls()]
    deciding = [(n, body) for n, body in enumerate(bodies) if "<facts" in body]
    light = [n for n, body in deciding if "User 1" in body]
    heavy = [n for n, body in deciding if "User 0" in body]
    assert light
    assert max(light) < min(heavy)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_wrong_key_is_one_clear_error_and_leaves_no_thread_behind(
    server: Endpoint, tmp_path: Path, workers: int
) -> None:
    server.script(require_key="sk-right")
    with pytest.raises(EndpointError, match=r"'m'.*401") as caught:
        _pipeline(server, tmp_path, workers).plan(_log(users=3, days=2))
    assert type(caught.value) is EndpointError


@pytest.mark.parametrize("workers", [1, 2])
def test_what_failed_stays_open_and_is_made_up_for(
    server: Endpoint, tmp_path: Path, workers: int
) -> None:
    log = _log(users=3, days=2)
    server.script(faults=[{"kind": "status", "status": 500, "contains": ["<transcript", "User 1"]}])
    first = _pipeline(server, tmp_path, workers).run(log)
    assert (first.status, first.windows_failed) == ("partial", 2)
    before = server.call_count()
    server.script(faults=[])
    second = _pipeline(server, tmp_path, workers).run(log)
    assert (second.status, second.windows) == ("done", 2)
    bodies = [json.dumps(call["body"]["messages"]) for call in server.calls()[before:]]
    assert all("User 1" in body for body in bodies)


def test_a_log_of_one_user_shows_how_far_it_is(tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    log = [
        {
            "user_id": "ana",
            "conversation_id": f"c{number}",
            "messages": [{"role": "user", "content": f"I bought lamp number {number}."}],
        }
        for number in range(200)
    ]
    pipeline = MemoryPipeline.offline(
        str(tmp_path),
        embedder="none",
        on_progress=lambda progress: told.append((progress.stage, progress.done)),
    )
    pipeline.plan(log)
    extracted = [done for stage, done in told if stage == "extract"]
    assert len(extracted) > 3
    assert extracted == sorted(extracted)
    assert extracted[-1] == 200


def test_one_worker_that_has_little_to_do_is_this_process() -> None:
    extract = MemoryExtract(base_url="http://127.0.0.1:1/v1", model="m")
    assert fits_here(2_048, extract)
    assert not fits_here(2_049, extract)
    assert not fits_here(1, extract.options(num_workers=2))
    assert not fits_here(1, extract.options(num_workers={"CPU": 1}))
