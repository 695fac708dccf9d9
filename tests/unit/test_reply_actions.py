"""Replies to a decision request, and replies of any other shape."""

import json
from typing import Any

import pytest

from memorypipe.llm.replies.reply import read_actions, read_json


def items(reply: str) -> tuple[dict[str, Any], ...]:
    return read_actions(reply, finish_reason="stop").items


def test_an_action_is_read_as_said() -> None:
    said = {"fact": 0, "event": "UPDATE", "target_id": "1", "text": "b", "rationale": "changed"}
    read = read_actions(json.dumps({"actions": [said]}), finish_reason="stop")
    assert read.items == (said,)
    assert (read.status, read.complete, read.error) == ("ok", True, None)


def test_an_answer_within_reasoning_that_never_ended_is_not_complete() -> None:
    """It is read, as there is no other; but nothing is deleted on its word."""
    said = '{"actions": [{"fact": 0, "event": "DELETE", "target_id": "0"}]}'
    for reply, complete in ((f"<think>so {said}", False), (f"<think>so</think>{said}", True)):
        read = read_actions(reply, finish_reason="stop")
        assert ([item["event"] for item in read.items], read.status) == (["DELETE"], "ok")
        assert read.complete is complete


@pytest.mark.parametrize(
    ("said", "key", "expected"),
    [
        ({"event": "update", "fact": 0}, "event", "UPDATE"),
        ({"event": " Add ", "fact": 0}, "event", "ADD"),
        ({"action": "NONE", "fact": 0}, "event", "NONE"),
        ({"event": "MERGE", "fact": 0}, "event", "MERGE"),
        ({"fact": 0, "text": "x"}, "event", ""),
        ({"event": None, "fact": 0}, "event", ""),
        ({"event": "DELETE", "target_id": 3}, "target_id", "3"),
        ({"event": "DELETE", "id": "3"}, "target_id", "3"),
        ({"event": "DELETE", "target_id": True}, "target_id", None),
        ({"event": "DELETE", "target_id": ["3"]}, "target_id", None),
        ({"event": "ADD", "fact": "2"}, "fact", 2),
        ({"event": "ADD", "fact": 2.0}, "fact", 2),
        ({"event": "ADD", "index": 2}, "fact", 2),
        ({"event": "ADD", "fact": True}, "fact", None),
        ({"event": "ADD", "fact": "Likes tea"}, "fact", None),
        ({"event": "ADD", "memory": "Likes tea"}, "text", "Likes tea"),
        ({"event": "ADD", "text": 5}, "text", None),
    ],
)
def test_fields_are_normalised_and_nothing_is_made_up(
    said: dict[str, Any], key: str, expected: Any
) -> None:
    (item,) = items(json.dumps([said]))
    assert item[key] == expected


def test_what_is_no_action_is_dropped_and_counted() -> None:
    read = read_actions('[{"event":"ADD"}, "ADD", {"note": 1}, 7]', finish_reason="stop")
    assert (len(read.items), read.dropped_items) == (1, 3)


@pytest.mark.parametrize(
    ("reply", "finish_reason"),
    [
        ('{"actions":[{"fact":0,"event":"DELETE","target_id":"0"},{"fact":1', "stop"),
        ('{"actions":[{"fact":0,"event":"DELETE","target_id":"0"}]}', "length"),
        ('{"actions": oops [{"fact":0,"event":"DELETE","target_id":"0"}], x}', "stop"),
    ],
)
def test_a_reply_that_is_not_whole_says_so(reply: str, finish_reason: str) -> None:
    read = read_actions(reply, finish_reason=finish_reason)
    assert len(read.items) == 1
    assert not read.complete
    assert read.status == "truncated"


def test_actions_that_were_written_as_one_are_read_apart() -> None:
    """Nor does a second event replace the first: one fact, one action."""
    reply = '{"actions":[{"fact":0,"event":"ADD","fact":1,"event":"NONE"}]}'
    assert [(item["fact"], item["event"]) for item in items(reply)] == [(0, "ADD"), (1, "NONE")]
    reply = '{"actions":[{"fact":0,"event":"ADD","event":"DELETE","target_id":"0"}]}'
    assert [(item["fact"], item["event"]) for item in items(reply)] == [
        (0, "ADD"),
        (None, "DELETE"),
    ]


def test_prose_without_actions_is_an_error() -> None:
    read = read_actions("All of them are new.", finish_reason="stop")
    assert (read.items, read.status, read.complete) == ((), "parse_error", False)


def test_any_json_is_read_with_whole_items_only() -> None:
    read = read_json('Sure: {"a": [{"b": 1}, {"b": 2', finish_reason="length")
    assert (read.value, read.complete) == ({"a": [{"b": 1}]}, False)
    assert read_json("no", finish_reason="stop").value is None
    assert read_json('{"a\\u0000": "\\ud800"}', finish_reason="stop").repaired == 2


def test_what_is_no_json_value_comes_out_as_null() -> None:
    """NaN is no number that a store holds or compares."""
    for reply in ('{"a": NaN, "b": [-Infinity, 1]}', "{'a': NaN, 'b': [-Infinity, 1],}"):
        assert read_json(reply, finish_reason="stop").value == {"a": None, "b": [None, 1]}


def test_the_first_value_that_fits_is_taken() -> None:
    reply = '{"schema": 1} then {"answer": 2}'
    read = read_json(reply, finish_reason="stop", fits=lambda value: "answer" in value)
    assert (read.value, read.complete) == ({"answer": 2}, True)
