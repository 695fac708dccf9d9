"""Erasing takes events out of the files of streams, and leaves the others' where they are."""

from pathlib import Path

import pytest

from memorypipe.errors import TableError
from memorypipe.streams.segments import EVENTS, OPERATIONS
from memorypipe.streams.streams import EventStreams
from memorypipe.streams.view import Record
from memorypipe.table.erasing.requests import EraseRequest
from memorypipe.table.table import MemoryTable
from tests.support.streams import FakeClock, Recorder, event, open_streams, rule, small_log, source

ANA, BEN = {"user_id": "ana-person"}, {"user_id": "ben-person"}
OFTEN = rule(event_count=100)
MARKER = "zebra-striped umbrella"


@pytest.fixture
def table(tmp_path: Path) -> MemoryTable:
    return MemoryTable.open(tmp_path, embedder="none")


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def streams(table: MemoryTable, recorder: Recorder) -> EventStreams:
    return open_streams(Path(table.uri), FakeClock(), recorder)


def _say(streams: EventStreams, scope: dict[str, str], text: str, name: str) -> None:
    streams.ingest_events(
        scope=scope,
        direct_contents_source=source(event(text, name)),
        generation_trigger_config=OFTEN,
    )


def _holding(table: MemoryTable, *words: str) -> list[str]:
    files = [path for path in Path(table.uri, "streams").rglob("*") if path.is_file()]
    return [
        path.name for path in files if any(word.encode() in path.read_bytes() for word in words)
    ]


@pytest.mark.parametrize("events", [1, 7])
def test_no_file_of_the_streams_holds_what_an_erased_scope_said(
    table: MemoryTable, streams: EventStreams, recorder: Recorder, events: int
) -> None:
    """In the log alone, and in checkpoints; other streams, pending and known events stay."""
    for number in range(events):
        _say(streams, ANA, f"{MARKER} {number}", f"a{number}")
        _say(streams, BEN, f"I like chess {number}", f"b{number}")
    assert _holding(table, MARKER)

    receipt = table.erase([EraseRequest(scope=ANA)])

    assert receipt.is_complete
    assert receipt.removed.events == events
    assert _holding(table, MARKER, "ana-person") == []
    assert (streams.pending(ANA), streams.pending(BEN)) == (0, events)
    _say(streams, BEN, "said before", "b0")
    assert streams.pending(BEN) == events, "a known event is still known"
    streams.ingest_events(scope=BEN, config={"force_flush": True})
    streams.flush()
    assert [window.messages for window in recorder.windows] == [
        tuple(f"I like chess {number}" for number in range(events))
    ]


def test_of_one_message_what_it_may_have_led_to_goes_and_what_is_pending_stays(
    table: MemoryTable, streams: EventStreams, recorder: Recorder
) -> None:
    _say(streams, ANA, "I moved to Rome", "a0")
    streams.ingest_events(scope=ANA, config={"force_flush": True}).wait(1)
    _say(streams, ANA, MARKER, "a1")
    _say(streams, ANA, "I like tea", "a2")

    receipt = table.erase([EraseRequest(scope=ANA, source_id="a1")])

    assert receipt.is_complete
    assert receipt.removed.events == 2
    assert _holding(table, MARKER, "Rome") == []
    assert streams.pending(ANA) == 1
    streams.ingest_events(scope=ANA, config={"force_flush": True}).wait(1)
    assert recorder.windows[-1].messages == ("I like tea",)


def test_a_preview_counts_the_same_and_changes_nothing(
    table: MemoryTable, streams: EventStreams
) -> None:
    _say(streams, ANA, MARKER, "a0")
    assert table.preview_erase([EraseRequest(scope=ANA)]).events == 1
    assert streams.pending(ANA) == 1


def test_while_memories_are_made_nothing_is_erased(
    table: MemoryTable, streams: EventStreams, recorder: Recorder
) -> None:
    """A process that was killed in the middle has left its claim."""

    class KilledError(BaseException):
        pass

    recorder.error = KilledError()  # type: ignore[assignment]  # as a kill, nothing catches it
    _say(streams, ANA, MARKER, "a0")
    with pytest.raises(KilledError):
        streams.ingest_events(scope=ANA, config={"force_flush": True}).wait(1)
    with pytest.raises(TableError, match="memorypipe flush"):
        table.erase([EraseRequest(scope=ANA)])
    assert _holding(table, MARKER)


def test_another_process_that_read_what_was_erased_writes_nothing_of_it(
    table: MemoryTable, streams: EventStreams
) -> None:
    for number in range(4):
        _say(streams, ANA, f"{MARKER} {number}", f"a{number}")
    others = open_streams(Path(table.uri), FakeClock(), Recorder())
    assert others.pending(ANA) == 4

    table.erase([EraseRequest(scope=ANA)])
    for number in range(9):
        _say(others, BEN, f"I like chess {number}", f"b{number}")

    assert _holding(table, MARKER) == []
    assert (others.pending(ANA), others.pending(BEN)) == (0, 9)
    assert (streams.pending(ANA), streams.pending(BEN)) == (0, 9)


def test_a_view_as_new_as_the_state_that_was_written_anew_is_not_carried_on(
    table: MemoryTable, streams: EventStreams
) -> None:
    _say(streams, ANA, MARKER, "a0")
    path = Path(table.uri, "streams")
    log, other = small_log(path), small_log(path)
    other.view()
    log.begin_anew(
        events=EVENTS.empty_table(), operations=OPERATIONS.empty_table(), without=log.view().states
    )
    for at_us in range(6):
        other.commit(lambda _view, at_us=at_us: Record(at_us=at_us))  # type: ignore[misc]  # bound now
    assert _holding(table, MARKER) == []
    assert not list(other.view().all_states())
