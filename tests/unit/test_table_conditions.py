"""Conditions that people write find the rows that they mean, and say where they are wrong."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.schema import TIME
from memorypipe.table.lance.conditions import rows_where

ROWS = pa.table(
    {
        "event": ["ADD", "DELETE", "NONE", "UPDATE"],
        "text": ["Likes tea", "", None, "It's; -- fine"],
        "scope": [{"user_id": "u1"}, {"user_id": "u2"}, {"user_id": None}, {"user_id": "u1"}],
        "event_time": pa.array([datetime(2024, 5, day, tzinfo=UTC) for day in (1, 2, 3, 4)], TIME),
        "topics": [["a"], ["b", "c"], None, []],
    }
)


def found(condition: str) -> list[int]:
    mask = rows_where(ROWS, condition).to_pylist()
    return [place for place, holds in enumerate(mask) if holds]


@pytest.mark.parametrize(
    ("condition", "places"),
    [
        ("event = 'DELETE'", [1]),
        ("event = 'DELETE' or scope.user_id = 'u1'", [0, 1, 3]),
        ("not scope.user_id = 'u1'", [1]),  # null is not true
        ("event in ('ADD', 'NONE')", [0, 2]),
        ("text like '%tea%'", [0]),
        ("text is null", [2]),
        ("text = 'It''s; -- fine'", [3]),
        ("event_time >= timestamp '2024-05-03T00:00:00Z'", [2, 3]),
        ("array_has(topics, 'b')", [1]),
        ("EVENT = 'ADD'", [0]),
        ("1 = 1", [0, 1, 2, 3]),
        ("event = 'x'", []),
    ],
)
def test_a_condition_holds_for_its_rows(condition: str, places: list[int]) -> None:
    assert found(condition) == places


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("evnt = 'ADD'", "at character 1: No field named evnt"),
        ("event = 'ADD' and scope.agent_id = 'a'", "at character 25: Field agent_id not found"),
        ("event = 'ADD' or", "at character 17: Expected: an expression"),
        ("event in ('ADD'", r"at character 16: Expected: \)"),
        ("event = 'ADD", "at character 9: Unterminated string literal"),
        ("event", "does not return a boolean"),
        ("event ~ 'A'", "Operator ~ is not supported"),
        ("event_time > '2024-05-01'", r"A time is written as timestamp '2024-05-01T00:00:00Z'"),
        ("__import__('os').system('x')", "cannot be read"),
    ],
)
def test_what_is_wrong_is_told_with_its_place_and_the_columns(condition: str, told: str) -> None:
    with pytest.raises(InvalidArgumentError, match=told) as caught:
        found(condition)
    message = str(caught.value)
    assert "Columns: event, text, scope.user_id, event_time, topics." in message
    assert ".rs" not in message
    assert "SELECT" not in message


@pytest.mark.parametrize("condition", ["event = 'ADD'; event = 'NONE'", "event = 'ADD' -- so", " "])
def test_what_would_count_for_nothing_is_refused(condition: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"must be (one|a) condition"):
        found(condition)


def test_rows_in_many_chunks_keep_their_places() -> None:
    rows = pa.concat_tables([ROWS] * 50)
    mask = rows_where(rows, "event = 'NONE'").to_pylist()
    assert [place for place, holds in enumerate(mask) if holds] == list(range(2, 200, 4))


def test_no_rows_have_no_matches() -> None:
    assert rows_where(ROWS.slice(0, 0), "event = 'ADD'").to_pylist() == []
