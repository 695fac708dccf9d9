"""Operations of event streams: what is sealed, made, told, and taken over from who died."""

import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from memorypipe.errors import InvalidArgumentError, TableError
from memorypipe.streams import leases
from memorypipe.streams.generation import Generated, Generation, MadeMemory
from memorypipe.streams.log import Log
from memorypipe.streams.operations import OperationResult
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
    small_log,
    source,
)


def test_an_operation_is_sealed_when_its_generation_starts(
    tmp_path: Path, clock: FakeClock
) -> None:
    seen: list[Any] = []
    opened: list[EventStreams] = []

    def generate(generation: Generation) -> dict[bytes, Generated]:
        if not seen:
            seen.append(ingest(opened[0], event("meanwhile")))
            ingest(opened[0], event("and again"))
            # It is due again, and waits until what is under way has ended.
            assert not open_streams(tmp_path, clock, Recorder()).flush().streams
        batch = generation.batches[0]
        made = MadeMemory(action="CREATED", memory_id="m", text="x", revision=1)
        return {batch.key: Generated(memories=(made,))}

    streams = EventStreams(tmp_path, pipeline=generate, clock=clock, log=small_log)
    opened.append(streams)
    first = ingest(streams, event("one"), generation_trigger_config=rule(event_count=2))
    assert ingest(streams, event("two")) == first
    streams.flush()
    assert first.done
    assert first.error is None
    assert seen[0] != first
    assert not seen[0].done
    assert first.result is not None
    assert first.result.memories == (
        MadeMemory(action="CREATED", memory_id="m", text="x", revision=1),
    )
    again = EventStreams(tmp_path).get_operation(first.name)
    assert again.done
    assert again.result == first.result
    with pytest.raises(InvalidArgumentError, match="no operation"):
        streams.get_operation("op_x")
    with pytest.raises(InvalidArgumentError, match="no operation here"):
        streams.get_operation(f"{first.name[:-1]}9")


def test_a_failed_generation_ends_its_operation_and_leaves_its_events_pending(
    streams: EventStreams, recorder: Recorder
) -> None:
    streams.ingest_events(
        scope=SCOPE, stream_id="good", direct_contents_source=source(event("fine"))
    )
    failed = streams.ingest_events(
        scope=SCOPE,
        stream_id="bad",
        direct_contents_source=source(event("lost?", "e")),
        config={"metadata": {"k": {"string_value": "v"}}},
    )
    recorder.failing = {"bad"}
    report = streams.flush()
    assert report.failed == 1
    assert (failed.done, failed.error, failed.result) == (True, "the model is away", None)
    assert streams.pending(SCOPE, "bad") == 1
    recorder.failing = set()
    assert [(each.reason, each.error) for each in streams.flush().streams] == [("retry", None)]
    assert recorder.windows[-1] == Window(KEY, "bad", (), ("lost?",))
    assert recorder.generations[-1].batches[0].config["metadata"] == '{"k":"v"}'
    assert len({each.run_id for each in recorder.generations}) == 2


def test_an_error_of_the_pipeline_is_told_by_the_operations(
    streams: EventStreams, recorder: Recorder
) -> None:
    recorder.error = TableError("the disk is full")
    operation = ingest(streams, event("x"), config={"wait_for_completion": True})
    assert operation.error == "TableError: the disk is full"
    assert streams.pending(SCOPE) == 1


def test_forcing_what_is_not_there_ends_at_once(streams: EventStreams, recorder: Recorder) -> None:
    operation = ingest(streams, config={"force_flush": True, "wait_for_completion": True})
    assert operation.result == OperationResult(run_id=None)
    ingest(streams, event("x", "e"), config={"wait_for_completion": True})
    duplicate = ingest(streams, event("x", "e"), config={"wait_for_completion": True})
    assert duplicate.result == OperationResult(run_id=None)
    assert len(recorder.windows) == 1


def test_everything_due_is_one_generation_and_streams_without_revisions_another(
    streams: EventStreams, recorder: Recorder
) -> None:
    streams.ingest_batch(
        [
            {
                "scope": {"user_id": str(number)},
                "direct_contents_source": source(event(f"x{number}")),
                "config": {"disable_memory_revisions": number % 10 == 0},
            }
            for number in range(30)
        ]
    )
    report = streams.flush()
    assert [each.has_revisions for each in recorder.generations] == [True, False]
    assert [len(each.batches) for each in recorder.generations] == [27, 3]
    assert report.evaluated == 30
    assert len(report.run_ids) == 2
    assert not streams.flush().run_ids


def test_what_a_killed_process_was_at_is_taken_over_under_the_same_run_id(
    tmp_path: Path, clock: FakeClock, recorder: Recorder
) -> None:
    ran: list[str] = []

    def killed(generation: Generation) -> dict[bytes, Generated]:
        ran.append(generation.run_id)
        raise KeyboardInterrupt

    streams = EventStreams(tmp_path, pipeline=killed, clock=clock, log=small_log)
    operation = ingest(streams, event("a"))
    with pytest.raises(KeyboardInterrupt):
        streams.flush()
    later = open_streams(tmp_path, clock, recorder)
    ingest(later, event("b"), generation_trigger_config=rule(event_count=2))
    report = later.flush()
    assert [(each.reason, each.operation) for each in report.streams] == [
        ("taken_over", operation.name)
    ]
    assert [each.run_id for each in recorder.generations] == ran
    assert recorder.windows == [Window(KEY, "default", (), ("a",))]
    assert operation.done


@pytest.mark.parametrize("fails", [False, True])
def test_what_came_while_a_killed_process_was_at_it_is_flushed_with_it(
    tmp_path: Path, clock: FakeClock, recorder: Recorder, *, fails: bool
) -> None:
    def killed(_generation: Generation) -> dict[bytes, Generated]:
        raise KeyboardInterrupt

    streams = EventStreams(tmp_path, pipeline=killed, clock=clock, log=small_log)
    ingest(streams, event("a"))
    with pytest.raises(KeyboardInterrupt):
        streams.flush()

    def generate(generation: Generation) -> Any:
        if fails:
            return {batch.key: Generated(error="no model") for batch in generation.batches}
        return recorder(generation)

    later = EventStreams(tmp_path, pipeline=generate, clock=clock, log=small_log)
    ingest(later, event("b"))
    report = later.flush()
    # What has just failed is left for another time, with what came to it.
    told = [("taken_over", 1)] if fails else [("taken_over", 1), ("no_rule", 1)]
    assert [(each.reason, each.events) for each in report.streams] == told
    assert report.failed == int(fails)
    assert bool(later.due()) is fails
    assert [window.messages for window in recorder.windows] == ([] if fails else [("a",), ("b",)])


def test_who_was_taken_for_dead_does_not_end_what_another_works_on(
    tmp_path: Path, clock: FakeClock
) -> None:
    started, go_on = threading.Event(), threading.Event()

    def slow(generation: Generation) -> Any:
        started.set()
        assert go_on.wait(30)
        return {generation.batches[0].key: Generated(error="the second one failed")}

    second = EventStreams(tmp_path, pipeline=slow, clock=clock)
    thread = threading.Thread(target=second.flush)

    def thought_dead(_generation: Generation) -> dict[bytes, Generated]:
        leases._held.clear()
        thread.start()
        assert started.wait(30)
        return {}

    first = EventStreams(tmp_path, pipeline=thought_dead, clock=clock)
    operation = ingest(first, event("a"))
    first.flush()
    assert not operation.done
    go_on.set()
    thread.join()
    assert operation.error == "the second one failed"


def test_two_flushes_at_once_do_not_take_the_same(tmp_path: Path, clock: FakeClock) -> None:
    started, go_on = threading.Event(), threading.Event()
    recorder = Recorder()

    def slow(generation: Generation) -> Any:
        started.set()
        assert go_on.wait(30)
        return recorder(generation)

    first = EventStreams(tmp_path, pipeline=slow, clock=clock)
    operation = ingest(first, event("a"))
    thread = threading.Thread(target=first.flush)
    thread.start()
    assert started.wait(30)
    other = open_streams(tmp_path, clock, recorder)
    assert not other.flush().streams
    assert not other.get_operation(operation.name).wait(timeout_s=0)
    go_on.set()
    thread.join()
    assert other.get_operation(operation.name).done
    assert len(recorder.windows) == 1


def test_a_process_that_only_ingests_waits_for_others(tmp_path: Path, clock: FakeClock) -> None:
    streams = EventStreams(tmp_path, clock=clock)
    operation = ingest(streams, event("a"))
    assert not operation.wait(timeout_s=0)
    with pytest.raises(InvalidArgumentError, match="pipeline is None"):
        streams.flush()
    with pytest.raises(InvalidArgumentError, match="auto_flush=True needs a pipeline"):
        EventStreams(tmp_path, auto_flush=True)
    with pytest.raises(InvalidArgumentError, match="s3://b/t"):
        EventStreams("s3://b/t")


def test_a_thread_flushes_by_itself_and_one_failure_does_not_end_it(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    calls, enough = [0], threading.Event()

    def failing_clock() -> Any:
        calls[0] += 1
        if calls[0] == 1:
            raise TableError("no time")
        if calls[0] > 3:
            enough.set()
        return clock()

    with (
        caplog.at_level(logging.WARNING),
        EventStreams(
            tmp_path,
            pipeline=Recorder(),
            clock=failing_clock,
            auto_flush=True,
            flush_every_s=0.001,
        ),
    ):
        assert enough.wait(30)
    assert "no time" in caplog.text
    assert not [t for t in threading.enumerate() if t.name == "memorypipe-flush"]


def test_a_process_that_was_away_begins_at_the_newest_checkpoint(
    tmp_path: Path, clock: FakeClock
) -> None:
    away = EventStreams(tmp_path, clock=clock, log=small_log)
    ingest(away, event("0", "e0"), generation_trigger_config=rule(event_count=100))
    busy = EventStreams(tmp_path, clock=clock, log=small_log)
    for number in range(1, 20):
        ingest(busy, event(str(number), f"e{number}"))
    assert len(list((tmp_path / "streams" / "log").rglob("*.json"))) < 6
    assert len(list((tmp_path / "streams" / "checkpoints").iterdir())) == 1
    ingest(away, event("0", "e0"), event("20", "e20"))
    assert away.pending(SCOPE) == busy.pending(SCOPE) == 21


def test_a_commit_whose_ground_was_removed_is_told_to_be_unknown(
    tmp_path: Path, clock: FakeClock
) -> None:
    """A process that is held up between two steps must not take a removed place for a free one."""
    log = Log(tmp_path / "streams", commits=3, kept_s=0.0)
    streams = EventStreams(tmp_path, clock=clock, log=lambda _path: log)
    ingest(streams, event("0", "e0"))
    busy = EventStreams(tmp_path, clock=clock, log=small_log)

    def build(view: Any) -> Any:
        from memorypipe.streams.view import Record  # noqa: PLC0415  # beside its only use

        for number in range(1, 8):
            ingest(busy, event(str(number), f"e{number}"))
        return Record(at_us=0, states=view.states)

    with pytest.raises(TableError, match="is unknown"):
        log.commit(build)
    assert EventStreams(tmp_path, clock=clock).pending(SCOPE) == 8
