"""Random histories of ingestion, flushes and restarts against a plain reading of the triggers."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.streams import FakeClock, Recorder, Reference, event, open_streams, rule, source

NAMES = ("a", "b")
RULES: list[dict[str, int]] = [
    {"event_count": 1},
    {"event_count": 3},
    {"event_count": 3, "overlap": 2},
    {"event_count": 4, "idle": 120, "overlap": 1},
    {"idle": 60},
    {"idle": 120, "overlap": 5},
    {"every": 60, "overlap": 1},
    {"every": 180},
    {"every": 180, "event_count": 2},
]
SPELLED = {"event_count": "event_count", "overlap": "overlap_event_count"}

events = st.lists(
    st.tuples(
        st.one_of(st.none(), st.sampled_from([f"e{n}" for n in range(12)])),
        st.one_of(st.none(), st.integers(-300, 900)),
    ),
    max_size=4,
)
steps = st.one_of(
    st.tuples(
        st.just("ingest"),
        st.sampled_from(NAMES),
        events,
        st.one_of(st.none(), st.sampled_from(RULES)),
        st.booleans(),
    ),
    st.tuples(st.just("sleep"), st.sampled_from([1, 30, 60, 90, 200, 90_000])),
    st.tuples(st.just("flush")),
    st.tuples(st.just("flush")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("default"), st.one_of(st.none(), st.sampled_from(RULES))),
)


def spelled(values: dict[str, int] | None) -> Any:
    if values is None:
        return None
    known: dict[str, Any] = {
        SPELLED[name]: value for name, value in values.items() if name in SPELLED
    }
    if "idle" in values:
        known["idle_duration"] = f"{values['idle']}s"
    if "every" in values:
        known["fixed_interval"] = f"{values['every']}s"
    return rule(**known)


def check(history: list[tuple[Any, ...]], folder: str) -> None:
    clock, recorder, reference = FakeClock(), Recorder(), Reference()
    start = clock.now
    streams = open_streams(Path(folder), clock, recorder)
    number = 0
    for kind, *values in history:
        now_s = (clock.now - start).total_seconds()
        if kind == "ingest":
            name, given_events, chosen, force = values
            told = []
            for event_id, said_s in given_events:
                number += 1
                told.append((f"t{number}", event_id, said_s))
            reference.ingest(name, now_s, told, chosen, force=force)
            streams.ingest_events(
                scope={"user_id": name},
                direct_contents_source=source(
                    *(
                        event(text, event_id, event_time=at(start, said_s))
                        for text, event_id, said_s in told
                    )
                ),
                generation_trigger_config=spelled(chosen),
                config={"force_flush": force},
            )
        elif kind == "sleep":
            clock.sleep(values[0])
        elif kind == "restart":
            streams = open_streams(Path(folder), clock, recorder)
        elif kind == "default":
            if values[0] != reference.default:
                reference.default, reference.default_set_s = values[0], now_s
            streams.set_default_trigger(spelled(values[0]))
        else:
            reference.flush(now_s)
            streams.flush()
    found = [(each.scope[0][1], each.overlap, each.messages) for each in recorder.windows]
    assert by_stream(found) == by_stream(reference.windows)
    for name in NAMES:
        known = reference.streams.get(name)
        assert streams.pending({"user_id": name}) == (0 if known is None else len(known.pending))


def at(start: Any, said_s: float | None) -> Any:
    from datetime import timedelta  # noqa: PLC0415  # for this one line

    return None if said_s is None else start + timedelta(seconds=said_s)


def by_stream(windows: list[tuple[str, Any, Any]]) -> dict[str, list[tuple[Any, Any]]]:
    return {
        name: [(overlap, said) for each, overlap, said in windows if each == name] for name in NAMES
    }


def run(history: list[tuple[Any, ...]]) -> None:
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108  # no disk to wait for
    with tempfile.TemporaryDirectory(dir=base) as folder:
        check(history, folder)


@given(history=st.lists(steps, min_size=5, max_size=25))
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_the_same_flushes_windows_and_overlaps(history: list[tuple[Any, ...]]) -> None:
    run(history)


@pytest.mark.slow
@given(history=st.lists(steps, min_size=5, max_size=40))
@settings(max_examples=1_000, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_same_in_a_thousand_histories(history: list[tuple[Any, ...]]) -> None:
    run(history)
