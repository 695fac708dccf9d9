import re
from collections.abc import Sequence
from typing import Any

import pytest

from memorypipe.logs.options import read_options
from memorypipe.logs.parse import Parsed, parse_log
from memorypipe.logs.records import Record
from memorypipe.logs.redact import NOT_REDACTED, redact_texts

SECRET = re.compile("secret|BOOM")


def hide(texts: list[str]) -> list[str]:
    return [text.replace("secret", "[hidden]") for text in texts]


def fail_on_boom(texts: list[str]) -> list[str]:
    if any("BOOM" in text for text in texts):
        raise ValueError(texts)
    return hide(texts)


def chat(*contents: Any, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "name": "Ada secret", "content": each} for each in contents]
    return {"user_id": "u1", "messages": messages, **fields}


def parse(*records: Record | Any, redact: Any = hide, **options: Any) -> list[Parsed]:
    found = [
        each if isinstance(each, Record) else Record(source="log", line=n, value=each)
        for n, each in enumerate(records, start=1)
    ]
    log = parse_log(found, read_options(redact=redact, **options))
    assert log is not None
    return list(log.records)


def cells(parsed: Sequence[Parsed]) -> list[dict[str, Any]]:
    return [row.value for one in parsed for row in one.rows if row.value is not None]


def test_contents_names_and_kept_columns_are_redacted() -> None:
    parts = [{"type": "text", "text": "a secret part"}, {"type": "image_url"}]
    row = cells(parse(chat("my secret", parts, topic="secret tea"), keep=["topic"]))[0]
    assert [message["content"] for message in row["messages"]] == [
        "my [hidden]",
        "a [hidden] part\n[image]",
    ]
    assert {message["name"] for message in row["messages"]} == {"Ada [hidden]"}
    assert row["topic"] == "[hidden] tea"
    assert not SECRET.search(repr(row))


def test_ids_and_names_are_made_from_what_may_be_seen() -> None:
    open_text = parse(chat("my [hidden]"), redact=None)
    for one in cells(open_text):
        one["messages"][0]["name"] = "Ada [hidden]"
    assert cells(parse(chat("my secret"))) == cells(open_text)


@pytest.mark.parametrize(
    "redact",
    [
        fail_on_boom,
        lambda texts: hide(texts)[: -1 if "BOOM" in repr(texts) else None],
        lambda texts: [None if "BOOM" in text else text for text in hide(texts)],
        lambda texts: None if "BOOM" in repr(texts) else hide(texts),
        lambda texts: "BOOM" if "BOOM" in repr(texts) else hide(texts),
    ],
)
def test_a_row_that_cannot_be_redacted_is_a_reject_that_shows_nothing(redact: Any) -> None:
    parsed = parse(chat("one secret"), chat("BOOM secret"), chat("two secret"), redact=redact)
    assert [row["messages"][0]["content"] for row in cells(parsed)] == [
        "one [hidden]",
        "two [hidden]",
    ]
    rejects = parsed[1].rejects
    assert [(reject.line, reject.reason, reject.excerpt) for reject in rejects] == [
        (2, NOT_REDACTED, "")
    ]
    assert not SECRET.search(repr(parsed))


def test_one_call_redacts_many_rows() -> None:
    calls = []

    def count(texts: list[str]) -> list[str]:
        calls.append(len(texts))
        return texts

    parse(*(chat("a", "b") for _ in range(100)), redact=count)
    assert calls == [400]


def test_batches_close_before_they_are_large() -> None:
    calls = []

    def count(texts: list[str]) -> list[str]:
        calls.append(len(texts))
        return texts

    parse(*(chat("x" * 600_000) for _ in range(4)), redact=count)
    assert calls == [4, 4]


@pytest.mark.parametrize(
    "record",
    [
        Record(source="log", line=1, value=None, raw=b'{"x": "secret', problem="Not JSON."),
        Record(source="log", line=1, value={"messages": [{"role": "secret", "content": "x"}]}),
        Record(source="log", line=1, value=chat({"odd": 1}, 3, scope={"user_id": "secret " * 99})),
        Record(source="log", line=1, value=chat(["secret", 7])),
        Record(source="log", line=1, value="x" * 195 + "secret"),
        Record(
            source="log",
            line=1,
            value=None,
            raw="secret".encode("utf-16"),
            problem="Not UTF-8 (byte 0).",
        ),
    ],
)
def test_rejects_are_redacted_before_they_are_cut(record: Record) -> None:
    rejects = parse(record, chat("Hi"))[0].rejects
    assert len(rejects) == 1
    shown = repr(rejects).replace("\\x00", "")
    assert not re.search("secret|secr", shown)
    assert rejects[0].reason


def test_a_row_without_texts_needs_no_call() -> None:
    assert redact_texts(fail_on_boom, [[], ["BOOM"], ["secret"]]) == [[], None, ["[hidden]"]]


def test_messages_of_a_layout_of_messages_fail_one_by_one() -> None:
    rows = [
        {"user_id": "u", "chat": "a", "role": "user", "text": text}
        for text in ("secret", "BOOM", "ok")
    ]
    parsed = parse(*rows, redact=fail_on_boom, layout="messages", group_by="chat")
    assert [row["content"] for row in cells(parsed)] == ["[hidden]", "ok"]
    assert [len(one.rejects) for one in parsed] == [0, 1, 0]
