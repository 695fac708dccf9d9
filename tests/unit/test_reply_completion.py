"""How a reply ended, in the words of many servers."""

from typing import Any

import pytest

from memorypipe.llm.replies.completion import is_broken_off, read_completion
from memorypipe.llm.replies.reply import read_facts


def completion(reason: object, content: str = '{"memories":["Likes tea"]}') -> dict[str, Any]:
    return {"choices": [{"message": {"content": content}, "finish_reason": reason}]}


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("stop", "ok"),
        ("STOP", "ok"),
        ("eos", "ok"),
        (None, "ok"),
        (1, "ok"),
        ("length", "truncated"),
        ("max_tokens", "truncated"),
        ("MAX_TOKENS", "truncated"),
        ("max_output_tokens", "truncated"),
        ("model_length", "truncated"),
        ("incomplete", "truncated"),
        ("content_filter", "refused"),
        ("SAFETY", "refused"),
        ("RECITATION", "refused"),
        ("refusal", "refused"),
    ],
)
def test_a_reply_that_was_cut_or_held_back_is_told_in_whatever_words(
    reason: object, status: str
) -> None:
    reply = read_completion(completion(reason))
    assert reply is not None
    assert read_facts(reply.content, finish_reason=reply.finish_reason).status == status


@pytest.mark.parametrize("reason", ["error", "abort", "ABORTED", "insufficient_system_resource"])
def test_a_reply_that_the_server_broke_off_is_none(reason: str) -> None:
    """What came of it may look whole, and be the first half of a list."""
    assert is_broken_off(completion(reason))
    assert read_completion(completion(reason)) is None


@pytest.mark.parametrize("broken", [{}, {"choices": []}, {"choices": [None]}, {"choices": [{}]}])
def test_what_holds_no_message_is_no_reply(broken: dict[str, Any]) -> None:
    assert read_completion(broken) is None
    assert not is_broken_off(broken)
