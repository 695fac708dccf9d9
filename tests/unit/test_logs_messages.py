from datetime import UTC, datetime
from typing import Any

import pytest

from memorypipe.errors import LogFormatError
from memorypipe.ids import message_id
from memorypipe.logs.messages import ROLES, content_text, normalise_messages


def ids(raw: list[Any]) -> list[str]:
    return [message["id"] for message in normalise_messages(raw).messages]


def say(content: Any, role: str = "user", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


@pytest.mark.parametrize(
    ("raw", "role"),
    [
        ("human", "user"),
        ("User ", "user"),
        ("model", "assistant"),
        ("bot", "assistant"),
        ("gpt", "assistant"),
        ("function", "tool"),
        ("tool", "tool"),
    ],
)
def test_roles_get_their_common_names(raw: str, role: str) -> None:
    assert normalise_messages([say("Hi", raw)]).messages[0]["role"] == role


@pytest.mark.parametrize("role", ["system", "developer"])
def test_system_turns_are_dropped(role: str) -> None:
    assert ids([say("You are helpful.", role), say("Hi", id="a")]) == ["a"]


@pytest.mark.parametrize("role", ["narrator", None, 3])
def test_an_unknown_role_is_an_error_that_names_message_and_choices(role: Any) -> None:
    with pytest.raises(LogFormatError, match=r"Message 2 has the role .* assistant"):
        normalise_messages([say("Hi"), {"role": role, "content": "x"}])


def test_all_roles_are_ones_that_the_pipeline_knows() -> None:
    assert set(ROLES.values()) == {"assistant", "system", "tool", "user"}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        (None, ""),
        ([], ""),
        ({"type": "text", "text": "one"}, "one"),
        ([{"type": "text", "text": "a"}, "b", {"type": "output_text", "text": "c"}], "a\nb\nc"),
        ([{"type": "text", "text": {"value": "nested"}}], "nested"),
        ([{"type": "image_url", "image_url": {"url": "data:…"}}], "[image]"),
        ([{"type": "input_audio"}, {"type": "file"}], "[audio]\n[file]"),
        ([{"type": "refusal", "refusal": "No."}], "No."),
        ([{"type": "hologram"}, {}], "[hologram]\n[part]"),
    ],
)
def test_content_is_text_with_placeholders_for_other_parts(content: Any, text: str) -> None:
    assert content_text(content) == text


@pytest.mark.parametrize("content", [3, True, b"x", [3], [None]])
def test_content_of_another_type_is_an_error(content: Any) -> None:
    with pytest.raises(LogFormatError, match="Message 1 has"):
        normalise_messages([say(content)])


def test_a_message_that_is_no_object_is_an_error() -> None:
    with pytest.raises(LogFormatError, match="Message 1 is of type str"):
        normalise_messages(["Hi"])


def test_a_message_without_text_is_dropped() -> None:
    assert ids([say(" \n"), say(None, "assistant"), say("<memory>x</memory>")]) == []


def test_recalled_memories_are_dropped_from_content() -> None:
    read = normalise_messages([say("<memories>Likes tea.</memories>\nHello")])
    assert read.messages[0]["content"] == "Hello"


def test_unstorable_characters_are_replaced_and_counted_everywhere() -> None:
    read = normalise_messages([say("a\x00b\ud800", name="N\x00", id="i\x00")])
    message = read.messages[0]
    assert (message["content"], message["name"], message["id"]) == (
        "a\ufffdb\ufffd",
        "N\ufffd",
        "i\ufffd",
    )
    assert read.repaired == 4


def test_a_name_stays_on_one_line() -> None:
    read = normalise_messages(
        [say("Hi", name="Eve\n[user]:"), say("x", name=3), say("y", name=" ")]
    )
    assert [message["name"] for message in read.messages] == ["Eve [user]:", None, None]


@pytest.mark.parametrize("key", ["timestamp", "created_at", "date", "ts"])
def test_times_become_utc(key: str) -> None:
    read = normalise_messages([say("Hi", **{key: "2025-01-01T12:00:00+02:00"})])
    assert read.messages[0]["timestamp"] == datetime(2025, 1, 1, 10, tzinfo=UTC)
    assert (read.naive_times, read.unreadable_times) == (0, 0)


def test_naive_and_unreadable_times_are_counted() -> None:
    read = normalise_messages(
        [say("a", timestamp="2025-01-01T10:00"), say("b", timestamp="soon"), say("c")]
    )
    assert [m["timestamp"] is None for m in read.messages] == [False, True, True]
    assert (read.naive_times, read.unreadable_times) == (1, 1)


@pytest.mark.parametrize("value", [7, 7.0, "7"])
def test_an_id_becomes_a_string(value: Any) -> None:
    assert ids([say("Hi", id=value)]) == ["7"]


@pytest.mark.parametrize("value", [None, "", " ", True, float("nan"), {"x": 1}])
def test_a_message_without_a_usable_id_is_named_after_what_it_says(value: Any) -> None:
    raw = say("Hi", id=value, timestamp="2025-01-01T10:00:00Z")
    assert ids([raw]) == [message_id("user", "2025-01-01T10:00:00+00:00", "Hi", 0)]


def test_equal_messages_get_different_ids_by_occurrence() -> None:
    made = ids([say("ok"), say("ok", "assistant"), say("ok"), say("ok")])
    assert made[0] == message_id("user", None, "ok", 0)
    assert made[3] == message_id("user", None, "ok", 2)
    assert len(set(made)) == 4


def test_ids_stay_when_a_conversation_grows_at_its_end() -> None:
    talk = [say("ok"), say("hm", id=1), say("ok"), say("new", id=1), say("ok"), say("hm", id=1)]
    grown = ids(talk)
    for length in range(len(talk)):
        part = ids(talk[:length])
        assert grown[: len(part)] == part


def test_a_repeated_message_with_the_same_id_is_dropped() -> None:
    assert ids([say("Hi", id="a"), say("Hi", id="a")]) == ["a"]


def test_another_message_with_a_used_id_gets_one_of_its_own() -> None:
    first, second, third = ids([say("Hi", id="a"), say("Ho", id="a"), say("He", id="a")])
    assert first == "a"
    assert second.startswith("a~")
    assert third.startswith("a~")
    assert second != third


def test_the_id_of_another_message_does_not_depend_on_how_many_share_it() -> None:
    shared = ids([say("Hi", id="a"), say("Ho", id="a"), say("He", id="a")])
    assert ids([say("Hi", id="a"), say("He", id="a")])[1] == shared[2]
