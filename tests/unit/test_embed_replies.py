import json
from typing import Any

import numpy as np
import pytest

from memorypipe.errors import RejectedRequestError
from memorypipe.llm.embed.replies import EmbeddingReply, read_embeddings
from tests.support.embeddings import embeddings, hash_vector

TEXTS = ["I like tea", "Runs", "Has a cat"]


def _read(how: str = "", **changes: Any) -> EmbeddingReply:
    body = {"model": "m", "input": TEXTS, "encoding_format": "float"} | changes
    reply = read_embeddings(json.loads(embeddings(body, how)), TEXTS, who="E", latency_ms=1.0)
    assert reply is not None
    return reply


@pytest.mark.parametrize("how", ["", "backwards", "unnumbered"])
@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_each_text_gets_its_own_vector(how: str, encoding: str) -> None:
    reply = _read(how, encoding_format=encoding)
    assert np.array_equal(reply.vectors, [hash_vector(text, 8) for text in TEXTS])
    assert (reply.prompt_tokens, reply.completion_tokens, reply.model) == (7, 0, "m")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("few", "E gave 2 vectors for 3 texts"),
        ("many", "E gave 4 vectors for 3 texts"),
        ("twice", "indexes are not 0 to 2"),
        ("nan", "NaN, infinite or zero for text 3 of 3"),
        ("infinite", "NaN, infinite or zero for text 3"),
        ("zero", "NaN, infinite or zero for text 3"),
        ("uneven", r"several dimensions in one reply: \[7, 8\]"),
        ("words", "no vector for text 3"),
    ],
)
@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_a_reply_that_cannot_be_right_is_refused(how: str, message: str, encoding: str) -> None:
    with pytest.raises(RejectedRequestError, match=message):
        _read(how, encoding_format=encoding)


@pytest.mark.parametrize("vector", [None, [], [None], [[1.0]], "no base64!", "AAA=", 1.5, {}])
def test_what_is_no_vector_is_refused(vector: Any) -> None:
    body = {"data": [{"index": 0, "embedding": vector}]}
    with pytest.raises(RejectedRequestError, match="text 1"):
        read_embeddings(body, ["a"], who="E", latency_ms=0.0)


@pytest.mark.parametrize("body", [{}, {"data": None}, {"data": [1]}, {"choices": []}])
def test_a_body_of_another_kind_is_no_reply(body: Any) -> None:
    assert read_embeddings(body, ["a"], who="E", latency_ms=0.0) is None


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 0}, {"prompt_tokens": "many"}])
def test_tokens_that_nobody_counted_are_estimated(usage: Any) -> None:
    body = {"data": [{"embedding": [1.0]}], "usage": usage}
    reply = read_embeddings(body, ["I like green tea."], who="E", latency_ms=0.0)
    assert reply is not None
    assert reply.prompt_tokens == 4
