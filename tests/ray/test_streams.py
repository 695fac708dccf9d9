"""Event streams over a whole pipeline: what is ingested, due and decided is in the rows."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memorypipe import EventStreams, MemoryPipeline, MemoryTable
from tests.support.streams import FakeClock, event, rule, source

pytestmark = pytest.mark.usefixtures("ray_2_cpus")

STRATEGIES: dict[str, Any] = {
    "merge": "MERGE",
    "overwrite": "OVERWRITE",
    "same": "REQUIRE_EXACT_MATCH",
    "other": "REQUIRE_EXACT_MATCH",
}


def ingest(streams: EventStreams, user: str, name: str, text: str, config: Any) -> Any:
    return streams.ingest_events(
        scope={"user_id": user},
        stream_id="chat",
        direct_contents_source=source(event(text, name)),
        generation_trigger_config=rule(event_count=2, overlap_event_count=1),
        config=config,
    )


def test_memories_of_many_streams_have_what_goes_with_them(tmp_path: Path) -> None:
    clock = FakeClock()
    pipeline = MemoryPipeline.offline(
        str(tmp_path), embedder="none", backend="parquet", clock=clock
    )
    streams = EventStreams(tmp_path, pipeline=pipeline, clock=clock)
    first = {
        "metadata": {"k": {"string_value": "v"}},
        "revision_labels": {"data_source": "321"},
        "revision_ttl": "2592000s",
    }
    for user in STRATEGIES:
        ingest(streams, user, "e1", "I live in Berlin.", first)
        ingest(streams, user, "e2", "Thanks!", {})
    report = streams.flush()
    assert [each.created for each in report.streams] == [1] * 4
    assert len(report.run_ids) == 1
    clock.sleep(60)
    operations = {}
    for user, strategy in STRATEGIES.items():
        value = {"string_value": "v"} if user == "same" else {"double_value": 1}
        key = "k" if user == "same" else "n"
        config = {"metadata": {key: value}, "metadata_merge_strategy": strategy}
        operations[user] = ingest(streams, user, "e3", "I moved to Paris.", config)
        ingest(streams, user, "e4", "Bye.", {})
    streams.flush()

    table = MemoryTable.open(tmp_path)
    rows = {
        user: {
            row["text"]: row["metadata"] for row in table.to_arrow({"user_id": user}).to_pylist()
        }
        for user in STRATEGIES
    }
    moved = next(text for text in rows["merge"] if "Paris" in text)
    assert rows["merge"] == {moved: '{"k":"v","n":1.0}'}
    assert rows["overwrite"] == {moved: '{"n":1.0}'}
    assert list(rows["same"].values()) == ['{"k":"v"}']
    assert len(rows["other"]) == 2  # the memory of Berlin is no candidate
    result = operations["merge"].result
    assert [(each.action, each.previous_revision) for each in result.memories] == [("UPDATED", 1)]
    old = table.history(result.memories[0].memory_id, labels={"data_source": "321"}).to_pylist()
    assert [row["revision"] for row in old] == [1]
    assert old[0]["revision_expires_at"] == clock.now - timedelta(seconds=60) + timedelta(days=30)

    # The ledger is that of a backfill: the same messages are not taken again.
    log = [
        {
            "user_id": "merge",
            "conversation_id": "chat",
            "messages": [{"role": "user", "content": "I live in Berlin.", "id": "e1"}],
        }
    ]
    assert pipeline.plan(log).summary().windows == 0
