from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.ids import ledger_key
from memorypipe.llm.tokens import estimate_tokens
from memorypipe.logs.known import pack_keys
from memorypipe.logs.messages import Message
from memorypipe.logs.windows import (
    TURN_TOKENS,
    Window,
    conversation_windows,
    new_message_ids,
    windows_batch,
)
from memorypipe.schema import CONVERSATIONS, WINDOWS

SCOPE_KEY = '[["user_id","u1"]]'
NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)


def say(identity: str, tokens: int = 4, role: str = "user", **more: Any) -> Message:
    message = Message(
        role=role,
        name=None,
        content=str(ord(identity[0]) % 10) * (2 * tokens),  # two digits weigh a token
        timestamp=None,
        id=identity,
        background=False,
    )
    return {**message, **more}  # type: ignore[typeddict-item]  # keys of a message


def talk(count: int, tokens: int = 4) -> list[Message]:
    return [say(f"{number:02d}", tokens) for number in range(count)]


def new(window: Window) -> list[str]:
    return [m["id"] for m in window.messages if not m["background"]]


def background(window: Window) -> list[str]:
    return [m["id"] for m in window.messages if m["background"]]


def test_a_short_conversation_is_one_window_without_background() -> None:
    (window,) = conversation_windows(talk(3))
    assert (new(window), background(window)) == (["00", "01", "02"], [])


def test_windows_fill_the_budget_and_no_more() -> None:
    cost = TURN_TOKENS + 4
    windows = conversation_windows(talk(10), window_tokens=4 * cost, overlap_messages=0)
    assert [len(new(window)) for window in windows] == [4, 4, 2]


def test_the_turns_before_a_window_are_its_background_and_count_in_the_budget() -> None:
    cost = TURN_TOKENS + 4
    windows = conversation_windows(talk(10), window_tokens=8 * cost, overlap_messages=2)
    assert [(background(w), len(new(w))) for w in windows] == [([], 8), (["06", "07"], 2)]


def test_known_messages_come_only_as_background() -> None:
    (window,) = conversation_windows(talk(6), known={"00", "01", "02", "03"})
    assert (background(window), new(window)) == (["02", "03"], ["04", "05"])


def test_a_conversation_without_new_messages_gives_no_window() -> None:
    messages = talk(3)
    assert conversation_windows(messages, known={m["id"] for m in messages}) == []
    assert conversation_windows([]) == []


def test_a_window_does_not_reach_across_known_messages() -> None:
    windows = conversation_windows(talk(5), known={"02"}, overlap_messages=1)
    assert [(background(w), new(w)) for w in windows] == [
        ([], ["00", "01"]),
        (["02"], ["03", "04"]),
    ]


def test_a_window_that_failed_is_the_same_when_it_is_taken_up_again() -> None:
    messages = talk(20)
    windows = conversation_windows(messages, window_tokens=120)
    for failed in windows:
        done = {m["id"] for m in messages} - set(new(failed))
        assert conversation_windows(messages, window_tokens=120, known=done) == [failed]


def test_turns_of_the_assistant_alone_make_a_window() -> None:
    (window,) = conversation_windows([say("a", role="assistant"), say("b", role="tool")])
    assert new(window) == ["a", "b"]


def test_background_is_whole_turns_within_a_quarter_of_the_budget_nearest_first() -> None:
    messages = [say("a", 4), say("b", 60), say("c", 4), say("d", 4)]
    (window,) = conversation_windows(
        messages, window_tokens=200, overlap_messages=3, known={"a", "b", "c"}
    )
    assert background(window) == ["c"]


def test_background_gives_way_to_a_turn_that_just_fits() -> None:
    messages = [say("a"), say("b", 200 - TURN_TOKENS)]
    (window,) = conversation_windows(messages, window_tokens=200, known={"a"})
    assert (background(window), new(window)) == ([], ["b"])


def test_a_turn_that_fits_a_window_is_not_split() -> None:
    (window,) = conversation_windows([say("a", 200 - TURN_TOKENS)], window_tokens=200)
    assert len(window.messages) == 1


def test_pieces_of_a_long_turn_keep_its_speaker_date_and_id() -> None:
    long = say("a", 500, name="Ada", timestamp=NOON)
    windows = conversation_windows([say("b"), long, say("c")], window_tokens=200)
    pieces = [m for w in windows for m in w.messages if m["id"] == "a" and not m["background"]]
    assert "".join(piece["content"] for piece in pieces) == long["content"]
    assert len(pieces) == 3
    assert all({**piece, "content": ""} == {**long, "content": ""} for piece in pieces)


def test_equal_pieces_of_a_long_turn_are_different_windows() -> None:
    windows = conversation_windows([say("a", 2000)], window_tokens=200)
    assert len({window.content_key for window in windows}) == len(windows) > 2


def test_the_budget_holds_for_every_window() -> None:
    messages = [say(f"{n}", tokens) for n, tokens in enumerate([3, 90, 184, 185, 700, 1, 40, 40])]
    for window in conversation_windows(messages, window_tokens=200):
        spent = sum(TURN_TOKENS + estimate_tokens(m["content"]) for m in window.messages)
        assert spent <= 200


def test_background_does_not_enter_the_key_of_a_window() -> None:
    alone = conversation_windows([say("b")])
    after = conversation_windows([say("a"), say("b")], known={"a"})
    assert background(after[0]) == ["a"]
    assert alone[0].content_key == after[0].content_key


def test_the_key_of_a_window_follows_ids_and_content() -> None:
    keys = {
        conversation_windows(messages)[0].content_key
        for messages in ([say("a")], [say("b")], [say("a", content="x")], [say("a"), say("b")])
    }
    assert len(keys) == 4


@pytest.mark.parametrize("options", [{"window_tokens": 63}, {"overlap_messages": -1}])
def test_options_that_cannot_work_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(options))):
        conversation_windows([], **options)  # type: ignore[arg-type]  # one of the two integers
    with pytest.raises(InvalidArgumentError, match=next(iter(options))):
        windows_batch(CONVERSATIONS.empty_table(), **options)  # type: ignore[arg-type]  # as above


def conversations(*rows: dict[str, Any]) -> pa.Table:
    base = {
        "scope": [("user_id", "u1")],
        "scope_key": SCOPE_KEY,
        "conversation_id": "c1",
        "messages": talk(2),
        "event_time": None,
    }
    return pa.Table.from_pylist([{**base, **row} for row in rows], schema=CONVERSATIONS)


def cut(*rows: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    table = windows_batch(conversations(*rows), **options)
    assert table.schema.equals(WINDOWS)
    return list(table.to_pylist())


def test_a_batch_gives_rows_of_the_windows_schema() -> None:
    assert windows_batch(CONVERSATIONS.empty_table()).schema.equals(WINDOWS)
    first, second = cut({}, {"conversation_id": "c2"})
    assert (first["conversation_id"], second["conversation_id"]) == ("c1", "c2")
    assert first["scope"] == [("user_id", "u1")]
    assert first["window_id"].startswith("win_")
    assert first["window_id"] != second["window_id"]


def test_windows_are_numbered_within_their_conversation() -> None:
    rows = cut({"messages": talk(10)}, {"conversation_id": "c2"}, window_tokens=100)
    assert [row["window_index"] for row in rows] == [0, 1, 2, 0]


def test_kept_columns_are_no_part_of_a_window() -> None:
    table = conversations({}).append_column("tag", pa.array(["x"]))
    assert windows_batch(table).schema.equals(WINDOWS)


@pytest.mark.parametrize("scope", [SCOPE_KEY, '[["user_id","u2"]]'])
def test_the_ledger_holds_per_scope_and_conversation(scope: str) -> None:
    keys = pack_keys([ledger_key(scope, "c1", "00"), ledger_key(SCOPE_KEY, "c2", "01")])
    rows = cut({}, {"conversation_id": "c2"}, known_keys=keys)
    expected = [["01"] if scope == SCOPE_KEY else ["00", "01"], ["00"]]
    assert [new_message_ids(row) for row in rows] == expected


def test_a_conversation_that_the_ledger_knows_whole_gives_no_window() -> None:
    keys = pack_keys([ledger_key(SCOPE_KEY, "c1", identity) for identity in ("00", "01")])
    assert cut({}, known_keys=keys) == []
    assert len(cut({}, known_keys=pack_keys([]))) == 1


def test_event_time_of_a_window_is_that_of_its_newest_new_message() -> None:
    later = NOON.replace(year=2026)
    messages = [say("a", timestamp=later), say("b", timestamp=NOON), say("c")]
    known = pack_keys([ledger_key(SCOPE_KEY, "c1", "a")])
    (row,) = cut({"messages": messages, "event_time": later}, known_keys=known)
    assert row["event_time"] == NOON


def test_event_time_of_an_undated_window_is_that_of_its_conversation() -> None:
    assert cut({"event_time": NOON})[0]["event_time"] == NOON
    assert cut({})[0]["event_time"] is None


def test_context_names_the_scope_and_the_date_where_it_is_known() -> None:
    scope = [("tenant", "acme"), ("thread_id", "t 1"), ("user_id", "u1")]
    (row,) = cut({"scope": scope, "event_time": NOON})
    assert row["context"] == "Tenant: acme\nThread: t 1\nUser: u1\nDate: 2025-01-01"
    assert cut({})[0]["context"] == "User: u1"
    assert cut({"scope": [("_id", "u1")]})[0]["context"] == "_id: u1"
    assert cut({"scope": []})[0]["context"] is None


@pytest.mark.parametrize("scope", [("user_id", "u1\nDate: 1999-01-01"), ("date", "1999-01-01")])
def test_a_scope_cannot_pass_for_the_date(scope: tuple[str, str]) -> None:
    (row,) = cut({"scope": [scope], "event_time": NOON})
    dates = [line for line in row["context"].splitlines() if line.startswith("Date:")]
    assert dates == ["Date: 2025-01-01"]


def test_new_message_ids_leave_out_background_and_name_a_split_turn_once() -> None:
    messages = [
        say("a", background=True),
        say("b", background=False),
        say("b", background=False),
    ]
    assert new_message_ids({"messages": messages}) == ["b"]
