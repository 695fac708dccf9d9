"""The list of models is asked for with the key, which goes nowhere else."""

import threading
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from memorypipe.cli.doctor_endpoint import listed_models
from memorypipe.llm.spec import ModelSpec


@contextmanager
def serving(code: int, body: str, location: str = "") -> Iterator[tuple[str, list[Any]]]:
    """A server on loopback that gives one answer, and what it was asked."""
    asked: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            self.send_response(code)
            self.send_header("Location", location)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: Any) -> None:
            """Stay quiet."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1", asked
        finally:
            server.shutdown()
            thread.join()


def list_at(url: str, **more: Any) -> list[str]:
    return listed_models(ModelSpec(base_url=url, model="m", **more), url, "the-key")


def test_models_are_listed() -> None:
    with serving(200, '{"data": [{"id": "a"}, {"id": "b"}, 7]}') as (url, asked):
        params = {"extra_query": {"v": "1"}, "extra_headers": {"X-team": "t"}}
        assert list_at(url, params=params) == ["a", "b"]
    [(path, headers)] = asked
    assert path == "/v1/models?v=1"
    assert (headers["authorization"], headers["x-team"]) == ("Bearer the-key", "t")


def test_a_redirect_does_not_take_the_key_elsewhere() -> None:
    with (
        serving(200, '{"data": []}') as (other, asked),
        serving(302, "", f"{other}/models") as (url, _),
        pytest.raises(urllib.error.HTTPError),
    ):
        list_at(url)
    assert asked == []


@pytest.mark.parametrize("body", ["no JSON", "[]", '{"data": 1}'])
def test_what_is_no_list_of_models_is_an_error(body: str) -> None:
    with serving(200, body) as (url, _), pytest.raises(ValueError, match=r"."):
        list_at(url)
