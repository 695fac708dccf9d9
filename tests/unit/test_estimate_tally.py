"""Windows are added up: equal requests once, known facts exactly, a sample that chance decides."""

from typing import Any

import pyarrow as pa

from memorypipe.pipeline.estimates.counting import COUNTED
from memorypipe.pipeline.estimates.tally import WindowTally


def window(n: int, scope: str = "a") -> dict[str, Any]:
    return {
        "scope": [("user_id", scope)],
        "scope_key": scope,
        "conversation_id": f"c{n}",
        "window_id": f"w{n}",
        "window_index": 0,
        "messages": [],
        "context": None,
        "event_time": None,
    }


def known(n: int, facts: int, scope: str = "a") -> dict[str, Any]:
    cell = ",".join('{"text":"x"}' for _ in range(facts))
    row = {k: v for k, v in window(n, scope).items() if k not in {"messages", "context"}}
    return {
        **row,
        "message_ids": [],
        "message_times": [],
        "facts_json": f'{{"memories":[{cell}]}}',
        "status": "ok",
        "error": None,
        "attempts": 0,
        "prompt_tokens": 120,
        "completion_tokens": 40,
        "latency_ms": 500.0,
        "cached": True,
        "repaired": 0,
        "dropped_items": 0,
        "model": "m",
        "prompt_hash": None,
        "raw_reply": None,
    }


def row(n: int, scope: str = "a", **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "scope_key": scope,
        "prompt_tokens": 100,
        "new_tokens": 50,
        "known": None,
        "sampled": None,
    }
    return {**values, "request": f"{n:016x}{0:016x}", **changes}


def tally(*rows: dict[str, Any], sample: int = 2) -> WindowTally:
    made = WindowTally(sample_size=sample)
    for one in rows:
        made.add(pa.Table.from_pylist([one], schema=COUNTED))
    return made


def test_equal_requests_are_paid_once_and_bring_their_facts_once() -> None:
    made = tally(row(1), row(2), row(1))
    assert made.windows == 3
    assert made.unpaid() == (2, 200, 100.0)
    assert made.journal_hits() == 1


def test_known_facts_are_counted_and_cost_nothing() -> None:
    made = tally(row(1), row(2, known=known(2, 3)), row(3, "b", known=known(3, 4, "b")))
    assert made.unpaid() == (1, 100, 50.0)
    scopes = made.scopes()
    assert scopes.keys == ["a", "b"]
    assert scopes.known_facts.tolist() == [3, 4]
    assert scopes.unknown_tokens.tolist() == [50, 0]
    assert scopes.is_known.tolist() == [False, True]
    assert [call.facts for call in made.measured] == [3, 4]


def test_a_window_that_asks_nothing_is_neither_paid_nor_measured() -> None:
    made = tally(row(0, request=None, prompt_tokens=0, known=known(0, 0)))
    assert (made.unpaid(), made.journal_hits(), made.measured) == ((0, 0, 0.0), 0, [])
    assert made.scopes().is_known.tolist() == [True]


def test_the_sample_holds_the_lowest_requests_whatever_their_order() -> None:
    rows = [row(n, sampled=window(n)) for n in (5, 3, 9, 3, 4)]
    forwards, backwards = tally(*rows), tally(*reversed(rows))
    assert forwards.sampled["window_id"].to_pylist() == ["w3", "w4"]
    assert backwards.sampled["window_id"].to_pylist() == ["w3", "w4"]
    assert forwards.sample_numbers() == {"w3": (100, 50), "w4": (100, 50)}


def test_what_calibration_learns_is_known_from_then_on() -> None:
    made = tally(row(1, sampled=window(1)), row(2, sampled=window(2)), row(1))
    made.learn({"w1": 7})
    assert made.unpaid() == (1, 100, 50.0)
    assert made.scopes().known_facts.tolist() == [14]


def test_no_windows_are_nothing() -> None:
    made = WindowTally(sample_size=2)
    assert (made.windows, made.unpaid(), made.journal_hits()) == (0, (0, 0, 0.0), 0)
    assert made.scopes().keys == []
