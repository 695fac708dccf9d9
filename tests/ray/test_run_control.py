"""Several runs of one job: their budget, what has changed, and messages that are taken again."""

import json
from pathlib import Path
from typing import Any

import pytest

from memorypipe import Lookup, MemoryBuildAction, MemoryExtract, MemoryPipeline, MemoryTable
from memorypipe.pipeline.runs.selection import Selection
from memorypipe.table.reprocess import Reprocess
from tests.support.endpoint import Endpoint, endpoint

pytestmark = pytest.mark.usefixtures("ray_2_cpus")


def conversation(user: str, *said: str) -> dict[str, Any]:
    messages = [
        {"role": "user", "content": text, "timestamp": f"2025-01-{day:02}T10:00:00Z"}
        for day, text in enumerate(said, start=1)
    ]
    return {"user_id": user, "conversation_id": "c", "messages": messages}


def pipeline(server: Endpoint, table: Path, *, model: str = "m", **settings: Any) -> MemoryPipeline:
    called: Any = {"model": model, "base_url": server.base_url, "max_retries": 0}
    return MemoryPipeline(
        table=str(table),
        extract=MemoryExtract(**called),
        decide=MemoryBuildAction(**called),
        lookup=Lookup(strategy="all", max_memories=None),
        backend="parquet",
        embedder="none",
        **settings,
    )


def test_runs_of_one_budget_together_keep_its_bound_and_a_changed_model_pays_for_new_turns_only(
    tmp_path: Path,
) -> None:
    log = [conversation(f"u{n}", f"I own piano number {n}.") for n in range(3)]
    with endpoint() as server:
        first = pipeline(server, tmp_path, max_calls=4, budget="jan").run(log)
        assert (first.status, server.call_count()) == ("stopped", 4)
        assert first.budget is not None
        assert (first.budget["id"], first.budget["calls"]) == ("jan", 4)
        assert first.budget["tokens"] == first.tokens_in + first.tokens_out
        second = pipeline(server, tmp_path, max_calls=6, budget="jan").run(log)
        assert (second.status, server.call_count()) == ("done", 6)
        assert second.changed == {}

        grown = [conversation("u0", "I own piano number 0.", "I keep bees."), *log[1:]]
        before = server.call_count()
        third = pipeline(server, tmp_path, model="other").run(grown, labels={"night": "2"})
        assert (third.windows, server.call_count() - before) == (1, 2)
        assert third.changed["extract_model"] == ["m", "other"]
        asked = json.dumps([call["body"] for call in server.calls()[before:]])
        assert "I keep bees." in asked
    rows = MemoryTable.open(tmp_path, create=False).to_arrow().to_pylist()
    assert {row["text"]: row["labels"] for row in rows}["I keep bees."] == [("night", "2")]
    assert len(rows) == 4


@pytest.mark.slow
def test_messages_that_are_taken_again_are_paid_for_again_and_double_nothing(
    tmp_path: Path,
) -> None:
    log = [conversation(f"u{n}", f"I own piano number {n}.", "I keep bees.") for n in range(3)]
    with endpoint() as server:
        run = pipeline(server, tmp_path).run
        assert run(log, selection=Selection(sample=0.5)).windows == 1
        assert run(log).windows == 2
        before = server.call_count()
        again = run(log, reprocess=Reprocess(scope={"user_id": "u1"}))
        assert (again.windows, again.added, again.updated, again.deleted) == (1, 0, 0, 0)
        assert server.call_count() == before, "the journal knows all that is asked"
        other = pipeline(server, tmp_path, model="other").run(log, reprocess=Reprocess(model="m"))
        assert (other.windows, other.added) == (3, 0)
        assert server.call_count() == before + 3, "facts that it has had are not decided again"
    assert MemoryTable.open(tmp_path, create=False).count() == 6
