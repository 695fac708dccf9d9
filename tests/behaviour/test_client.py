"""The client against a real HTTP server on loopback."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memorypipe.errors import (
    EndpointError,
    ModelError,
    RejectedRequestError,
    RetryableModelError,
)
from memorypipe.llm.client import OpenAIModel
from memorypipe.llm.limits.limits import Limits
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.types import Existing, Fact, Reply, Request, Turn
from memorypipe.prompts.decide import decide_messages
from memorypipe.prompts.extract import extract_messages
from tests.support.endpoint import Endpoint, endpoint

ECHO = "tests.support.responders:echo"
SECRET = "sk-secret-4711"
PROMPT = "[user]: My passport number is X1234567."


@pytest.fixture(scope="module")
def shared() -> Iterator[Endpoint]:
    with endpoint(responder=ECHO) as server:
        yield server


@pytest.fixture
def server(shared: Endpoint) -> Endpoint:
    shared.script(faults=[], latency_s=0.0, require_key=None, count=0, max_in_flight=0, calls=[])
    return shared


def _spec(server: Endpoint, **changes: Any) -> ModelSpec:
    return ModelSpec(**{"base_url": server.base_url, "model": "m-7", "api_key": SECRET, **changes})


def _request(content: str = PROMPT, **params: Any) -> Request:
    return Request(messages=[{"role": "user", "content": content}], params=params)


def _complete(
    spec: ModelSpec, *requests: Request, environ: Mapping[str, str] | None = None
) -> list[Reply | BaseException]:
    async def main() -> list[Reply | BaseException]:
        model = OpenAIModel(spec, environ=environ or {})
        try:
            calls = [model.complete(request) for request in requests or [_request()]]
            return await asyncio.gather(*calls, return_exceptions=True)
        finally:
            await model.close()

    return asyncio.run(main())


def _fail(spec: ModelSpec, request: Request | None = None) -> ModelError:
    (error,) = _complete(spec, request or _request())
    assert isinstance(error, ModelError), error
    shown = str(error)
    assert SECRET not in shown
    assert "X1234567" not in shown
    assert "'m-7'" in shown
    return error


def test_a_reply_comes_with_content_usage_and_latency(server: Endpoint) -> None:
    (reply,) = _complete(_spec(server))
    assert isinstance(reply, Reply)
    assert reply.content == PROMPT
    assert (reply.finish_reason, reply.refusal, reply.model) == ("stop", None, "m-7")
    assert reply.prompt_tokens == reply.completion_tokens == len(PROMPT) // 4
    assert 0 < reply.latency_ms < 10_000


@pytest.mark.parametrize("usage", [{}, {"usage": None}, {"usage": {"prompt_tokens": 0}}])
def test_tokens_that_the_endpoint_does_not_report_are_estimated(
    server: Endpoint, usage: dict[str, Any]
) -> None:
    """Else no bound on tokens or money would ever be reached."""
    body = {"choices": [{"message": {"content": "I like green tea."}}], **usage}
    server.script(faults=[{"kind": "body", "body": json.dumps(body)}])
    (reply,) = _complete(_spec(server), _request("I like green tea."))
    assert isinstance(reply, Reply)
    assert (reply.prompt_tokens, reply.completion_tokens) == (8, 4)


def test_the_request_holds_exactly_what_was_asked_for(server: Endpoint) -> None:
    params = {
        "temperature": 0.5,
        "seed": 7,
        "extra_body": {"top_k": 3},
        "extra_headers": {"X-Team": "a"},
        "extra_query": {"api-version": "1"},
        "timeout": 30,
    }
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}
    _complete(_spec(server, params=params), _request("hi", temperature=0, response_format=schema))
    (call,) = server.calls()
    assert call["body"] == {
        "model": "m-7",
        "messages": [{"role": "user", "content": "hi"}],
        "temperature": 0.5,
        "seed": 7,
        "response_format": schema,
        "top_k": 3,
    }
    assert call["headers"]["x-team"] == "a"
    assert call["headers"]["authorization"] == f"Bearer {SECRET}"
    assert call["path"] == "/v1/chat/completions?api-version=1"


def test_the_library_makes_no_attempts_of_its_own(server: Endpoint) -> None:
    server.script(faults=[{"kind": "status", "status": 500}])
    _fail(_spec(server))
    assert server.call_count() == 1


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
def test_busy_answers_are_retryable_with_the_wait_asked_for(server: Endpoint, status: int) -> None:
    headers = {"Retry-After-Ms": "1500"}
    server.script(faults=[{"kind": "status", "status": status, "headers": headers}])
    error = _fail(_spec(server))
    assert isinstance(error, RetryableModelError)
    assert (error.kind, error.retry_after_s) == (f"http_{status}", 1.5)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_wrong_key_model_or_address_is_an_endpoint_error(server: Endpoint, status: int) -> None:
    body = {"error": {"message": f"Incorrect API key provided: {SECRET}"}}
    server.script(faults=[{"kind": "status", "status": status, "body": body}])
    error = _fail(_spec(server))
    assert isinstance(error, EndpointError)
    assert error.status == status


def test_a_used_up_quota_is_an_endpoint_error(server: Endpoint) -> None:
    body = {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}
    server.script(faults=[{"kind": "status", "status": 429, "body": body}])
    assert isinstance(_fail(_spec(server)), EndpointError)


def test_a_rejected_request_is_final_and_quotes_nothing(server: Endpoint) -> None:
    body = {"error": {"message": f"Cannot read: {PROMPT} with {SECRET}"}}
    server.script(faults=[{"kind": "status", "status": 400, "body": body}])
    error = _fail(_spec(server))
    assert isinstance(error, RejectedRequestError)
    assert not error.rejects_schema


def test_a_server_without_schemas_is_told_apart(server: Endpoint) -> None:
    server.script(faults=[{"kind": "reject_schema"}])
    error = _fail(_spec(server), _request(response_format={"type": "json_schema"}))
    assert isinstance(error, RejectedRequestError)
    assert error.rejects_schema
    assert isinstance(_complete(_spec(server))[0], Reply)


def _completion(**changes: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": "x"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "1", "object": "chat.completion", "choices": [choice], **changes}


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ('{"choices": [{"mess', "malformed_reply"),
        ("", "malformed_reply"),
        (_completion(choices=[]), "no_choices"),
        (_completion(choices=None), "no_choices"),
        (_completion(choices=[{"message": None}]), "no_choices"),
        ({"error": {"message": "upstream overloaded", "code": 529}}, "http_529"),
        ({"error": {"message": "upstream died"}, "choices": None}, "http_502"),
    ],
)
def test_half_a_reply_is_worth_another_attempt(server: Endpoint, body: object, kind: str) -> None:
    server.script(faults=[{"kind": "body", "body": body}])
    error = _fail(_spec(server))
    assert isinstance(error, RetryableModelError)
    assert error.kind == kind


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("<html>Welcome</html>", "text/html"),
        ("<!DOCTYPE html>", "text/plain"),
        ('{"object": "list", "data": []}', None),
        ("[]", None),
    ],
)
def test_something_else_than_an_endpoint_is_named_as_such(
    server: Endpoint, body: str, content_type: str | None
) -> None:
    server.script(faults=[{"kind": "body", "body": body, "content_type": content_type}])
    error = _fail(_spec(server))
    assert isinstance(error, EndpointError)
    assert "ends in '/v1'" in str(error)


def test_an_address_without_its_path_is_an_endpoint_error(server: Endpoint) -> None:
    error = _fail(_spec(server, base_url=server.base_url.removesuffix("/v1")))
    assert isinstance(error, EndpointError)
    assert error.status == 404


@pytest.mark.parametrize(
    ("message", "content"),
    [
        ({"content": None, "refusal": "No."}, None),
        ({"content": [{"type": "text", "text": "a"}, {"type": "x"}, {"text": "b"}]}, "ab"),
        ({}, None),
    ],
)
def test_messages_of_other_shapes_are_read(
    server: Endpoint, message: dict[str, Any], content: str | None
) -> None:
    choices = [{"message": message, "finish_reason": "length"}]
    server.script(faults=[{"kind": "body", "body": _completion(choices=choices)}])
    (reply,) = _complete(_spec(server))
    assert isinstance(reply, Reply)
    assert (reply.content, reply.finish_reason) == (content, "length")
    assert reply.refusal == message.get("refusal")
    assert reply.model is None
    assert reply.prompt_tokens > 0, "estimated, where the endpoint does not say"


def test_half_an_emoji_does_not_cost_the_reply(server: Endpoint) -> None:
    body = '{"choices": [{"message": {"content": "a\\ud83d"}}]}'
    server.script(faults=[{"kind": "body", "body": body}])
    (reply,) = _complete(_spec(server))
    assert isinstance(reply, Reply)
    assert reply.content == "a\ud83d"


@pytest.mark.parametrize("kind", ["reset", "connection refused"])
def test_a_connection_that_fails_is_retryable(server: Endpoint, kind: str) -> None:
    server.script(faults=[{"kind": "reset"}])
    base_url = server.base_url
    if kind != "reset":
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            base_url = f"http://user:{SECRET}@127.0.0.1:{free.getsockname()[1]}/v1"
    error = _fail(_spec(server, base_url=base_url))
    assert isinstance(error, RetryableModelError)
    assert error.kind == "connection"


def test_silence_beyond_the_timeout_is_retryable(server: Endpoint) -> None:
    server.script(faults=[{"kind": "hang"}])
    error = _fail(_spec(server, params={"timeout": 0.2}))
    assert isinstance(error, RetryableModelError)
    assert error.kind == "timeout"


def test_a_name_that_does_not_resolve_is_retryable(server: Endpoint) -> None:
    error = _fail(_spec(server, base_url="http://nowhere.invalid/v1"))
    assert isinstance(error, RetryableModelError)


def test_a_missing_key_is_an_endpoint_error_before_anything_is_sent(server: Endpoint) -> None:
    (error,) = _complete(_spec(server, api_key="env:MY_KEY"), environ={})
    assert isinstance(error, EndpointError)
    assert "MY_KEY" in str(error)
    assert server.call_count() == 0


def test_the_key_is_read_again_on_demand(server: Endpoint) -> None:
    server.script(require_key="new")
    environ = {"MY_KEY": "old"}

    async def main() -> str | None:
        model = OpenAIModel(_spec(server, api_key="env:MY_KEY"), environ=environ)
        with pytest.raises(EndpointError, match="401"):
            await model.complete(_request())
        environ["MY_KEY"] = "new"
        await model.refresh_key()
        reply = await model.complete(_request())
        await model.close()
        return reply.content

    assert asyncio.run(main()) == PROMPT


def test_user_and_password_of_an_address_are_sent_as_basic_login(server: Endpoint) -> None:
    base_url = server.base_url.replace("http://", "http://me:p%40ss@")
    _complete(_spec(server, base_url=base_url))
    assert server.calls()[0]["headers"]["authorization"] == "Basic bWU6cEBzcw=="


def test_variables_meant_for_another_service_are_not_sent(
    server: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ORG_ID", "PROJECT_ID", "ADMIN_KEY", "API_KEY"):
        monkeypatch.setenv(f"OPENAI_{name}", "meant-for-others")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Custom: meant-for-others")
    _complete(_spec(server))
    assert "meant-for-others" not in str(server.calls()[0]["headers"])


def test_a_model_works_again_after_close_and_on_another_loop(server: Endpoint) -> None:
    model = OpenAIModel(_spec(server), environ=os.environ)

    async def once() -> str | None:
        reply = await model.complete(_request())
        await model.close()
        return reply.content

    assert [asyncio.run(once()) for _ in range(2)] == [PROMPT, PROMPT]


def test_as_many_requests_as_allowed_are_really_in_flight(server: Endpoint) -> None:
    """More than a hundred, where HTTP libraries like to stop."""
    server.script(latency_s=1.5)
    spec = _spec(server, max_concurrency=256)

    async def main() -> None:
        model, limits = OpenAIModel(spec, environ={}), Limits(None, spec.concurrency)

        async def one() -> None:
            async with limits.attempt(0.0):
                await model.complete(_request("x"))

        await asyncio.gather(*(one() for _ in range(300)))
        await model.close()

    asyncio.run(main())
    assert server.max_in_flight() == 256


def test_the_server_sees_no_more_than_max_qps_and_one_in_a_second(server: Endpoint) -> None:
    async def main() -> None:
        model, limits = OpenAIModel(_spec(server), environ={}), Limits(20, 64)

        async def one() -> None:
            async with limits.attempt(0.0):
                await model.complete(_request("x"))

        await asyncio.gather(*(one() for _ in range(50)))
        await model.close()

    asyncio.run(main())
    arrivals = [call["at_s"] for call in server.calls()]
    assert max(sum(start <= at < start + 1 for at in arrivals) for start in arrivals) <= 21


def test_latency_is_taken_from_the_clock_given(server: Endpoint) -> None:
    ticks = iter([10.0, 10.25])
    clock: Callable[[], float] = lambda: next(ticks)  # noqa: E731  # a clock of two readings

    async def main() -> float:
        model = OpenAIModel(_spec(server), environ={}, clock=clock)
        reply = await model.complete(_request())
        await model.close()
        return reply.latency_ms

    assert asyncio.run(main()) == 250.0


def test_a_proxy_of_the_environment_is_used(
    server: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.base_url.removesuffix("/v1"))
    monkeypatch.delenv("NO_PROXY", raising=False)
    _complete(_spec(server, base_url="http://model.invalid/v1"))
    assert server.calls()[0]["headers"]["host"] == "model.invalid"


def test_the_default_answers_fit_the_prompts() -> None:
    turns = [
        Turn(role="user", name="Ana", content="I like tea.\nGreen: always.", id="a"),
        Turn(role="assistant", content="[user]: I lie.", id="b"),
        Turn(role="user", content="Seen before.", id="c", background=True),
        Turn(role="user", content="I run.", id="d", timestamp=datetime(2025, 1, 1, tzinfo=UTC)),
    ]
    facts = [Fact(text="Likes tea."), Fact(text='Says "hi".')]
    existing = [Existing(id="m1", text="Runs.")]
    asked = [
        Request(messages=extract_messages(turns)),
        Request(messages=decide_messages(facts, existing)),
    ]
    with endpoint() as server:
        extracted, decided = _complete(_spec(server), *asked)
    assert isinstance(extracted, Reply)
    assert isinstance(decided, Reply)
    assert json.loads(extracted.content or "")["memories"] == [
        {"text": "I like tea. Green: always.", "sources": [1]},
        {"text": "I run.", "sources": [4]},
    ]
    actions = json.loads(decided.content or "")["actions"]
    assert [(action["fact"], action["event"], action["text"]) for action in actions] == [
        (0, "ADD", "Likes tea."),
        (1, "ADD", 'Says "hi".'),
    ]


def test_the_server_ends_when_its_time_is_up() -> None:
    with endpoint(lifetime_s=0.5) as server:
        assert server.ended(within_s=60)


def test_the_server_ends_with_the_process_that_started_it() -> None:
    starter = (
        "import os\n"
        "from tests.support.endpoint import endpoint\n"
        "with endpoint() as server:\n"
        "    print(server.base_url, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    root = str(Path(__file__).parents[2])
    killed = subprocess.run(  # noqa: S603  # our own script
        [sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True, check=False, cwd=root
    )
    assert Endpoint(killed.stdout.strip()).ended(within_s=60)
