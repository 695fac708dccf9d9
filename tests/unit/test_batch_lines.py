"""Lines of batch files: the request as it would be sent alone, the reply as it came."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from memorypipe.llm.batch.lines import (
    BatchRequest,
    BatchResult,
    RequestFile,
    batch_request,
    read_result,
)
from memorypipe.llm.batch.records import BatchFolder
from memorypipe.llm.journal.keys import journal_key
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.types import Reply, Request

KEY = "0123456789abcdef" * 2
MESSAGES = [{"role": "user", "content": "Grüße 🎹"}]


def spec(**params: Any) -> ModelSpec:
    return ModelSpec(base_url="http://u:p@host/v1", model="m", repeat_key="2", params=params)


def test_a_request_has_the_key_that_the_journal_gives_it_and_no_secret() -> None:
    asked = Request(messages=MESSAGES, params={"response_format": {"type": "a"}, "seed": 1})
    made = batch_request(spec(seed=2, extra_headers={"X-Key": "secret"}), asked, "scope")
    params = {"response_format": {"type": "a"}, "seed": 2, "extra_headers": {"X-Key": "secret"}}
    assert made.key == journal_key("http://host/v1", "m", params, MESSAGES, "2")
    assert (made.scope_key, b"secret" in made.line()) == ("scope", False)


def test_the_body_is_what_is_sent_alone() -> None:
    asked = Request(messages=MESSAGES, params={"response_format": {"type": "a"}})
    made = batch_request(spec(extra_body={"top_k": 3}, extra_query={"v": "1"}, timeout=5), asked)
    assert json.loads(made.line()) == {
        "custom_id": made.key,
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {
            "model": "m",
            "messages": MESSAGES,
            "response_format": {"type": "a"},
            "top_k": 3,
        },
    }


def test_a_line_is_one_line_whatever_it_says() -> None:
    content = "a\nb\r\u2028c \ud83d"
    line = BatchRequest(key=KEY, body={"messages": [{"content": content}]}).line()
    assert line.count(b"\n") == 1
    assert json.loads(line)["body"]["messages"][0]["content"] == content


def test_a_file_is_named_by_its_content_and_takes_no_name_twice(tmp_path: Path) -> None:
    folder = BatchFolder(tmp_path)
    request = BatchRequest(key=KEY, body={}, scope_key='[["user_id","a b"]]')
    names = []
    for _ in range(2):
        file = RequestFile(folder, max_requests=1, max_bytes=1000)
        file.add(request, request.line())
        assert not file.has_room(request.line())
        names.append(file.close())
        (tmp_path / f"{names[-1]}.json").write_text("{}")
    assert [name[32:] for name in names] == ["-0", "-1"]
    assert names[0][:32] == names[1][:32]
    assert folder.file(names[0], "jsonl").read_bytes() == request.line()
    assert folder.keys(names[0]) == {bytes.fromhex(KEY): '[["user_id","a b"]]'}


def _line(**fields: Any) -> bytes:
    return orjson.dumps({"custom_id": KEY, **fields})


COMPLETION = {
    "model": "m-1",
    "choices": [{"message": {"content": "Hi", "refusal": None}, "finish_reason": "length"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2},
}
REPLY = Reply(
    content="Hi", finish_reason="length", prompt_tokens=7, completion_tokens=2, model="m-1"
)


def test_a_reply_is_read_as_if_it_had_come_alone() -> None:
    line = _line(response={"status_code": 200, "body": COMPLETION}, error=None)
    expected = BatchResult(key=bytes.fromhex(KEY), outcome="reply", reply=REPLY)
    assert read_result(line) == expected


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"response": {"status_code": 500, "body": {"error": {}}}}, "failed"),
        ({"response": {"status_code": 400, "body": COMPLETION}}, "failed"),
        ({"response": {"status_code": 200, "body": {"choices": []}}}, "failed"),
        ({"response": {"status_code": 200, "body": None}}, "failed"),
        ({"response": None, "error": {"code": "batch_expired", "message": "late"}}, "expired"),
        ({"response": None, "error": {"code": "batch_cancelled"}}, "failed"),
        ({}, "failed"),
    ],
)
def test_a_line_without_a_reply_is_no_reply(fields: dict[str, Any], outcome: str) -> None:
    result = read_result(_line(**fields))
    assert (result.outcome, result.reply, result.key) == (outcome, None, bytes.fromhex(KEY))


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"null", b'{"custom_id": 5}', b"\xff\xfe"])
def test_a_line_that_is_nothing_names_nobody(line: bytes) -> None:
    assert read_result(line) == BatchResult(key=None, outcome="failed")


@pytest.mark.parametrize("custom_id", ["", "01", KEY + "00", "z" * 32, 12, None, [KEY]])
def test_an_id_that_is_none_of_ours_is_none(custom_id: object) -> None:
    assert read_result(orjson.dumps({"custom_id": custom_id})).key is None
