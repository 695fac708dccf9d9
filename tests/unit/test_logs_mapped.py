from datetime import UTC, datetime
from typing import Any

import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.logs.options import find_zone, read_options
from memorypipe.logs.parse import Parsed, parse_log
from memorypipe.logs.records import Record

LOG = [{"who": "customer", "body": "I drink tea.", "at": "2025-07-01T10:00"}]
ROW = {"uid": "u1", "chat": 7, "log": LOG, "org": {"name": "acme"}, "tz": "Europe/Berlin"}
MAP = {"messages": "log", "conversation_id": "chat", "role": "who", "content": "body"}
OPTIONS = {
    "map": {**MAP, "timestamp": "at"},
    "roles": {"Customer": "user"},
    "scope": {"user_id": "uid"},
}


def parse(values: list[Any], **options: Any) -> list[Parsed]:
    records = [Record(source="log", line=n, value=v) for n, v in enumerate(values, start=1)]
    log = parse_log(records, read_options(**{**OPTIONS, **options}))
    assert log is not None
    return list(log.records)


def row(value: Any = ROW, **options: Any) -> dict[str, Any]:
    found = parse([value], **options)[0].rows[0].value
    assert found is not None
    return found


def test_a_mapping_says_what_is_where() -> None:
    found = row(scope={"user_id": "uid", "tenant": "org.name"}, keep=["tz"])
    assert found["conversation_id"] == "7"
    assert found["scope"] == [("tenant", "acme"), ("user_id", "u1")]
    assert found["tz"] == "Europe/Berlin"
    message = found["messages"][0]
    assert (message["role"], message["content"]) == ("user", "I drink tea.")


def test_what_a_mapping_does_not_name_has_its_usual_name() -> None:
    value = {"user_id": "u", "log": [{"from": "human", "value": "Hi", "created_at": "2025-01-01Z"}]}
    found = row({**value, "conversation_id": "c"}, map={"messages": "log"}, scope=None)
    assert (found["conversation_id"], found["messages"][0]["content"]) == ("c", "Hi")


def test_messages_may_be_the_text_of_their_json() -> None:
    text = '[{"who": "Customer", "body": "Hi", "at": null}]'
    assert row({**ROW, "log": text})["messages"][0]["content"] == "Hi"
    rejects = parse([ROW, {**ROW, "log": "secret"}])[1].rejects
    assert "holds no JSON" in rejects[0].reason
    assert "secret" not in rejects[0].reason


def test_a_role_may_be_the_same_for_all() -> None:
    assert row(map={**MAP, "role": "=user"})["messages"][0]["role"] == "user"


def test_a_column_of_the_record_may_date_it() -> None:
    value = {**ROW, "day": "2025-01-02T00:00Z", "date": "2020-01-01"}
    assert row(value, map={**MAP, "event_time": "day"})["event_time"].year == 2025


@pytest.mark.parametrize(
    ("zone", "hour", "naive"),
    [(None, 10, 1), ("Z", 10, 0), ("Europe/Berlin", 8, 0), ("-02:30", 12, 0), ("tz", 8, 0)],
)
def test_times_without_a_zone_have_that_of_the_options(
    zone: str | None, hour: int, naive: int
) -> None:
    found = parse([ROW], timezone=zone)[0].rows[0]
    assert found.value is not None
    assert found.value["event_time"].hour == hour
    assert found.counts["naive_times"] == naive


def test_a_time_that_names_its_zone_keeps_it() -> None:
    log = [{**LOG[0], "at": "2025-07-01T10:00+05:00"}]
    at = row({**ROW, "log": log}, timezone="Europe/Berlin")["event_time"]
    assert at == datetime(2025, 7, 1, 5, tzinfo=UTC)


def test_a_zone_of_a_record_that_is_none_is_a_reject_and_a_missing_one_is_utc() -> None:
    found = parse([ROW, {**ROW, "tz": "Mars"}, {**ROW, "tz": None}], timezone="tz")
    assert "'Mars'" in found[1].rejects[0].reason
    assert found[2].rows[0].counts["naive_times"] == 1


@pytest.mark.parametrize("name", ["", "Mars/X", "Europe", "../etc", "+25:00", "+1:75", "+x", "a\0"])
def test_a_name_that_is_no_zone_is_none(name: str) -> None:
    assert find_zone(name) is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"map": {"messages": "logg"}}, "map messages.*'logg'.*'chat', 'log'"),
        ({"map": {**MAP, "conversation_id": "cid"}}, "map conversation_id.*'cid'"),
        ({"map": {**MAP, "content": "text"}}, "map content.*'text'"),
        ({"map": {"messages": "log"}}, "'role'.*'role', 'from', 'sender'"),
        ({"scope": {"user_id": "user"}}, r"'user'.*--scope.*'uid'"),
        ({"scope": None}, "names no user"),
        ({"roles": {"agent": "assistant"}}, r"unknown role 'customer' in 'who'.*--roles.*agent"),
        ({"timezone": "Europe/Berlinn"}, "'Europe/Berlinn'.*Europe/Berlin.*'tz'"),
    ],
)
def test_what_the_log_does_not_have_is_a_usage_error_with_the_choices(
    options: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        parse([ROW, ROW], **options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"layout": "rows"}, "'rows'"),
        ({"layout": "messages"}, "group_by"),
        ({"group_by": "chat"}, "'chat'.*layout"),
        ({"layout": "messages", "group_by": "c", "map": {"messages": "m"}}, "'messages'"),
        ({"map": {"text": "m"}}, "'text'.*messages, conversation_id"),
        ({"map": {"content": " "}}, "content"),
        ({"map": {"content": "=x"}}, "only the role"),
        ({"map": {}, "format": "openai"}, "exclude"),
        ({"format": "csv"}, "'csv'.*sharegpt"),
        ({"roles": {"a": "boss"}}, "'boss'.*assistant, system, tool, user"),
        ({"roles": {" ": "user"}}, "name"),
        ({"keep": "tag"}, "list"),
        ({"keep": ["messages"]}, "keep"),
        ({"redact": "x"}, "function"),
    ],
)
def test_options_that_cannot_work_are_refused_without_the_log(
    options: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        read_options(**options)


def test_an_odd_record_among_others_is_a_reject() -> None:
    found = parse([ROW, 3, {**ROW, "log": None}, {**ROW, "log": ["x"]}, {**ROW, "uid": None}, ROW])
    assert [len(one.rejects) for one in found] == [0, 1, 1, 1, 1, 0]


def test_a_known_format_with_an_odd_speaker_is_read_but_for_that_record() -> None:
    known = {"user_id": "u", "messages": [{"role": "user", "content": "Hi"}]}
    odd = {"user_id": "u", "messages": [{"role": "narrator", "content": "Hi"}]}
    plain = {"map": None, "roles": None, "scope": None}
    assert [len(one.rejects) for one in parse([odd, known], **plain)] == [1, 0]
    with pytest.raises(InvalidArgumentError, match="'narrator' in 'role'"):
        parse([odd, odd], **plain)
    assert parse([odd], **plain | {"roles": {"narrator": "tool"}})[0].rows[0].value is not None
