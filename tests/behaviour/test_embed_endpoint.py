"""`EndpointEmbedder` against a server on loopback."""

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from memorypipe.errors import EndpointError, InvalidArgumentError, ModelError
from memorypipe.llm.embed.endpoint import EndpointEmbedder
from memorypipe.llm.embed.resolve import resolve_embedder
from memorypipe.llm.embed.unit_vectors import embed_texts
from memorypipe.llm.endpoints import Endpoint as Configured
from memorypipe.llm.spec import ModelSpec, Prices
from memorypipe.llm.worker import close_workers
from tests.support.embeddings import hash_vector
from tests.support.endpoint import Endpoint, endpoint

TEXTS = [f"Fact number {number}" for number in range(10)]
KEY = "sk-secret-of-the-embedder"


@pytest.fixture(scope="module")
def running() -> Iterator[Endpoint]:
    with endpoint() as started:
        yield started


@pytest.fixture
def server(running: Endpoint) -> Iterator[Endpoint]:
    """The server as new, and no worker of an earlier test."""
    running.script(faults=[], count=0, calls=[], max_in_flight=0, require_key=None)
    yield running
    close_workers()


def _embedder(server: Endpoint, spec: dict[str, Any] | None = None, **how: Any) -> EndpointEmbedder:
    settings = {"base_url": server.base_url, "model": "e5", "api_key": KEY, "max_retries": 3}
    return EndpointEmbedder(ModelSpec(**{**settings, **(spec or {})}), **how)


def _fail(embedder: EndpointEmbedder) -> ModelError:
    with pytest.raises(ModelError) as caught:
        embedder.embed(TEXTS)
    shown = str(caught.value)
    assert KEY not in shown
    assert "Fact number" not in shown
    return caught.value


@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_texts_are_sent_in_batches_and_come_back_in_order(server: Endpoint, encoding: Any) -> None:
    vectors = _embedder(server, max_batch_texts=4, encoding=encoding).embed(TEXTS)
    assert np.array_equal(vectors, [hash_vector(text, 8) for text in TEXTS])
    calls = server.calls()
    assert sorted(len(call["body"]["input"]) for call in calls) == [2, 4, 4]
    assert {call["path"] for call in calls} == {"/v1/embeddings"}
    assert {call["headers"]["authorization"] for call in calls} == {f"Bearer {KEY}"}
    assert all(call["body"]["encoding_format"] == encoding for call in calls)
    assert not any("messages" in call["body"] for call in calls)


def test_batches_are_bounded_by_characters_too(server: Endpoint) -> None:
    _embedder(server, max_batch_chars=30).embed([*TEXTS[:4], "x" * 50, "y"])
    sizes = sorted(len(call["body"]["input"]) for call in server.calls())
    assert sizes == [1, 1, 2, 2]


def test_dimensions_are_asked_for_and_named(server: Endpoint) -> None:
    embedder = _embedder(server, dimensions=3)
    assert (embedder.name, embedder.dim, server.call_count()) == ("e5/3", 3, 0)
    assert embed_texts(embedder, TEXTS).shape == (10, 3)
    assert server.calls()[0]["body"]["dimensions"] == 3


def test_a_width_that_nobody_said_is_asked_for_once(server: Endpoint) -> None:
    embedder = _embedder(server)
    assert embedder.name == "e5"
    assert (embedder.dim, embedder.dim, server.call_count()) == (8, 8, 1)
    assert pickle.loads(pickle.dumps(embedder)).dim == 8  # noqa: S301  # our own bytes
    assert server.call_count() == 1


def test_an_embedder_that_is_only_chosen_asks_nothing(server: Endpoint) -> None:
    embedder = _embedder(server)
    assert resolve_embedder(embedder) is embedder
    assert server.call_count() == 0


def test_calls_and_tokens_are_counted(server: Endpoint) -> None:
    prices = Prices(per_million_in=2.0, per_million_out=0.0)
    embedder = _embedder(server, {"prices": prices}, max_batch_texts=5)
    embedder.embed(TEXTS)
    counts = embedder.counts()
    assert (counts["attempts"], counts["replies"], counts["tokens_in"]) == (2, 2, 30)
    assert counts["cost"] == pytest.approx(30 * 2e-6)


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "status": 429, "headers": {"retry-after": "0"}},
        {"kind": "status", "status": 503, "headers": {"retry-after": "0"}},
        {"kind": "reset"},
        {"kind": "body", "body": '{"data": [{"index": 0, "embed'},
    ],
    ids=["429", "503", "reset", "cut"],
)
def test_what_may_pass_is_tried_again(server: Endpoint, fault: dict[str, Any]) -> None:
    server.script(faults=[{**fault, "calls": [1]}])
    vectors = _embedder(server, dimensions=8).embed(TEXTS)
    assert np.array_equal(vectors[9], hash_vector(TEXTS[9], 8))
    assert server.call_count() == 2


def test_what_does_not_pass_is_an_error_after_all_retries(server: Endpoint) -> None:
    server.script(faults=[{"kind": "status", "status": 500, "headers": {"retry-after": "0"}}])
    error = _fail(_embedder(server, {"max_retries": 2}, dimensions=8))
    assert "'e5/8' failed after 3 attempts" in str(error)
    assert "(500)" in str(error)
    assert server.call_count() == 3


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("few", "9 vectors for 10 texts"),
        ("nan", "NaN, infinite or zero for text 10"),
        ("twice", "which vector belongs to which text"),
        ("width", "vectors of 9 dimensions, not 8"),
    ],
)
def test_wrong_vectors_are_refused_and_not_asked_for_again(
    server: Endpoint, how: str, message: str
) -> None:
    server.script(faults=[{"kind": "vectors", "how": how}])
    assert message in str(_fail(_embedder(server, dimensions=8)))
    assert server.call_count() == 1


def test_batches_of_different_widths_are_refused(server: Endpoint) -> None:
    server.script(faults=[{"kind": "vectors", "how": "width", "contains": ["number 9"]}])
    error = _fail(_embedder(server, dimensions=8, max_batch_texts=5))
    assert "several dimensions: [8, 9]" in str(error)


def test_a_wrong_key_stops_at_once_and_a_mended_one_works(server: Endpoint) -> None:
    server.script(require_key="sk-right")
    embedder = _embedder(server, dimensions=8, max_batch_texts=1)
    error = _fail(embedder)
    assert isinstance(error, EndpointError)
    assert "does not take the key (401)" in str(error)
    server.script(require_key=KEY)
    assert embedder.embed(TEXTS).shape == (10, 8)


@pytest.mark.parametrize("body", ["<html>", '{"choices": []}', "[]"])
def test_an_address_of_something_else_is_told(server: Endpoint, body: str) -> None:
    server.script(faults=[{"kind": "body", "body": body}])
    error = _fail(_embedder(server, dimensions=8))
    assert "'/embeddings' is added to it" in str(error)


def test_an_endpoint_of_the_configuration_can_be_named(server: Endpoint) -> None:
    named = {
        "vectors": Configured(name="vectors", urls=(server.base_url,), model="e5", api_key=KEY)
    }
    embedder = resolve_embedder("vectors", named)
    assert embedder is not None
    assert embedder.dim == 8
    with pytest.raises(InvalidArgumentError, match=r"'vectorz'; choices: .*'vectors'"):
        resolve_embedder("vectorz", named)


@pytest.mark.parametrize(
    ("spec", "how", "message"),
    [
        ({}, {"dimensions": 0}, "dimensions must be a whole number from 1, got 0"),
        ({}, {"max_batch_texts": True}, "max_batch_texts must be a whole number from 1, got True"),
        ({}, {"encoding": "int8"}, "Unknown encoding 'int8'; choices: .*'base64'"),
        ({"base_url": "offline:"}, {}, "'offline:' .* embeds nothing"),
        ({"params": {"temperature": 0}}, {}, "'temperature' is no parameter of an embeddings call"),
    ],
)
def test_what_cannot_work_is_refused_at_once(
    server: Endpoint, spec: dict[str, Any], how: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        _embedder(server, spec, **how)
