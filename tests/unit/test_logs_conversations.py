from datetime import UTC, datetime
from typing import Any

import pytest

from memorypipe.errors import InvalidArgumentError, LogFormatError
from memorypipe.logs.conversations import Draft, build_row, check_scope_columns

HI = {"role": "user", "content": "Hi"}
MORE = {"role": "assistant", "content": "Hello"}
NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)


def row(*messages: Any, **more: Any) -> dict[str, Any]:
    columns = more.pop("scope_columns", None)
    keep = more.pop("keep", ())
    draft = Draft(messages=list(messages), **{"default_scope": {"user_id": "u1"}, **more})
    value = build_row(draft, scope_columns=columns, keep=keep).value
    assert value is not None
    return value


def test_scope_columns_replace_the_default_scope() -> None:
    built = row(HI, fields={"uid": 7}, scope_columns={"user_id": "uid", "tenant": "=acme"})
    assert built["scope"] == [("tenant", "acme"), ("user_id", "7")]
    assert built["scope_key"] == '[["tenant","acme"],["user_id","7"]]'


def test_an_integer_that_came_as_float_is_an_integer() -> None:
    assert row(HI, default_scope={"user_id": 42.0})["scope"] == [("user_id", "42")]


@pytest.mark.parametrize("value", [None, "", "  ", "*", 1.5, True, float("nan"), ["u1"], {"a": 1}])
def test_a_missing_or_blank_scope_value_is_rejected(value: Any) -> None:
    with pytest.raises(LogFormatError, match="user_id"):
        row(HI, default_scope={"user_id": value})
    with pytest.raises(LogFormatError, match="user_id"):
        row(HI, fields={"uid": value}, scope_columns={"user_id": "uid"})


def test_a_record_without_any_scope_is_rejected() -> None:
    with pytest.raises(LogFormatError, match="names no user"):
        row(HI, default_scope=None)


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"": "uid"},
        {"user_id": ""},
        {"user_id": "="},
        {"user_id": "=*"},
        dict.fromkeys("abcdef", "x"),
    ],
)
def test_scope_columns_that_cannot_work_are_refused(columns: dict[str, str]) -> None:
    with pytest.raises(InvalidArgumentError):
        check_scope_columns(columns)


@pytest.mark.parametrize("messages", [None, "Hi", {"role": "user"}, 3])
def test_messages_that_are_no_list_are_rejected(messages: Any) -> None:
    with pytest.raises(LogFormatError, match="must be a list"):
        build_row(Draft(messages=messages, default_scope={"user_id": "u"}), scope_columns=None)


def test_a_conversation_without_messages_left_gives_no_row_and_is_counted() -> None:
    draft = Draft(messages=[{"role": "system", "content": "x"}], default_scope={"user_id": "u"})
    built = build_row(draft, scope_columns=None)
    assert built.value is None
    assert built.counts["empty"] == 1


@pytest.mark.parametrize(
    ("value", "name"), [("c", "c"), (7, "7"), (7.0, "7"), ("c\x00", "c\ufffd")]
)
def test_the_name_of_a_conversation_is_kept_as_a_string(value: Any, name: str) -> None:
    assert row(HI, conversation_id=value)["conversation_id"] == name


@pytest.mark.parametrize("value", [None, " ", float("nan"), True])
def test_a_conversation_without_a_name_keeps_its_made_one_when_it_grows(value: Any) -> None:
    short = row(HI, conversation_id=value, times=["2025-01-01T00:00:00Z"])
    grown = row(HI, MORE, conversation_id=value, times=["2025-02-02T00:00:00Z"])
    assert short["conversation_id"] == grown["conversation_id"]
    assert short["messages"][0]["id"] == grown["messages"][0]["id"]


def test_made_names_differ_by_scope_and_first_message() -> None:
    made = [
        row(HI),
        row(MORE),
        row({**HI, "timestamp": NOON}),
        row({**HI, "id": "x"}),
        row(HI, default_scope={"user_id": "u2"}),
    ]
    assert len({built["conversation_id"] for built in made}) == len(made)


def test_event_time_is_that_of_the_newest_message() -> None:
    built = row(
        {**HI, "timestamp": NOON},
        {**MORE, "timestamp": "2024-01-01T00:00:00Z"},
        times=["2030-01-01"],
    )
    assert built["event_time"] == NOON


def test_a_time_of_the_record_dates_messages_only_where_none_is_dated() -> None:
    undated = row(HI, MORE, times=[None, "soon", "2025-01-01T12:00:00Z"])
    assert [m["timestamp"] for m in undated["messages"]] == [NOON, NOON]
    partly = row({**HI, "timestamp": NOON}, MORE, times=["2030-01-01T00:00:00Z"])
    assert [m["timestamp"] for m in partly["messages"]] == [NOON, None]


def test_without_any_time_nothing_is_dated() -> None:
    built = row(HI)
    assert (built["event_time"], built["messages"][0]["timestamp"]) == (None, None)


def test_times_of_the_record_are_counted_like_those_of_messages() -> None:
    draft = Draft(messages=[HI], default_scope={"user_id": "u"}, times=["soon", "2025-01-01"])
    counts = build_row(draft, scope_columns=None).counts
    assert (counts["naive_times"], counts["unreadable_times"]) == (1, 1)


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("a\x00", "a\ufffd"),
        (3, "3"),
        ({"k": "ü"}, '{"k": "ü"}'),
        (None, None),
        (float("nan"), None),
    ],
)
def test_kept_fields_become_strings(value: Any, cell: str | None) -> None:
    assert row(HI, fields={"tag": value}, keep=["tag"])["tag"] == cell
    assert row(HI, fields={}, keep=["tag"])["tag"] is None
