"""The pipeline with batches: the extraction finds in the journal what batches answered."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memorypipe import Lookup, MemoryBuildAction, MemoryExtract, MemoryPipeline, MemoryTable, Plan
from memorypipe.errors import EndpointError, InvalidArgumentError, PlanError
from memorypipe.llm.batch.settings import BatchSettings
from memorypipe.llm.types import ExtractTask, Reply, Turn
from memorypipe.pipeline.batch_extraction import is_usable
from memorypipe.pipeline.batch_folder import open_batches
from tests.support.batch_server import BatchServer, batch_server

pytestmark = pytest.mark.usefixtures("ray_2_cpus")

SOON = BatchSettings(max_requests=3, first_poll_s=0.01, longest_poll_s=0.05)


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with batch_server() as running:
        yield running


def log(users: int) -> list[dict[str, Any]]:
    said = "I own {} boats and a ½ piano 🎹."
    return [
        {
            "user_id": f"u{n}",
            "conversation_id": f"c{n}",
            "messages": [
                {"role": "user", "content": said.format(n), "timestamp": "2025-01-01T10:00:00Z"}
            ],
        }
        for n in range(users)
    ]


def pipeline(server: BatchServer, table: Path, **settings: Any) -> MemoryPipeline:
    model: Any = {"model": "m", "base_url": server.base_url, "max_retries": 1, "temperature": 0}
    settings.setdefault("batch", SOON)
    return MemoryPipeline(
        table=str(table),
        extract=MemoryExtract(**model),
        decide=MemoryBuildAction(**model),
        lookup=Lookup(strategy="all", max_memories=None),
        **settings,
    )


def texts(table: Path) -> list[str]:
    rows = MemoryTable.open(table, create=False).to_arrow(columns=["text"])
    return sorted(rows["text"].to_pylist())


def test_batches_answer_the_extraction_and_nothing_is_asked_twice(
    server: BatchServer, tmp_path: Path
) -> None:
    stages: list[str] = []
    run = pipeline(server, tmp_path, on_progress=lambda step: stages.append(step.stage)).run
    summary = run(log(7))
    assert (summary.status, summary.added, server.chats) == ("done", 7, 7)
    assert summary.journal_hits == 7
    assert summary.batch is not None
    assert (summary.batch["batches"], summary.batch["answered"]) == (3, 7)
    assert max(server.paid.values()) == 1
    assert "batch" in stages
    record = json.loads((tmp_path / "runs" / summary.run_id / "run.json").read_text())
    assert record["batch"] == dict(summary.batch)
    assert open_batches(str(tmp_path)) == []
    plain = pipeline(server, tmp_path / "plain", batch=None).run(log(7))
    assert plain.batch is None
    assert texts(tmp_path / "plain") == texts(tmp_path)
    extractions = [count for body, count in server.paid.items() if "transcript" in body]
    assert extractions == [2] * 7, "asked alone they are the very same requests"


@pytest.mark.slow
def test_what_batches_fail_to_answer_is_asked_alone(server: BatchServer, tmp_path: Path) -> None:
    server.scripts = {
        1: {"fail_share": 1.0},
        2: {"expire_share": 0.5},
        3: {"bad_share": 1.0},
    }
    summary = pipeline(server, tmp_path).run(log(9))
    assert (summary.status, summary.added, len(texts(tmp_path))) == ("done", 9, 9)
    assert summary.batch is not None
    told = {name: summary.batch[name] for name in ("answered", "failed", "expired", "unusable")}
    assert sum(told.values()) == 9
    assert (told["failed"], told["unusable"]) == (3, 3)
    unusable = [body for body, count in server.paid.items() if count > 1]
    assert len(unusable) == 3, "only what came back without a word in it is paid again"


@pytest.mark.slow
def test_a_refused_batch_stops_the_run_before_anything_is_asked_alone(
    server: BatchServer, tmp_path: Path
) -> None:
    server.scripts = {2: {"refuse": [{"code": "bad", "message": "No.", "line": 1}]}}
    with pytest.raises(EndpointError, match="line 1: No"):
        pipeline(server, tmp_path).plan(log(7))
    assert server.chats == 0
    server.scripts = {}
    assert pipeline(server, tmp_path).run(log(7)).added == 7
    assert max(server.paid.values()) == 1


@pytest.mark.slow
def test_what_open_batches_answer_is_not_asked_alone(server: BatchServer, tmp_path: Path) -> None:
    server.faults = [
        {"kind": "status", "status": 403, "method": "GET", "path": "/v1/batches/", "calls": [1]}
    ]
    with pytest.raises(EndpointError, match="403"):
        pipeline(server, tmp_path).plan(log(7))
    server.faults = []
    alone = pipeline(server, tmp_path, batch=None)
    with pytest.raises(PlanError, match=r"^7 requests .*--batch-api.*cancel_batches\('run_"):
        alone.plan(log(7))
    assert server.chats == 0
    others = [{**each, "user_id": "x", "messages": each["messages"] * 2} for each in log(1)]
    assert alone.run(others).windows == 1, "what is in no batch is asked"
    assert pipeline(server, tmp_path).run(log(7)).added == 7
    assert max(server.paid.values()) == 1
    assert alone.run(log(8)[7:]).windows == 1, "nothing is open any more"


@pytest.mark.parametrize(
    "content", ['{"memories": []}', '{"memories": [{"text": "a", "sources": [1]}]}', "no", None]
)
@pytest.mark.parametrize("finish_reason", ["stop", "length", "content_filter"])
def test_whether_a_reply_is_usable_does_not_depend_on_the_transcript(
    content: str | None, finish_reason: str
) -> None:
    extract = MemoryExtract(base_url="http://localhost:1/v1", model="m")
    reply = Reply(content=content, finish_reason=finish_reason)
    task = ExtractTask(turns=[Turn(role="user", content="I own a piano.", id="a")])
    status = extract.stage.read(task, reply).status
    assert is_usable(extract, reply) == (status in {"ok", "empty"})


def test_rules_and_bounds_do_not_go_with_batches(server: BatchServer, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="--base-url"):
        MemoryPipeline.offline(str(tmp_path), batch=SOON)
    with pytest.raises(InvalidArgumentError, match="--max-calls"):
        pipeline(server, tmp_path, max_calls=3)


@pytest.mark.slow
def test_batches_of_an_interrupted_run_go_on_can_be_seen_and_cancelled(
    server: BatchServer, tmp_path: Path
) -> None:
    server.scripts = {"all": {"polls": 10_000}}
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from tests.ray.test_batch_extraction import log, pipeline\n"
        "from tests.support.batch_server import BatchServer\n"
        "pipeline(BatchServer(base_url=sys.argv[2]), Path(sys.argv[3])).plan(log(7))\n"
    )
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", script, root, server.base_url, str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603  # our own script
        deadline_s = time.monotonic() + 120
        while not (server.batches and server.statuses()[-1] == "in_progress"):
            assert time.monotonic() < deadline_s
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    assert "3 batches go on at the provider" in said
    waiting = open_batches(str(tmp_path))
    assert {record.batch_id for record in waiting} == set(server.batches)
    memories = pipeline(server, tmp_path)
    assert len(memories.cancel_batches(waiting[0].run_id)) == 3
    summary = memories.run(log(7))
    assert summary.run_id == waiting[0].run_id
    assert summary.batch is not None
    assert 0 < summary.batch["answered"] < 7
    assert (summary.added, max(server.paid.values())) == (7, 1)
    assert Plan(str(tmp_path), summary.run_id).summary().batch == summary.batch
