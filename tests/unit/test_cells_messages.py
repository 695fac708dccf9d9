"""The messages cell: who said what, however it was written down."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from memorypipe.cells.messages import parse_messages
from memorypipe.errors import InvalidCellError


def said(cell: Any) -> list[tuple[str, str]]:
    return [(turn.role, turn.content) for turn in parse_messages(cell, 0)]


@pytest.mark.parametrize(
    "cell", [None, "", "  \n", "[]", [], "[user]:  ", [{"role": "user", "content": None}]]
)
def test_nothing_said_gives_no_turns(cell: Any) -> None:
    assert parse_messages(cell, 0) == ()


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("[user]: Hi\n[assistant]: Hello", [("user", "Hi"), ("assistant", "Hello")]),
        ("[User]: Hi\r\n[model]: Hello\r\n", [("user", "Hi"), ("assistant", "Hello")]),
        ("[user]: a\n\n  b | c\n[tool]: d", [("user", "a\n\n  b | c"), ("tool", "d")]),
        ("[Maria Díaz]: Hi", [("Maria Díaz", "Hi")]),
        ("[null]: Hi", [("null", "Hi")]),
        ("[a]:\n[b]:\t[c]: d\n [e]: f", [("b", "[c]: d\n [e]: f")]),
        ("I like tea.", [("user", "I like tea.")]),
        (
            "[1]: https://example.org is a footnote",
            [("user", "[1]: https://example.org is a footnote")],
        ),
        ("[note] no speaker", [("user", "[note] no speaker")]),
        ("{not json}", [("user", "{not json}")]),
        ("From May\n[user]: Hi", [("system", "From May"), ("user", "Hi")]),
    ],
)
def test_a_transcript_is_split_at_its_speakers(cell: str, expected: list[tuple[str, str]]) -> None:
    assert said(cell) == expected


def test_what_nobody_said_is_background() -> None:
    cell = "From May\n[system]: a\n[tool]: b\n[developer]: c\n[user]: d\n[assistant]: e"
    background = [turn.background for turn in parse_messages(cell, 0)]
    assert background == [True, True, True, True, False, False]
    roles = ["system", "tool", "Developer", "function", "user", "model"]
    messages = [{"role": role, "content": "a"} for role in roles]
    background = [turn.background for turn in parse_messages(messages, 0)]
    assert background == [True, True, True, True, False, False]


def test_a_json_array_and_a_list_of_structs_read_the_same() -> None:
    structs = [
        {
            "role": "user",
            "content": "a",
            "name": "Ann",
            "timestamp": "2023-05-08T10:00:00Z",
            "id": "m1",
        },
        {
            "role": "model",
            "content": "b",
            "name": None,
            "timestamp": None,
            "id": 2,
            "background": True,
        },
    ]
    text = (
        '[{"role":"user","content":"a","name":"Ann","timestamp":"2023-05-08T10:00:00Z","id":"m1"},'
        '{"role":"model","content":"b","id":2,"background":true}]'
    )
    turns = parse_messages(text, 0)
    assert turns == parse_messages(structs, 0)
    first, second = turns
    assert (first.name, first.timestamp, first.id) == (
        "Ann",
        datetime(2023, 5, 8, 10, tzinfo=UTC),
        "m1",
    )
    assert (second.role, second.id, second.background) == ("assistant", "2", True)


@pytest.mark.parametrize(
    "timestamp",
    [
        "2023-05-08T02:00:00",
        "2023-05-08T02:00:00+00:00",
        "2023-05-07T19:00:00-07:00",
        datetime(2023, 5, 8, 2),  # noqa: DTZ001  # without a zone it is UTC
        datetime(2023, 5, 7, 19, tzinfo=timezone(timedelta(hours=-7))),
    ],
)
def test_times_become_utc(timestamp: Any) -> None:
    (turn,) = parse_messages([{"role": "user", "content": "a", "timestamp": timestamp}], 0)
    assert turn.timestamp == datetime(2023, 5, 8, 2, tzinfo=UTC)


def test_of_parts_the_text_is_read_and_the_rest_is_named() -> None:
    parts = [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "file"},
        "and this",
        {"x": 1},
    ]
    assert said([{"role": "user", "content": parts}]) == [
        ("user", "Look:\n[image]\n[file]\nand this\n[attachment]")
    ]


def test_tool_calls_say_nothing() -> None:
    assert said([{"role": "assistant", "tool_calls": [{}]}]) == []


def test_what_no_store_can_hold_is_replaced() -> None:
    assert said('[{"role":"user","content":"a\\ud800\\u0000"}]') == [("user", "a\ufffd\ufffd")]


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        (5, "int"),
        ('["a"]', "message 0 must be an object"),
        ('{"role":"user","content":"a"}', "JSON array"),
        ('[{"role":"user","content":"a"', "begins like a JSON array"),
        ([{"content": "a"}], "'role'"),
        ([{"role": " ", "content": "a"}], "'role'"),
        ([{"role": "user"}], "'content'"),
        ([{"role": "user", "content": 5}], "'content' of type int"),
        ([{"role": "user", "content": [5]}], "part of type int"),
        ([{"role": "user", "content": "a", "timestamp": "8 May"}], "'8 May'"),
        ([{"role": "user", "content": "a", "timestamp": 5}], "'timestamp' of type int"),
        ([{"role": "user", "content": "a", "timestamp": "0001-01-01T00:00:00+14:00"}], "ISO 8601"),
        ([{"role": "user", "content": "a", "name": 5}], "'name' of type int"),
        ([{"role": "user", "content": "a", "id": 1.5}], "'id' of type float"),
        ([{"role": "user", "content": "a", "background": "x"}], "'background' 'x'"),
    ],
)
def test_bad_input_names_row_and_reason(cell: Any, reason: str) -> None:
    with pytest.raises(InvalidCellError, match="Row 7: the messages cell") as raised:
        parse_messages(cell, 7)
    assert reason in str(raised.value)
