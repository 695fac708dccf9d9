"""The live client of an OpenAI-compatible endpoint: one request in, one reply or one error out.

It retries nothing and limits nothing. Requests go through the client library's generic `post` and
the reply's bytes are read here: the typed `create` checks every message against its types and
builds a tree of models from the reply, which costs more than twice the CPU of all the rest.
"""

import asyncio
import base64
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import aiohttp
import httpx2
import openai
import orjson

from memorypipe.errors import EndpointError, ModelError, RetryableModelError
from memorypipe.llm.http_errors import connection_error, status_error
from memorypipe.llm.spec import ModelSpec, resolve_key
from memorypipe.llm.types import Reply, Request

__all__ = ["DEFAULT_TIMEOUT_S", "OpenAIModel"]

DEFAULT_TIMEOUT_S = 120.0
"""For connecting, and for the longest silence on a connection."""

# Below the five seconds after which common servers close an idle connection: a request that
# meets the closing is lost.
_KEEP_ALIVE_S = 4.0

# The client library's names of the arguments that are no fields of the body.
_OPTIONS = {"extra_headers": "headers", "extra_query": "params", "timeout": "timeout"}


class OpenAIModel:
    """A model behind an OpenAI-compatible endpoint.

    No connection is opened, and no key is read, before the first request. What takes long (the
    certificates, a third of a second) is done at construction: within the first request it would
    delay that one, after its turn under `max_qps`, into the others of the same second.

    Args:
        spec: What to call. Its `params` win over those of a request.
        environ: Where keys named ``"env:NAME"`` are looked up.
        clock: Monotonic seconds, for `Reply.latency_ms`.
    """

    def __init__(
        self,
        spec: ModelSpec,
        *,
        environ: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec = spec
        self._environ = environ
        self._clock = clock
        self._client: openai.AsyncOpenAI | None = _make_client(spec)
        self._has_key = False

    async def complete(self, request: Request) -> Reply:
        """Send one request.

        Raises:
            RetryableModelError: For a connection that failed, a timeout, 408, 409, 429, 5xx and a
                reply that is no whole JSON; with the wait that the endpoint asked for.
            RejectedRequestError: For 400 and what else is final for this request.
            EndpointError: For 401, 402, 403, 404, a used-up quota, a web page instead of a
                reply, and a key that cannot be read.
        """
        client = self._open()
        body, options = self._call(request)
        started_s = self._clock()
        try:
            response = await client.post(
                "/chat/completions", cast_to=httpx2.Response, body=body, options=options
            )
        except openai.APIStatusError as error:
            raise self._status_error(error.response, request) from None
        except (openai.OpenAIError, httpx2.HTTPError, aiohttp.ClientError, OSError) as error:
            # Messages of these can quote addresses with a password in them: the class must do.
            raise connection_error(self._spec, error) from None
        latency_ms = (self._clock() - started_s) * 1e3
        return self._reply(response, request, latency_ms)

    async def refresh_key(self) -> None:
        """Read the key again, for the requests to come.

        Raises:
            EndpointError: As `resolve_key`.
        """
        # A callable may ask a server; the loop goes on meanwhile.
        key = await asyncio.to_thread(resolve_key, self._spec.api_key, self._environ)
        if self._client is not None:
            self._client.api_key = key

    async def close(self) -> None:
        """Close the connections; another request would open new ones."""
        if self._client is not None:
            client, self._client = self._client, None
            await client.close()

    def _open(self) -> openai.AsyncOpenAI:
        if self._client is None:
            self._client, self._has_key = _make_client(self._spec), False
        if not self._has_key:
            self._client.api_key = resolve_key(self._spec.api_key, self._environ)
            self._has_key = True
        return self._client

    def _call(self, request: Request) -> tuple[dict[str, Any], Any]:
        params = {**request.params, **self._spec.params}
        options: dict[str, Any] = {"security": {"bearer_auth": True}}
        for name, option in _OPTIONS.items():
            value = params.pop(name, None)
            if value is not None:
                options[option] = value
        extra_body = params.pop("extra_body", None) or {}
        body = {"model": self._spec.model, "messages": request.messages, **params, **extra_body}
        return body, options

    def _status_error(self, response: httpx2.Response, request: Request) -> ModelError:
        try:
            body = orjson.loads(response.content)
        except orjson.JSONDecodeError:
            body = None
        return self._error(response.status_code, response, body, request)

    def _error(
        self, status: int, response: httpx2.Response, body: object, request: Request
    ) -> ModelError:
        key = None if self._client is None else self._client.api_key
        return status_error(self._spec, status, response.headers, body, request.messages, key=key)

    def _reply(self, response: httpx2.Response, request: Request, latency_ms: float) -> Reply:
        completion = self._completion(response)
        error = completion.get("error")
        if isinstance(error, Mapping):
            # Some gateways answer 200 and tell of the failure behind them in the body.
            code = error.get("code")
            status = code if isinstance(code, int) else 502
            raise self._error(status, response, completion, request)
        choices = completion.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = choice.get("message") if isinstance(choice, dict) else None
        if choice is None or not isinstance(message, dict):
            if "choices" not in completion:
                raise self._not_an_endpoint("JSON that is no chat completion")
            raise self._malformed("The reply has no choices", "no_choices")
        usage = completion.get("usage") or {}
        return Reply(
            content=_text(message.get("content")),
            finish_reason=choice.get("finish_reason"),
            refusal=message.get("refusal") or None,
            prompt_tokens=usage.get("prompt_tokens") or 0,
            completion_tokens=usage.get("completion_tokens") or 0,
            latency_ms=latency_ms,
            model=completion.get("model"),
        )

    def _completion(self, response: httpx2.Response) -> dict[str, Any]:
        content = response.content
        if "html" in response.headers.get("content-type", "") or content.lstrip()[:1] == b"<":
            raise self._not_an_endpoint("a web page")
        try:
            completion = _parse(content)
        except ValueError:
            raise self._malformed("The reply is no whole JSON", "malformed_reply") from None
        if not isinstance(completion, dict):
            raise self._not_an_endpoint("JSON that is no chat completion")
        return completion

    def _not_an_endpoint(self, what: str) -> EndpointError:
        return EndpointError(
            f"{self._spec.endpoint!r} answers with {what} (model {self._spec.model!r}). Check "
            f"base_url: it usually ends in '/v1', and '/chat/completions' is added to it."
        )

    def _malformed(self, what: str, kind: str) -> RetryableModelError:
        return RetryableModelError(
            f"{what} (endpoint {self._spec.endpoint!r}, model {self._spec.model!r}).", kind
        )


def _make_client(spec: ModelSpec) -> openai.AsyncOpenAI:
    address, headers = _split_login(spec.base_url)
    limits = httpx2.Limits(
        # Without a number here the transport stops at a hundred, whatever was asked for.
        max_connections=spec.concurrency,
        max_keepalive_connections=spec.concurrency,
        keepalive_expiry=_KEEP_ALIVE_S,
    )
    client = openai.AsyncOpenAI(
        api_key="NOT_SET",
        base_url=address,
        max_retries=0,
        timeout=DEFAULT_TIMEOUT_S,
        http_client=openai.DefaultAioHttpClient(limits=limits, timeout=DEFAULT_TIMEOUT_S),
    )
    # The library takes headers and account names from variables that are meant for its own
    # service; they must not go to any other host.
    client.organization = client.project = client.admin_api_key = None
    client._custom_headers = headers  # noqa: SLF001  # the argument would be merged with them
    # The library looks at the platform when these are made for the first time.
    _ = client.default_headers
    return client


def _parse(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        # The standard library also takes a lone surrogate: half an emoji, where a model was cut.
        return json.loads(content)


def _text(content: object) -> str | None:
    """Give a message's content as text; some servers send a list of parts."""
    if isinstance(content, Sequence) and not isinstance(content, str):
        parts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else None


def _split_login(url: str) -> tuple[str, dict[str, str]]:
    """Take user and password out of an address and give them as a header."""
    parts = urlsplit(url)
    login, _, host = parts.netloc.rpartition("@")
    if not login:
        return url, {}
    token = base64.b64encode(unquote(login).encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), {"Authorization": f"Basic {token}"}
