"""Logs of one row per message, and the account of a reading; blocks are kept in a list here."""

import random
from typing import Any

import pyarrow as pa
import pytest

from memorypipe.errors import InvalidArgumentError, LogFormatError
from memorypipe.logs.fragments import assemble_conversations, order_key
from memorypipe.logs.options import read_options
from memorypipe.logs.parse import parse_log
from memorypipe.logs.reading import Reading
from memorypipe.logs.records import Record
from memorypipe.schema import CONVERSATIONS

ROWS = [
    {"user_id": "u1", "chat": "a", "n": 2, "role": "assistant", "text": "Nice.", "tag": None},
    {"user_id": "u1", "chat": "b", "n": 1, "role": "user", "text": "Bye.", "tag": "y"},
    {"user_id": "u1", "chat": "a", "n": 10, "role": "user", "text": "Ok.", "tag": "z"},
    {"user_id": "u2", "chat": "a", "n": 1, "role": "user", "text": "Other.", "tag": None},
    {"user_id": "u1", "chat": "a", "n": 1, "role": "user", "text": "Hi.", "tag": None},
    {"user_id": "u1", "chat": "c", "n": 1, "role": "system", "text": "Be kind.", "tag": None},
]
LAYOUT: dict[str, Any] = {"layout": "messages", "group_by": "chat", "order_by": "n"}


def read(*files: list[Any], limit: int | None = None, **options: Any) -> tuple[Reading, pa.Table]:
    reading = Reading(options=read_options(**options), limit=limit, put=lambda table: table)
    for number, values in enumerate(files):
        records = [
            Record(source=f"file{number}", line=n, value=v) for n, v in enumerate(values, start=1)
        ]
        try:
            log = parse_log(records, reading.options, first_position=reading.position)
        except LogFormatError as error:
            reading.skip(f"file{number}", error)
            continue
        if log is not None:
            reading.take(log)
    return reading, pa.concat_tables(reading.finish())


def conversations(*files: list[Any], **options: Any) -> list[dict[str, Any]]:
    fragments = read(*files, **{**LAYOUT, **options})[1]
    table = assemble_conversations(fragments, keep=options.get("keep", ()))
    assert table.schema.names == [*CONVERSATIONS.names, *options.get("keep", ())]
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def said(*files: list[Any], **options: Any) -> dict[str, list[str]]:
    return {
        f"{dict(row['scope'])['user_id']}/{row['conversation_id']}": [
            message["content"] for message in row["messages"]
        ]
        for row in conversations(*files, **options)
    }


EXPECTED = {"u1/a": ["Hi.", "Nice.", "Ok."], "u1/b": ["Bye."], "u2/a": ["Other."]}


def test_messages_make_conversations_whatever_the_order_of_rows_and_files() -> None:
    assert said(ROWS) == EXPECTED
    for seed in range(20):
        rows = random.Random(seed).sample(ROWS, len(ROWS))  # noqa: S311  # no secret
        cut = seed % len(ROWS)
        assert conversations(rows[:cut], rows[cut:]) == conversations(ROWS)


def test_repeated_messages_have_ids_that_do_not_depend_on_the_order_of_rows() -> None:
    rows = [{**ROWS[0], "n": n, "text": text} for n, text in enumerate(["ok", "no", "ok", "ok"])]
    ids = [message["id"] for message in conversations(rows)[0]["messages"]]
    assert len(set(ids)) == 4
    assert [m["id"] for m in conversations(rows[::-1])[0]["messages"]] == ids


def test_numbers_in_digits_are_ordered_as_numbers() -> None:
    assert said([{**row, "n": str(row["n"])} for row in ROWS]) == EXPECTED


@pytest.mark.parametrize(
    "values",
    [
        [-3, -1, 0, 2, 10, 10**18, 10**18 + 1],
        ["-1.5", "2", 3.25, "10"],
        ["2025-01-01T12:00+05:00", "2025-01-01T08:00Z", "2025-01-02"],
        ["m1", "m2", "ü"],
        [5, "text", "2025-01-01"],
    ],
)
def test_an_order_key_sorts_as_its_value(values: list[Any]) -> None:
    keys = [order_key(value) for value in values]
    assert keys == sorted(set(map(str, keys)))


@pytest.mark.parametrize("value", [None, "", " ", float("nan")])
def test_nothing_has_no_order(value: Any) -> None:
    assert order_key(value) is None


def test_the_column_of_the_order_dates_the_messages_where_it_holds_times() -> None:
    rows = [{**row, "n": f"2025-01-{row['n']:02}T00:00Z"} for row in ROWS]
    found = conversations(rows)
    assert [m["timestamp"].day for m in found[0]["messages"]] == [1, 2, 10]
    assert found[0]["event_time"].day == 10
    assert conversations(ROWS)[0]["event_time"] is None


def test_without_an_order_time_counts_and_else_the_log() -> None:
    assert said(ROWS, order_by=None)["u1/a"] == ["Nice.", "Ok.", "Hi."]
    dated = [{**row, "ts": f"2025-01-{row['n']:02}T00:00Z"} for row in ROWS]
    assert said(dated, order_by=None) == EXPECTED


def test_equal_times_keep_the_order_of_the_log() -> None:
    rows = [{**ROWS[0], "n": "2025-01-01T00:00Z", "text": text} for text in "cab"]
    assert said(rows)["u1/a"] == ["c", "a", "b"]


def test_a_kept_column_is_that_of_the_first_message_that_has_it() -> None:
    assert [row["tag"] for row in conversations(ROWS, keep=["tag"])] == ["z", "y", None]


def test_a_message_with_an_id_keeps_it_and_comes_once() -> None:
    rows = [{**ROWS[0], "id": "m1"}, {**ROWS[0], "id": "m1"}, {**ROWS[0], "n": 3, "id": "m2"}]
    assert [m["id"] for m in conversations(rows)[0]["messages"]] == ["m1", "m2"]


def test_rows_that_cannot_be_placed_are_rejects_with_their_number() -> None:
    odd = [{**ROWS[0], "n": None}, {**ROWS[0], "chat": " "}, {**ROWS[0], "user_id": None}, 3]
    account = read(ROWS, [ROWS[0], *odd], **LAYOUT)[0].account()
    assert [(reject.source, reject.line) for reject in account["rejects"]] == [
        ("file1", line) for line in (2, 3, 4, 5)
    ]
    assert (account["conversations"], account["turns"], account["empty"]) == (3, 6, 1)
    assert account["format"] == "mapped"


def test_the_limit_counts_conversations_and_keeps_them_whole() -> None:
    assert said(ROWS, limit=2) == {key: EXPECTED[key] for key in ("u1/a", "u1/b")}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"group_by": "id"}, "group_by.*'id'.*'chat'"),
        ({"order_by": "ts"}, "order_by.*'ts'"),
        ({"map": {"content": "body"}}, "map content.*'body'"),
        ({"keep": ["nope"]}, "keep.*'nope'.*'tag'"),
    ],
)
def test_columns_that_no_row_has_are_a_usage_error(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        read(ROWS, **{**LAYOUT, **options})


def test_a_kept_column_may_come_late_in_a_log() -> None:
    talk = [{"role": "user", "content": "Hi"}]
    values = [{"user_id": "u", "messages": talk} for _ in range(30)]
    table = read([*values, {**values[0], "tag": 1}], keep=["tag"])[1]
    assert table["tag"].to_pylist()[-1] == "1"


def test_batches_are_handed_over_when_they_are_full() -> None:
    reading = Reading(options=read_options(**LAYOUT), limit=None, put=len, batch_rows=2)
    records = [Record(source="log", line=n, value=row) for n, row in enumerate(ROWS)]
    log = parse_log(records, reading.options)
    assert log is not None
    reading.take(log)
    assert reading.finish() == [2, 2, 1]


def test_messages_out_of_order_are_sorted_where_all_are_dated() -> None:
    talk = [
        {"role": "user", "content": "second", "timestamp": "2025-01-02T00:00Z"},
        {"role": "user", "content": "first", "timestamp": "2025-01-01T00:00Z"},
    ]
    half = [talk[0], {**talk[1], "timestamp": None}]
    rows = read([{"user_id": "u", "messages": talk}, {"user_id": "u", "messages": half}])[1]
    assert [[m["content"] for m in row["messages"]] for row in rows.to_pylist()] == [
        ["first", "second"],
        ["second", "first"],
    ]
