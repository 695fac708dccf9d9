from typing import Any

import numpy as np
import pytest

from memorypipe.streams.rules import ABANDONED_AFTER_S, Rule, find_due
from memorypipe.streams.state import StreamState, due_columns, states_table

SECOND = 1_000_000


def reason(state: StreamState, now_s: float, default: Rule | None = None, set_s: int = 0) -> Any:
    columns = due_columns(states_table({}), np.zeros(0, np.bool_), [state])
    due = find_due(columns, int(now_s * SECOND), default, set_s * SECOND)
    return due.reasons[0] if due.reasons else None


def state(*ingested_s: float, **values: Any) -> StreamState:
    times = [int(each * SECOND) for each in ingested_s]
    known = {
        "pending": len(times),
        "newest_us": max(times, default=0),
        "oldest_us": min(times, default=0),
    }
    return StreamState(scope_key="s", stream_id="d", **{**known, **values})


@pytest.mark.parametrize(
    ("stream", "now_s", "expected"),
    [
        (state(), 10**6, None),
        (state(0), 0, "no_rule"),
        (state(0, rule=Rule(event_count=2)), 0, None),
        (state(0, 1, rule=Rule(event_count=2)), 1, "event_count"),
        (state(0, rule=Rule(idle_s=60)), 59.9, None),
        (state(0, rule=Rule(idle_s=60)), 60, "idle_duration"),
        (state(0, 50, rule=Rule(idle_s=60)), 109, None),
        (state(10, rule=Rule(interval_s=300)), 299, None),
        (state(10, rule=Rule(interval_s=300)), 300, "fixed_interval"),
        (state(310, rule=Rule(interval_s=300)), 599, None),
        (state(310, rule=Rule(interval_s=300)), 600, "fixed_interval"),
        (state(300, rule=Rule(interval_s=300)), 599, None),
        (state(10, rule=Rule(interval_s=300), rule_set_us=100 * SECOND), 399, None),
        (state(10, rule=Rule(interval_s=300), rule_set_us=100 * SECOND), 400, "fixed_interval"),
        (state(0, rule=Rule(event_count=5, idle_s=60)), 60, "idle_duration"),
        (state(0, rule=Rule(event_count=1, idle_s=60)), 60, "event_count"),
        (state(0, rule=Rule(event_count=5)), ABANDONED_AFTER_S - 1, None),
        (state(0, rule=Rule(event_count=5)), ABANDONED_AFTER_S, "24_hours"),
        (state(0, rule=Rule(event_count=5), is_forced=True), 0, "force_flush"),
        (state(0, rule=Rule(event_count=5), attempts=1), 0, "retry"),
        (state(rule=Rule(event_count=5), is_forced=True), 0, None),
    ],
)
def test_a_stream_is_due_for_the_first_reason_that_applies(
    stream: StreamState, now_s: float, expected: str | None
) -> None:
    assert reason(stream, now_s) == expected


def test_a_default_rule_is_that_of_streams_without_their_own() -> None:
    default = Rule(interval_s=60)
    assert reason(state(0), 59, default) is None
    assert reason(state(0), 60, default) == "fixed_interval"
    assert reason(state(0), 60, default, set_s=30) is None
    assert reason(state(0, rule=Rule(event_count=9)), 60, default) is None


def test_one_pass_over_all_streams_finds_those_that_are_due() -> None:
    base = {number.to_bytes(16): state(0, rule=Rule(event_count=number)) for number in range(1, 4)}
    newer = [state(0, 0, 0, rule=Rule(event_count=3)), state(0, rule=Rule(event_count=3))]
    replaced = np.array([False, False, True])
    columns = due_columns(states_table(base), replaced, newer)
    due = find_due(columns, 0)
    assert due.places.tolist() == [0, 3]
    assert due.reasons == ("event_count", "event_count")
