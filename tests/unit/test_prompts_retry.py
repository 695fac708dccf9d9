"""Asking again after a reply that could not be used."""

import pytest

from memorypipe.prompts.retry import retry_messages

REQUEST = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]


def test_the_model_sees_its_reply_and_what_was_wrong() -> None:
    messages = retry_messages(REQUEST, "no json \ud800", "The reply holds no JSON.")
    assert messages[:2] == REQUEST
    assert messages[2] == {"role": "assistant", "content": "no json \ufffd"}
    assert messages[3]["role"] == "user"
    assert "The reply holds no JSON. Reply again" in messages[3]["content"]


@pytest.mark.parametrize("reply", [None, "", " \n"])
def test_an_empty_reply_leaves_the_roles_in_turn(reply: str | None) -> None:
    messages = retry_messages(REQUEST, reply, "The reply is empty")
    assert [message["role"] for message in messages] == ["system", "user"]
    assert messages[1]["content"].startswith("u\n\n")
    assert REQUEST[1]["content"] == "u"


def test_a_reply_in_circles_is_shown_in_part() -> None:
    assert len(retry_messages(REQUEST, "x" * 50_000, "e")[2]["content"]) < 5000
