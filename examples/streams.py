"""Event streams, step by step as in a notebook: ingest while people talk, flush when it is due.

    python examples/streams.py

It runs with the rule-based model, without key and network, on a table in a temporary folder. In a
service the clock is the machine's, and instead of `flush` a scheduled ``memorypipe flush`` (see
`streams_nightly.sh` beside this file) or ``EventStreams(…, auto_flush=True)`` looks for what is
due.
"""

import tempfile
from datetime import UTC, datetime, timedelta
from typing import Any

from memorypipe import EventStreams, MemoryPipeline, MemoryTable
from memorypipe.streams import types

SCOPE = {"user_id": "123"}
STREAM = "support"


def said(text: str, event_id: str) -> dict[str, Any]:
    """Make one event of the user."""
    return {"content": {"role": "user", "parts": [{"text": text}]}, "event_id": event_id}


def demonstrate(table: str) -> list[str]:
    """Go through it; gives the memories at the end."""
    now = datetime(2026, 1, 1, 10, tzinfo=UTC)

    def clock() -> datetime:
        return now

    # %% Streams lie beside the table; the pipeline makes the memories.
    pipeline = MemoryPipeline.offline(table, embedder="none", clock=clock)
    streams = EventStreams(table, pipeline=pipeline, clock=clock)

    # %% Events come in; memories are made after five minutes of silence, or of ten events.
    operation = streams.ingest_events(
        scope=SCOPE,
        stream_id=STREAM,
        direct_contents_source={"events": [said("My favorite color is blue.", "event-1")]},
        generation_trigger_config={
            "generation_rule": {
                "event_count": 10,
                "idle_duration": "300s",
                "overlap_event_count": 2,
            }
        },
        config={
            "revision_labels": {"data_source": "chat"},
            "metadata": {"tier": {"string_value": "gold"}},
        },
    )
    print(operation.name, "done:", operation.done)

    # %% The same event again is no new event; objects do as well as dictionaries.
    content = types.Content(role="user", parts=[types.Part.from_text(text="I live in Berlin.")])
    streams.ingest_events(
        scope=SCOPE,
        stream_id=STREAM,
        direct_contents_source={
            "events": [
                said("My favorite color is blue.", "event-1"),
                types.IngestionDirectContentsSourceEvent(content=content, event_id="event-2"),
            ]
        },
    )
    print("pending:", streams.pending(SCOPE, STREAM), "due:", streams.due())

    # %% Five minutes later the stream is due.
    now += timedelta(minutes=5)
    for flushed in streams.flush().streams:
        print(flushed.stream_id, flushed.reason, "made", flushed.created, flushed.error or "")
    print("done:", operation.done, operation.result)

    # %% The memories, with the metadata that came along.
    rows = MemoryTable.open(table).to_arrow(SCOPE).to_pylist()
    for row in rows:
        print(row["text"], row["metadata"], row["source_ids"])
    return sorted(row["text"] for row in rows)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        demonstrate(folder)
