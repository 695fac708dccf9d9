"""A run as people read it."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.text import Text

from memorypipe.cli.render_run import (
    change_lines,
    choose_changes,
    open_window_lines,
    summary_lines,
)
from memorypipe.pipeline.runs.summary import RunSummary


def _action(event: str, text: str, *, old: str | None = None, user: str = "u1") -> dict[str, Any]:
    return {
        "event": event,
        "text": text,
        "old_memory": old,
        "scope": [("user_id", user)],
        "scope_key": user,
        "event_time": datetime(2024, 5, 1, tzinfo=UTC),
    }


def _plain(lines: Iterable[Text]) -> list[str]:
    return [line.plain.rstrip() for line in lines]


def test_changes_stand_under_their_scope_with_a_sign_each() -> None:
    changes = [
        _action("ADD", "Likes tea"),
        _action("UPDATE", "Lives in Oslo", old="Lives in Bergen"),
        _action("DELETE", "No cat any more", old="Has a cat", user="u2"),
    ]
    assert _plain(change_lines(changes)) == [
        "  user_id=u1",
        "    + Likes tea  2024-05-01",
        "    ~ Lives in Bergen → Lives in Oslo  2024-05-01",
        "  user_id=u2",
        "    - Has a cat  2024-05-01",
    ]


def test_what_changes_nothing_is_no_change() -> None:
    assert choose_changes([_action("NONE", "x"), _action("ADD", "y")], 5) == [_action("ADD", "y")]


@pytest.mark.parametrize(
    ("events", "limit", "wanted"),
    [
        ("AAAA", 2, "AA"),
        ("AAAAAAUUUUUUDDDDDD", 6, "AAUUDD"),
        ("AAAAAAU", 4, "AAAU"),
        ("DDDDDDDA", 4, "DDDA"),
        ("UUUUUUUUDA", 6, "UUUUDA"),
        ("AUD", 10, "AUD"),
        ("", 3, ""),
    ],
)
def test_some_changes_are_some_of_each_kind_in_their_order(
    events: str, limit: int, wanted: str
) -> None:
    names = {"A": "ADD", "U": "UPDATE", "D": "DELETE"}
    actions = [_action(names[e], str(n)) for n, e in enumerate(events)]
    chosen = choose_changes(actions, limit)
    assert "".join(action["event"][0] for action in chosen) == wanted
    places = [int(action["text"]) for action in chosen]
    assert places == sorted(places)


def _summary(
    changes: Sequence[dict[str, Any]] = (), reasons: Sequence[str] = (), **values: Any
) -> list[str]:
    summary = RunSummary(**{"run_id": "run_1", "status": "done", "model": "m", **values})
    steps = [("memorypipe show", "look"), ("memorypipe history mem_1", "look closer")]
    lines = summary_lines(summary, changes, table="t", next_steps=steps, open_reasons=reasons)
    return _plain(lines)


def test_a_summary_tells_counts_cost_place_and_what_to_do_next() -> None:
    lines = _summary(
        conversations=1200,
        windows=1,
        facts=5,
        added=2,
        none=1,
        calls=3,
        attempts=3,
        tokens_in=1000,
        tokens_out=10,
        wall_s=1.26,
    )
    assert lines == [
        "done  run_1",
        "  log       1,200 conversations · 1 new window · 5 facts",
        "  memories  + 2 added   ~ 0 updated   - 0 deleted   1 fact changed nothing",
        "  model     3 calls · 1,000 + 10 tokens · 1.3 s · m",
        "  table     t",
        "",
        "  memorypipe show           look",
        "  memorypipe history mem_1  look closer",
    ]


def test_calls_that_the_journal_answered_or_that_were_tried_again_are_told() -> None:
    model = _summary(calls=5, attempts=3, journal_hits=4, cost=0.5)[3]
    assert "4 of them from the journal" in model
    assert "3 requests sent" in model
    assert "cost 0.5000" in model


def test_what_was_asked_in_batches_is_told_apart_from_calls() -> None:
    batch = {"batches": 2, "requests": 1500, "answered": 1400, "unusable": 0, "failed": 100}
    tokens = {"expired": 0, "ignored": 3, "prompt_tokens": 9000, "completion_tokens": 70}
    assert _summary(batch={**batch, **tokens})[4] == (
        "  batches   1,500 requests in 2 · 1,400 answered · 100 failed · "
        "9,000 + 70 tokens at batch prices"
    )
    assert "100 failed · 4 lost · " in _summary(batch={**batch, **tokens, "lost": 4})[4]


def test_what_did_not_stand_a_check_is_told_where_there_is_any() -> None:
    shown = _summary(unsupported=2, unverified=1)
    told = "2 facts unsupported by sources · 1 fact decided otherwise than the model did"
    assert f"  checks    {told}, see rationale" in shown
    assert not any("checks" in line for line in _summary())


def test_how_long_requests_took_and_what_failed_is_told_where_something_was_sent() -> None:
    lines = _summary(
        latency_ms={"p50": 74.6, "p90": 1_250.0, "p99": 2_000.0, "max": 61_000.0},
        max_in_flight=64,
        waited_s={"concurrency": 12.25, "qps": 0.2},
        failures={"timeout": 3, "http_429": 12},
    )
    assert lines[4] == (
        "  requests  p50 75 ms, p90 1.2 s, p99 2.0 s, max 61.0 s · at most 64 at a time · "
        "waited 12.2 s for concurrency"
    )
    assert lines[5] == "  failures  http_429: 12 · timeout: 3"


def test_a_bound_is_named_with_its_option_what_is_left_and_that_the_command_goes_on() -> None:
    stopped_by = {"bound": "max_tokens", "limit": 5_000, "used": 5_120, "reason": "x"}
    shown = "\n".join(_summary(status="stopped", windows_failed=12, stopped_by=stopped_by))
    assert "stopped by --max-total-tokens: 5,120 of 5,000 used; 12 windows left." in shown
    assert "The same command goes on from here" in shown


def test_a_log_without_anything_new_says_so() -> None:
    assert (
        _summary(conversations=1)[1] == "  log       1 conversation · nothing new in it · 0 facts"
    )


def test_changes_that_are_not_shown_are_counted() -> None:
    lines = _summary(changes=[_action("ADD", "x")], added=3, updated=1)
    assert "    … 3 more" in lines


def test_open_windows_come_with_their_reasons_and_unread_lines_with_their_place() -> None:
    lines = _summary(
        status="partial",
        windows_failed=8,
        rejected_lines=1,
        reasons=["timeout"] * 2 + ["b", "c", "d", "e", "f"],
    )
    assert "  ! open for the next run: 8 windows" in lines
    assert "      2 of them: timeout" in lines
    assert "      … 1 other reason" in lines
    assert "  ! could not be read: 1 line, listed in t/runs/run_1/rejects.jsonl" in lines


def test_each_open_window_is_named_with_its_reason() -> None:
    window = {
        "scope_key": "k",
        "conversation_id": "c\x1b",
        "window_id": "w",
        "reason": "was\ncut",
    }
    assert _plain(open_window_lines([window])) == ["  k c\ufffd  w", "      was cut"]
    assert _plain(open_window_lines([])) == ["  no window stays open"]
