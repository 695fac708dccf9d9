"""A message is paid for once: what a log that changed sends, and what stays open."""

from typing import Any

import pyarrow as pa
import pytest

from memorypipe.ids import ledger_key
from memorypipe.logs.known import pack_keys
from memorypipe.logs.merge import merge_conversations
from memorypipe.logs.options import read_options
from memorypipe.logs.parse import parse_log
from memorypipe.logs.reading import Reading
from memorypipe.logs.records import Record
from memorypipe.logs.windows import new_message_ids, windows_batch
from memorypipe.pipeline.plans.ledger import ledger_rows
from memorypipe.schema import FACTS


def record(*said: Any, name: str | None = "c1", user: str = "u") -> dict[str, Any]:
    """A conversation; a word is a message without id and time, else what is given is added."""
    messages = [
        {"role": "user", **({"content": each} if isinstance(each, str) else each)} for each in said
    ]
    return {"user_id": user, "conversation_id": name, "messages": messages}


def dated(content: str, minute: int, **more: Any) -> dict[str, Any]:
    return {"content": content, "timestamp": f"2025-01-01T10:{minute:02}:00Z", **more}


class Paid:
    """What runs have paid for, one after the other."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []

    def run(self, *log: dict[str, Any], **options: Any) -> list[str]:
        """Say what a run over a log sends as new."""
        reading = Reading(options=read_options(), limit=None, put=lambda table: table)
        parsed = parse_log(
            [Record(source="log", line=n, value=value) for n, value in enumerate(log)],
            reading.options,
        )
        assert parsed is not None
        reading.take(parsed)
        table = merge_conversations(pa.concat_tables(reading.finish()))
        cut = windows_batch(table, known_keys=pack_keys(self.keys), **options).to_pylist()
        sent = []
        for window in cut:
            place = (window["scope_key"], window["conversation_id"])
            self.keys += [ledger_key(*place, each) for each in new_message_ids(window)]
            sent += [m["content"] for m in window["messages"] if not m["background"]]
        return sent


@pytest.mark.parametrize(
    "with_ids", [pytest.param(True, id="ids"), pytest.param(False, id="hashes")]
)
def test_a_conversation_that_grew_sends_exactly_its_new_turns(*, with_ids: bool) -> None:
    turns = [dated(f"t{n}", n, **({"id": f"m{n}"} if with_ids else {})) for n in range(7)]
    paid = Paid()
    assert paid.run(record(*turns[:4])) == ["t0", "t1", "t2", "t3"]
    assert paid.run(record(*turns)) == ["t4", "t5", "t6"]
    assert paid.run(record(*turns)) == []


def test_overlapping_exports_of_one_conversation_are_one_conversation() -> None:
    turns = [dated(f"t{n}", n) for n in range(6)]
    paid = Paid()
    assert paid.run(record(*turns[:2])) == ["t0", "t1"]
    assert paid.run(record(*turns[1:4]), record(*turns[3:])) == ["t2", "t3", "t4", "t5"]


def test_messages_in_another_order_are_not_new() -> None:
    turns = [dated("a", 1), dated("b", 2), dated("c", 3)]
    paid = Paid()
    paid.run(record(*turns))
    assert paid.run(record(*reversed(turns))) == []
    paid = Paid()
    paid.run(record("a", "b", "a"))
    assert paid.run(record("a", "a", "b")) == [], "nor are equal ones that nothing tells apart"
    assert paid.run(record("a", "a", "a", "b")) == ["a"]


def test_a_message_that_was_edited_is_new_unless_it_has_an_id() -> None:
    paid = Paid()
    paid.run(record(dated("a", 1), dated("b", 2)))
    assert paid.run(record(dated("a!", 1), dated("b", 2))) == ["a!"]
    paid.run(record(dated("x", 1, id="m1"), name="c2"))
    assert paid.run(record(dated("x!", 1, id="m1"), name="c2")) == []


def test_the_same_words_elsewhere_are_another_message() -> None:
    paid = Paid()
    paid.run(record("a"))
    assert paid.run(record("a", name="c2")) == ["a"]
    assert paid.run(record("a", user="v")) == ["a"]


def test_a_conversation_without_a_name_keeps_the_one_that_its_beginning_gave_it() -> None:
    paid = Paid()
    paid.run(record("a", "b", name=None))
    assert paid.run(record("a", "b", "c", name=None)) == ["c"]


def test_whatever_the_windows_a_message_is_paid_for_once() -> None:
    long = "word " * 400
    paid = Paid()
    assert len(paid.run(record("a", long, "b"), window_tokens=100)) > 4
    assert paid.run(record("a", long, "b", "c"), window_tokens=2_000) == ["c"]


def facts(window_id: str, messages: list[str], facts_json: str | None) -> dict[str, Any]:
    numbers = ("attempts", "prompt_tokens", "completion_tokens", "latency_ms", "repaired")
    return {
        "scope": [],
        "scope_key": "[]",
        "conversation_id": "c1",
        "window_id": window_id,
        "window_index": 0,
        "message_ids": messages,
        "message_times": [None] * len(messages),
        "facts_json": facts_json,
        "status": "ok",
        "cached": False,
        "dropped_items": 0,
        **dict.fromkeys(numbers, 0),
    }


def test_windows_without_facts_are_remembered_and_open_ones_are_not() -> None:
    rows = [
        facts("empty", ["m1"], '{"memories":[]}'),
        facts("failed", ["m2", "m3"], None),
        facts("half of m3", ["m3", "m4"], '{"memories":[]}'),
    ]
    opened = pa.chunked_array([["failed"]])
    table = ledger_rows(pa.Table.from_pylist(rows, schema=FACTS), opened)
    assert table["message_id"].to_pylist() == ["m1", "m4"], "half a message is not dealt with"
