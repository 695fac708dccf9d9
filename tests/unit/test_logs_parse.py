from typing import Any

import pytest

from memorypipe.errors import InvalidArgumentError, LogFormatError
from memorypipe.logs.options import read_options
from memorypipe.logs.parse import Parsed, ParsedLog, parse_log
from memorypipe.logs.records import Record, Reject

MESSAGES = [{"role": "user", "content": "Hi"}]
CHAT = {"messages": MESSAGES, "user_id": "u1"}


def records(*values: Any) -> list[Record]:
    return [Record(source="log", line=n, value=v) for n, v in enumerate(values, start=1)]


def open_log(found: list[Record], **options: Any) -> ParsedLog:
    log = parse_log(found, read_options(**options))
    assert log is not None
    return log


def parse(*values: Any, **options: Any) -> list[Parsed]:
    return list(open_log(records(*values), **options).records)


def cells(parsed: list[Parsed]) -> list[dict[str, Any]]:
    return [row.value for one in parsed for row in one.rows if row.value is not None]


def rejects(parsed: list[Parsed]) -> list[Reject]:
    return [reject for one in parsed for reject in one.rejects]


def test_every_record_gives_rows_or_a_reject_and_the_reading_goes_on() -> None:
    values = [CHAT, {"text": "Hi"}, {**CHAT, "user_id": " "}, {**CHAT, "messages": 3}, 7, CHAT]
    parsed = parse(*values)
    assert [len(one.rows) for one in parsed] == [1, 0, 0, 0, 0, 1]
    assert [reject.line for reject in rejects(parsed)] == [2, 3, 4, 5]
    assert all(reject.reason and reject.excerpt for reject in rejects(parsed))


def test_the_format_is_that_of_the_first_record_with_a_known_shape() -> None:
    log = open_log(records(3, CHAT))
    assert log.format_name == "openai"


def test_an_unknown_format_is_an_error_that_says_what_was_found_and_what_is_known() -> None:
    with pytest.raises(
        LogFormatError,
        match=r"'prompt', 'reply'.*openai, sharegpt, chatgpt, claude, locomo, memorybank",
    ):
        parse({"prompt": "secret", "reply": "secret"})


def test_an_unknown_format_does_not_show_content() -> None:
    with pytest.raises(LogFormatError) as caught:
        parse({"prompt": "secret"})
    assert "secret" not in str(caught.value)


def test_a_log_without_records_has_no_format() -> None:
    assert parse_log([], read_options()) is None


@pytest.mark.parametrize("value", [{"messages": MESSAGES}, MESSAGES])
def test_a_log_that_names_no_user_is_a_usage_error_that_names_the_option(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="--scope user_id=COLUMN"):
        parse(value, value)


def test_a_constant_scope_serves_a_log_that_names_no_user() -> None:
    parsed = parse(MESSAGES, scope={"user_id": "=u1"})
    assert cells(parsed)[0]["scope"] == [("user_id", "u1")]


def test_a_scope_column_that_the_log_does_not_have_is_a_usage_error_with_the_fields() -> None:
    with pytest.raises(InvalidArgumentError, match=r"'uid'.*fields: 'messages', 'user_id'"):
        parse(CHAT, scope={"user_id": "uid"})


def test_one_record_without_a_user_among_others_is_a_reject() -> None:
    parsed = parse({"messages": MESSAGES}, CHAT)
    assert [reject.line for reject in rejects(parsed)] == [1]


def test_a_part_that_cannot_be_read_is_named_and_leaves_the_other_parts() -> None:
    sample = {"sample_id": "s", "conversation": {"session_1": "x", "session_2": [{"text": "Hi"}]}}
    parsed = parse(sample)
    assert [row["conversation_id"] for row in cells(parsed)] == ["s/session_2"]
    assert rejects(parsed)[0].reason.startswith("s/session_1: ")


def test_a_line_that_is_no_json_is_rejected_with_its_problem() -> None:
    bad = Record(source="log", line=1, value=None, raw=b"{", problem="Not JSON.")
    log = open_log([bad, *records(CHAT)])
    assert rejects(list(log.records)) == [bad.reject("Not JSON.")]


def test_a_log_of_nothing_but_bad_lines_is_of_unknown_format() -> None:
    bad = Record(source="log", line=1, value=None, raw=b"{", problem="Not JSON.")
    with pytest.raises(LogFormatError, match="Not JSON"):
        open_log([bad])
