from datetime import UTC, datetime
from typing import Any

import pytest

from memorypipe.errors import LogFormatError
from memorypipe.logs.conversations import build_row
from memorypipe.logs.formats.registry import FORMATS, FormatName, classify, drafts, explode

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "user_id": "u1"}
PERSON = {
    "name": " Ada ",
    "history": {
        "2023-05-02": [{"query": "I paint.", "response": "Nice."}, {"query": "Bye."}],
        "2023-05-01": [{"query": "Hello.", "response": "Hello."}],
        "2023-05-03": [],
    },
}
SAMPLE = {
    "sample_id": "chat-1",
    "conversation": {
        "speaker_a": "Ada",
        "speaker_b": "Ben",
        "session_10_date_time": "12:05 am on 3 June, 2023",
        "session_10": [{"speaker": "Ada", "dia_id": "D10:1", "text": "I moved."}],
        "session_2_date_time": "1:56 pm on 8 May, 2023",
        "session_2": [
            {"speaker": "Ada", "dia_id": "D2:1", "text": "Hi!"},
            {"speaker": "Ben", "dia_id": "D2:2", "text": "Look.", "blip_caption": "a red kite"},
        ],
        "session_3_date_time": "2:00 pm on 9 May, 2023",
    },
}


def rows(value: Any, format_name: FormatName) -> list[dict[str, Any]]:
    built = [build_row(d, scope_columns=None).value for d in drafts(value, format_name=format_name)]
    return [row for row in built if row is not None]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (CHAT, "openai"),
        ({"messages": "[]"}, "openai"),
        (CHAT["messages"], "openai"),
        (SAMPLE, "locomo"),
        (PERSON, "memorybank"),
        ({"text": "Hi"}, None),
        ({"conversation": {"speaker_a": "Ada"}}, None),
        ({"history": []}, None),
        ([], None),
        ([{"text": "Hi"}], None),
        ("Hi", None),
        (None, None),
    ],
)
def test_a_format_is_recognised_by_the_shape_of_a_record(value: Any, name: str | None) -> None:
    assert classify(value) == name


@pytest.mark.parametrize(
    ("value", "records"),
    [
        ([CHAT, CHAT], [CHAT, CHAT]),
        (CHAT["messages"], [CHAT["messages"]]),
        ([SAMPLE], [SAMPLE]),
        (SAMPLE, [SAMPLE]),
        ({" Ada ": PERSON, "Ben": 3}, [{**PERSON, "name": "Ada"}, 3]),
        ([], []),
        ({}, [{}]),
    ],
)
def test_a_document_is_taken_apart_into_its_records(value: Any, records: list[Any]) -> None:
    assert explode(value) == records


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("value", [{"text": "secret"}, [1], "secret", None])
def test_a_record_of_another_shape_is_an_error_without_its_content(
    name: FormatName, value: Any
) -> None:
    with pytest.raises(LogFormatError, match="Expected an object") as caught:
        list(drafts(value, format_name=name))
    assert "secret" not in str(caught.value)


def test_openai_messages_may_be_a_string_of_json() -> None:
    value = {"user_id": "u1", "messages": '[{"role": "user", "content": "Hi"}]'}
    assert rows(value, "openai")[0]["messages"][0]["content"] == "Hi"
    with pytest.raises(LogFormatError, match="holds no JSON"):
        rows({"user_id": "u1", "messages": "[user]: Hi"}, "openai")


@pytest.mark.parametrize(
    ("fields", "scope"),
    [
        ({"user_id": "a"}, [("user_id", "a")]),
        ({"user": 5}, [("user_id", "5")]),
        ({"user_id": "a", "user": "b"}, [("user_id", "a")]),
        ({"scope": {"tenant": "t"}, "user_id": "a"}, [("tenant", "t")]),
        ({"scope": [("tenant", "t")]}, [("tenant", "t")]),
    ],
)
def test_openai_scope_comes_from_the_record(
    fields: dict[str, Any], scope: list[tuple[str, str]]
) -> None:
    assert rows({"messages": CHAT["messages"], **fields}, "openai")[0]["scope"] == scope


@pytest.mark.parametrize("key", ["event_time", "timestamp", "created_at", "date"])
def test_openai_time_of_a_record_dates_its_messages(key: str) -> None:
    row = rows({**CHAT, key: "2025-01-01T10:00:00Z"}, "openai")[0]
    at = datetime(2025, 1, 1, 10, tzinfo=UTC)
    assert (row["event_time"], row["messages"][0]["timestamp"]) == (at, at)


def test_locomo_gives_one_conversation_per_session_in_order() -> None:
    sessions = rows(SAMPLE, "locomo")
    assert [s["conversation_id"] for s in sessions] == ["chat-1/session_2", "chat-1/session_10"]
    assert {s["scope_key"] for s in sessions} == {'[["user_id","chat-1"]]'}


def test_locomo_speakers_are_users_with_names_dates_and_turn_ids() -> None:
    first, last = rows(SAMPLE, "locomo")
    assert [(m["role"], m["name"], m["id"]) for m in first["messages"]] == [
        ("user", "Ada", "D2:1"),
        ("user", "Ben", "D2:2"),
    ]
    assert first["messages"][1]["content"] == "Look. [shares an image: a red kite]"
    assert first["event_time"] == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert last["messages"][0]["timestamp"] == datetime(2023, 6, 3, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    "date", [None, "some day", "1:56 pm on 31 June, 2023", "1:5 pm on 8 Mai, 2023"]
)
def test_locomo_session_with_an_odd_date_is_read_undated(date: Any) -> None:
    conversation = {"session_1": [{"speaker": "A", "text": "Hi"}], "session_1_date_time": date}
    row = rows({"sample_id": 4, "conversation": conversation}, "locomo")[0]
    assert (row["event_time"], row["conversation_id"]) == (None, "4/session_1")


def test_locomo_turn_of_an_image_alone_is_its_caption() -> None:
    conversation = {"session_1": [{"speaker": "A", "blip_caption": "a dog"}]}
    row = rows({"sample_id": "s", "conversation": conversation}, "locomo")[0]
    assert row["messages"][0]["content"] == "[shares an image: a dog]"


def test_memorybank_gives_one_conversation_per_day_in_order() -> None:
    days = rows({**PERSON, "name": "Ada"}, "memorybank")
    assert [d["conversation_id"] for d in days] == ["Ada/2023-05-01", "Ada/2023-05-02"]
    assert [(m["role"], m["content"]) for m in days[1]["messages"]] == [
        ("user", "I paint."),
        ("assistant", "Nice."),
        ("user", "Bye."),
    ]
    assert days[1]["event_time"] == datetime(2023, 5, 2, tzinfo=UTC)


@pytest.mark.parametrize("day", ["words", [3], [{"query": 3}]])
def test_memorybank_day_that_cannot_be_read_leaves_the_others(day: Any) -> None:
    person = {"name": "Ada", "history": {**PERSON["history"], "2023-05-02": day}}  # type: ignore[dict-item]
    found = list(drafts(person, format_name="memorybank"))
    assert build_row(found[0], scope_columns=None).value is not None
    with pytest.raises(LogFormatError):
        build_row(found[1], scope_columns=None)


def test_memorybank_day_that_is_no_date_is_read_undated() -> None:
    person = {"name": "Ada", "history": {"day one": [{"query": "Hi", "response": "Hi"}]}}
    assert rows(person, "memorybank")[0]["event_time"] is None
