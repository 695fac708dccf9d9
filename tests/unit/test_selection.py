"""What a run takes of a log: a period, and whole scopes by a hash of their key."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorypipe.errors import InvalidArgumentError
from memorypipe.logs.windows import new_message_ids, windows_batch
from memorypipe.pipeline.runs.selection import Selection, select_conversations
from memorypipe.schema import CONVERSATIONS

SCOPES = [f'[["user_id","u{n}"]]' for n in range(4_000)]


def day(number: int, hour: int = 0) -> datetime:
    return datetime(2025, 1, number, hour, tzinfo=UTC)


def conversation(
    *said: datetime | None, name: str = "c", scope_key: str = "[]", at: datetime | None = None
) -> dict[str, Any]:
    messages = [
        {"role": "user", "name": None, "content": f"Said {n}.", "timestamp": time, "id": f"m{n}"}
        for n, time in enumerate(said)
    ]
    return {
        "scope": [],
        "scope_key": scope_key,
        "conversation_id": name,
        "messages": [{**message, "background": False} for message in messages],
        "event_time": max((time for time in said if time), default=at),
    }


def selected(*rows: dict[str, Any], **chosen: Any) -> list[dict[str, Any]]:
    table = pa.Table.from_pylist(list(rows), schema=CONVERSATIONS)
    taken = select_conversations(table, Selection(**chosen))
    assert taken.schema.equals(CONVERSATIONS)
    return list(taken.to_pylist())


def new_and_background(row: dict[str, Any]) -> tuple[list[str], list[str]]:
    messages = row["messages"]
    return (
        [m["id"] for m in messages if not m["background"]],
        [m["id"] for m in messages if m["background"]],
    )


def test_the_first_moment_of_a_period_is_in_it_and_its_end_is_not() -> None:
    (row,) = selected(conversation(day(1), day(2), day(3)), since=day(2), until=day(3))
    assert new_and_background(row) == (["m1"], ["m0"])
    assert row["event_time"] == day(2), "what comes later is as good as not said yet"


def test_consecutive_periods_take_each_message_once() -> None:
    row = conversation(*(day(n, hour) for n in range(1, 8) for hour in (0, 9, 23)))
    taken = [
        message_id
        for n in range(1, 8)
        for each in selected(row, since=day(n), until=day(n + 1))
        for message_id in new_and_background(each)[0]
    ]
    assert taken == [message["id"] for message in row["messages"]]


def test_earlier_messages_are_shown_as_background_and_never_paid_for() -> None:
    rows = selected(conversation(day(1), day(1, 1), day(2)), since=day(2))
    windows = windows_batch(pa.Table.from_pylist(rows, schema=CONVERSATIONS)).to_pylist()
    assert [new_message_ids(window) for window in windows] == [["m2"]]
    assert [m["id"] for m in windows[0]["messages"] if m["background"]] == ["m0", "m1"]


def test_a_conversation_without_a_message_in_the_period_is_left_out() -> None:
    assert selected(conversation(day(1)), since=day(2)) == []
    assert selected(conversation(day(3)), until=day(3)) == []
    assert selected(conversation(day(1), day(4)), since=day(2), until=day(4)) == []


def test_an_undated_message_counts_as_said_with_the_dated_one_before_it() -> None:
    row = conversation(None, day(1), None, day(3), None)
    assert new_and_background(selected(row, since=day(2))[0]) == (["m3", "m4"], ["m0", "m1", "m2"])
    assert new_and_background(selected(row, until=day(2))[0])[0] == ["m0", "m1", "m2"]


def test_a_conversation_that_nothing_dates_is_in_no_period_but_in_a_run_without_one() -> None:
    row = conversation(None, None)
    assert selected(row, since=day(1)) == selected(row, until=day(1)) == []
    assert selected(row, sample=1.0) == selected(row) == [row]


def test_messages_that_their_conversation_dates_are_said_then() -> None:
    row = conversation(None, None, at=day(5))
    assert new_and_background(selected(row, since=day(5))[0])[0] == ["m0", "m1"]
    assert selected(row, since=day(6)) == []


def test_times_of_different_zones_are_compared_by_the_moment() -> None:
    row = conversation(day(2))
    berlin = timezone(timedelta(hours=1))
    assert selected(row, since=datetime(2025, 1, 2, 1, tzinfo=berlin))
    assert not selected(row, since=datetime(2025, 1, 2, 2, tzinfo=berlin))
    assert Selection(since=datetime(2025, 1, 2, 1, tzinfo=berlin)).to_dict() == {
        "since": "2025-01-02T00:00:00+00:00"
    }


def test_a_sample_takes_about_its_share_of_the_scopes_and_others_with_another_seed() -> None:
    taken = {
        seed: set(filter(Selection(sample=0.05, seed=seed).takes_scope, SCOPES)) for seed in (0, 1)
    }
    assert all(140 <= len(each) <= 260 for each in taken.values())
    assert len(taken[0] & taken[1]) < 40


@given(
    small=st.floats(0.001, 1.0), large=st.floats(0.001, 1.0), seed=st.integers(-(2**63), 2**63 - 1)
)
def test_with_one_seed_a_smaller_sample_lies_within_a_larger_one(
    small: float, large: float, seed: int
) -> None:
    small, large = sorted((small, large))
    inner, outer = Selection(sample=small, seed=seed), Selection(sample=large, seed=seed)
    assert all(outer.takes_scope(key) for key in SCOPES[:8] if inner.takes_scope(key))


def test_the_scopes_of_a_sample_are_taken_whole_and_are_the_same_for_ever() -> None:
    rows = [conversation(day(n), name=f"c{n}", scope_key=key) for n in (1, 2) for key in SCOPES[:4]]
    taken = {(row["scope_key"], row["conversation_id"]) for row in selected(*rows, sample=0.5)}
    assert taken == {(key, name) for key in (SCOPES[1],) for name in ("c1", "c2")}


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"since": datetime(2025, 1, 1)}, "since must be a time with a zone"),  # noqa: DTZ001  # the point
        ({"since": day(2), "until": day(2)}, "must be before until"),
        ({"sample": 0.0}, "sample must be a share of the scopes"),
        ({"sample": 0.1, "seed": 2**63}, "seed must be a 64-bit integer"),
        ({"sample": 1.5}, "sample must be a share of the scopes"),
    ],
)
def test_what_can_select_nothing_is_refused(chosen: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        Selection(**chosen)
