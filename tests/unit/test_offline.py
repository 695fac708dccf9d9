"""The offline model behind the seam that every model stands behind."""

import asyncio
import json
import pickle

import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.offline import OfflineModel
from memorypipe.llm.spec import OFFLINE_MODEL
from memorypipe.llm.types import DecideTask, Existing, ExtractTask, Fact, Reply, Request, Turn


def _ask(task: ExtractTask | DecideTask | None) -> Reply:
    messages = [{"role": "user", "content": "12345678"}]
    return asyncio.run(OfflineModel().complete(Request(messages=messages, task=task)))


def test_extraction_replies_in_the_format_of_every_model() -> None:
    turn = Turn(role="user", content="I live in Rome.", id="t1")
    reply = _ask(ExtractTask(turns=[turn], context="Date: 2025-01-01"))
    assert json.loads(reply.content or "") == {
        "memories": [{"text": "Lives in Rome", "sources": ["t1"], "event_time": "2025-01-01"}]
    }


def test_decisions_reply_in_the_format_of_every_model() -> None:
    task = DecideTask(
        facts=[Fact(text="Lives in Berlin")], existing=[Existing(id="m1", text="Lives in Rome")]
    )
    [action] = json.loads(_ask(task).content or "")["actions"]
    assert list(action) == ["fact", "event", "target_id", "text", "rationale"]
    assert action["target_id"] == "0"


def test_a_reply_names_the_rules_and_estimates_tokens_by_four_characters() -> None:
    reply = _ask(ExtractTask(turns=[]))
    assert (reply.model, reply.finish_reason, reply.latency_ms) == (OFFLINE_MODEL, "stop", 0.0)
    assert (reply.prompt_tokens, reply.completion_tokens) == (2, len(reply.content or "") // 4)


def test_text_is_not_escaped() -> None:
    reply = _ask(ExtractTask(turns=[Turn(role="user", content="我住在上海。")]))
    assert "我住在上海" in (reply.content or "")


def test_a_free_prompt_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(InvalidArgumentError, match="task=None"):
        _ask(None)


def test_the_model_travels_to_workers() -> None:
    assert isinstance(pickle.loads(pickle.dumps(OfflineModel())), OfflineModel)  # noqa: S301  # ours
