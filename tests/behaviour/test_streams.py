"""Event streams: the examples of the guide, and every rule of what is taken and what is due."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memorypipe.streams import types
from memorypipe.streams.streams import EventStreams
from tests.support.streams import (
    KEY,
    SCOPE,
    FakeClock,
    Recorder,
    Window,
    event,
    ingest,
    open_streams,
    rule,
    source,
)

STREAM = "my-custom-stream"


def typed_source(text: str, event_id: str | None = None) -> types.IngestionDirectContentsSource:
    content = types.Content(role="user", parts=[types.Part.from_text(text=text)])
    return types.IngestionDirectContentsSource(
        events=[types.IngestionDirectContentsSourceEvent(content=content, event_id=event_id)]
    )


def typed_rule(**values: Any) -> types.MemoryGenerationTriggerConfig:
    made = types.MemoryGenerationTriggerConfigGenerationTriggerRule(**values)
    return types.MemoryGenerationTriggerConfig(generation_rule=made)


@pytest.fixture(params=["dictionaries", "typed objects"])
def forms(request: pytest.FixtureRequest) -> tuple[Any, Any, Any]:
    """What makes a source, a trigger and a config, in either form."""
    if request.param == "typed objects":
        return typed_source, typed_rule, types.IngestEventsConfig
    return (lambda text, name=None: source(event(text, name))), rule, dict


def window(*messages: str, overlap: tuple[str, ...] = (), stream: str = STREAM) -> Window:
    return Window(KEY, stream, overlap, messages)


def test_memories_are_made_once_so_many_events_are_there(
    streams: EventStreams, recorder: Recorder, forms: tuple[Any, Any, Any]
) -> None:
    made_source, made_rule, _ = forms
    for number in range(1, 11):
        assert not streams.due()
        operation = streams.ingest_events(
            scope=SCOPE,
            stream_id=STREAM,
            direct_contents_source=made_source(f"Fact {number}.", f"event-{number}"),
            generation_trigger_config=made_rule(event_count=10),
        )
    assert streams.due() == {operation.name: "event_count"}
    assert operation.wait()
    assert recorder.windows == [window(*(f"Fact {number}." for number in range(1, 11)))]
    assert streams.pending(SCOPE, STREAM) == 0


def test_memories_are_made_once_no_event_came_for_so_long(
    streams: EventStreams, recorder: Recorder, clock: FakeClock, forms: tuple[Any, Any, Any]
) -> None:
    made_source, made_rule, _ = forms
    streams.ingest_events(
        scope=SCOPE,
        stream_id=STREAM,
        direct_contents_source=made_source("I will be back in a bit.", "event-2"),
        generation_trigger_config=made_rule(idle_duration="300s"),
    )
    clock.sleep(299)
    # A duplicate does not begin the time anew, nor does what it says.
    streams.ingest_events(
        scope=SCOPE, stream_id=STREAM, direct_contents_source=made_source("Other.", "event-2")
    )
    assert not streams.flush().streams
    clock.sleep(1)
    assert [each.reason for each in streams.flush().streams] == ["idle_duration"]
    assert recorder.windows == [window("I will be back in a bit.")]


def test_memories_are_made_at_whichever_of_two_conditions_comes_first(
    streams: EventStreams, recorder: Recorder, clock: FakeClock, forms: tuple[Any, Any, Any]
) -> None:
    made_source, made_rule, _ = forms

    def ingest(number: int) -> None:
        streams.ingest_events(
            scope=SCOPE,
            stream_id=STREAM,
            direct_contents_source=made_source(f"Part {number}.", f"event-{number}"),
            generation_trigger_config=made_rule(event_count=2, idle_duration="300s"),
        )

    ingest(1)
    ingest(2)
    assert [each.reason for each in streams.flush().streams] == ["event_count"]
    ingest(3)
    clock.sleep(300)
    assert [each.reason for each in streams.flush().streams] == ["idle_duration"]
    assert recorder.windows == [window("Part 1.", "Part 2."), window("Part 3.")]


def test_what_is_pending_is_flushed_by_force(
    streams: EventStreams, recorder: Recorder, forms: tuple[Any, Any, Any]
) -> None:
    made_source, made_rule, made_config = forms
    first = streams.ingest_events(
        scope=SCOPE,
        stream_id=STREAM,
        direct_contents_source=made_source("Hello."),
        generation_trigger_config=made_rule(event_count=10),
    )
    operation = streams.ingest_events(
        scope=SCOPE,
        stream_id=STREAM,
        direct_contents_source=made_source("That's all for today!"),
        config=made_config(force_flush=True),
    )
    assert operation == first
    assert streams.due() == {operation.name: "force_flush"}
    assert operation.wait()
    assert recorder.windows == [window("Hello.", "That's all for today!")]


def test_the_last_events_open_the_next_window_again(
    streams: EventStreams, recorder: Recorder, forms: tuple[Any, Any, Any]
) -> None:
    made_source, made_rule, _ = forms
    for number in range(20):
        streams.ingest_events(
            scope=SCOPE,
            stream_id=STREAM,
            direct_contents_source=made_source(f"Step {number}."),
            generation_trigger_config=made_rule(event_count=10, overlap_event_count=2),
        )
        streams.flush()
    texts = [f"Step {number}." for number in range(20)]
    assert recorder.windows == [
        window(*texts[:10]),
        window(*texts[10:], overlap=("Step 8.", "Step 9.")),
    ]
    assert len({each.run_id for each in recorder.generations}) == 2


def test_revisions_and_metadata_go_along_with_the_generation(
    streams: EventStreams, recorder: Recorder, forms: tuple[Any, Any, Any]
) -> None:
    made_source, made_rule, made_config = forms
    streams.ingest_events(
        scope=SCOPE,
        stream_id=STREAM,
        direct_contents_source=made_source("My favorite color is blue."),
        generation_trigger_config=made_rule(event_count=2),
        config=made_config(
            revision_labels={"data_source": "321"},
            revision_ttl=f"{30 * 60 * 60 * 24}s",
            metadata={
                "my_string_key": types.MemoryMetadataValue(string_value="my_string_value"),
                "my_boolean_key": {"bool_value": True},
            },
            metadata_merge_strategy=types.MemoryMetadataMergeStrategy.MERGE,
        ),
    )
    streams.ingest_events(
        scope=SCOPE, stream_id=STREAM, direct_contents_source=made_source("I own a cat.")
    )
    streams.flush()
    assert recorder.generations[0].batches[0].config == {
        "labels": {"data_source": "321"},
        "ttl_s": 2_592_000,
        "metadata": '{"my_boolean_key":true,"my_string_key":"my_string_value"}',
        "strategy": "MERGE",
    }
    streams.ingest_events(
        scope=SCOPE,
        stream_id=STREAM,
        direct_contents_source=made_source("Bye."),
        config={"force_flush": True},
    )
    streams.flush()
    assert recorder.generations[1].batches[0].config == {}


def test_an_event_id_is_taken_once_across_requests_flushes_and_restarts(
    streams: EventStreams, recorder: Recorder, clock: FakeClock, tmp_path: Path
) -> None:
    for round_ in range(12):
        again = open_streams(tmp_path, clock, recorder) if round_ % 2 else streams
        ingest(again, event(f"first {round_}", "a"), event(f"new {round_}", f"n{round_}"))
        again.flush()
    texts = [text for each in recorder.windows for text in each.messages]
    assert texts == ["first 0", *(f"new {n}" for n in range(12))]


def test_events_without_an_id_are_never_duplicates(
    streams: EventStreams, recorder: Recorder
) -> None:
    ingest(streams, event("hi"), event("hi"), generation_trigger_config=rule(event_count=9))
    ingest(streams, event("hi"), event("hi", "one"), event("hi", "two"))
    assert streams.pending(SCOPE) == 5
    names = set()
    ingest(streams, config={"force_flush": True})
    streams.flush()
    names = {each["id"] for each in recorder.generations[0].batches[0].messages}
    assert len(names) == 5


def test_streams_of_one_id_do_not_mix_across_scopes(streams: EventStreams) -> None:
    streams.ingest_events(
        scope={"user_id": "a"},
        direct_contents_source=source(event("x", "e")),
        generation_trigger_config=rule(event_count=5),
    )
    streams.ingest_events(
        scope={"user_id": "b"},
        direct_contents_source=source(event("y", "e")),
        generation_trigger_config=rule(event_count=5),
    )
    assert streams.pending({"user_id": "a"}) == streams.pending({"user_id": "b"}) == 1


def test_events_come_in_order_of_their_time_else_of_ingestion(
    streams: EventStreams, recorder: Recorder, clock: FakeClock
) -> None:
    early = (clock.now - timedelta(hours=1)).isoformat()
    ingest(streams, event("now"), generation_trigger_config=rule(event_count=3))
    clock.sleep(1)
    ingest(streams, event("later"), event("early", event_time=early))
    streams.flush()
    assert recorder.windows[0].messages == ("early", "now", "later")


def test_which_rule_holds(streams: EventStreams, clock: FakeClock) -> None:
    """The request's, else the stream's, else the table's, else at once."""
    at_once = ingest(streams, event("a"))
    assert streams.due() == {at_once.name: "no_rule"}
    streams.set_default_trigger(rule(event_count=2))
    assert not streams.due()
    ingest(streams, event("b"))
    assert streams.due() == {at_once.name: "event_count"}
    ingest(streams, generation_trigger_config=rule(event_count=3))
    assert not streams.due()
    ingest(streams, event("c"))
    assert streams.due() == {at_once.name: "event_count"}
    streams.set_default_trigger(None)
    assert streams.due() == {at_once.name: "event_count"}
    del clock


def test_the_same_rule_again_does_not_begin_its_interval_anew(
    streams: EventStreams, clock: FakeClock
) -> None:
    for _ in range(5):
        ingest(streams, event("x"), generation_trigger_config=rule(fixed_interval="300s"))
        clock.sleep(70)
    assert [each.reason for each in streams.flush().streams] == ["fixed_interval"]


def test_a_tick_after_the_oldest_new_event_makes_a_stream_due(
    streams: EventStreams, clock: FakeClock
) -> None:
    ingest(streams, event("x"), generation_trigger_config=rule(fixed_interval="300s"))
    clock.sleep(310)
    ingest(streams, event("y"))
    assert list(streams.due().values()) == ["fixed_interval"]


def test_a_request_without_events_only_changes_the_rule(
    streams: EventStreams, recorder: Recorder
) -> None:
    ingest(streams, event("x"), generation_trigger_config=rule(event_count=2))
    operation = ingest(streams, generation_trigger_config=rule(event_count=1))
    assert not operation.done
    assert not recorder.windows
    forced = ingest(streams, config={"force_flush": True, "wait_for_completion": True})
    assert forced.done
    assert len(recorder.windows) == 1


def test_what_is_left_alone_for_a_day_is_flushed(streams: EventStreams, clock: FakeClock) -> None:
    ingest(streams, event("x"), generation_trigger_config=rule(event_count=2))
    clock.sleep(24 * 3600 - 1)
    assert not streams.flush().streams
    assert streams.flush(now=clock.now + timedelta(seconds=1)).streams[0].reason == "24_hours"
