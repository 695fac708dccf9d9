"""The live client of an OpenAI-compatible endpoint: one request in, one reply or one error out.

It retries nothing and limits nothing. The client library says where a request goes and with which
headers, and its HTTP client sends it; the body is written and the reply's bytes are read here. The
library's own way from a call to its HTTP client (options, copies, checks against types) costs
twice the CPU of sending.
"""

import asyncio
import base64
import functools
import json
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx2
import openai
import orjson

from memorypipe.errors import (
    EndpointError,
    InvalidArgumentError,
    ModelError,
    RetryableModelError,
)
from memorypipe.llm.completion import read_completion
from memorypipe.llm.http_errors import connection_error, status_error
from memorypipe.llm.keys import resolve_key
from memorypipe.llm.rate_headers import RateReader
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.types import Reply, Request

__all__ = ["CONNECT_TIMEOUT_S", "DEFAULT_TIMEOUT_S", "OpenAIModel", "make_client"]

DEFAULT_TIMEOUT_S = 600.0
"""For a whole call, from connecting to the last byte; a `timeout` among the parameters wins.

There is no bound on silence within it: a model that thinks for minutes is silent, and asking it
again would pay again.
"""

CONNECT_TIMEOUT_S = 30.0
"""For opening a connection, where the call has not less."""

# Below the five seconds after which common servers close an idle connection: a request that
# meets the closing is lost.
_KEEP_ALIVE_S = 4.0

_PATH = b"/chat/completions"

# Arguments of the client library's call that are no fields of the body.
_OPTIONS = ("extra_headers", "extra_query", "timeout")


@dataclass(frozen=True, kw_only=True)
class _Way:
    """What is the same for every request with the same options."""

    options: Mapping[str, Any]
    url: httpx2.URL
    headers: httpx2.Headers
    extensions: Mapping[str, Any]
    timeout_s: float


class OpenAIModel:
    """A model behind an OpenAI-compatible endpoint.

    No connection is opened, and no key is read, before the first request. What takes long (the
    certificates, a third of a second) is done at construction: within the first request it would
    delay that one, after its turn under `max_qps`, into the others of the same second.

    Proxies: that of the spec for every request, else those that the environment names in
    `HTTP_PROXY`, `HTTPS_PROXY` and `ALL_PROXY`, except for hosts in `NO_PROXY`. They are HTTP
    proxies; a SOCKS proxy is not spoken to.

    Args:
        spec: What to call, at its `base_url`. Its `params` win over those of a request.
        environ: Where keys named ``"env:NAME"`` are looked up.
        clock: Monotonic seconds, for `Reply.latency_ms`.

    Raises:
        InvalidArgumentError: For a `timeout` of another kind than the client library's.
        EndpointError: For a file of certificates that cannot be read.
    """

    def __init__(
        self,
        spec: ModelSpec,
        *,
        environ: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        _timeouts(spec.params.get("timeout"))
        self._spec = spec
        self._environ = environ
        self._clock = clock
        self._http: httpx2.AsyncClient | None = _make_http(spec)
        self._client = make_client(spec, self._http)
        self._key: str | None = None
        self._way: _Way | None = None
        self._rate = RateReader()

    async def complete(self, request: Request) -> Reply:
        """Send one request.

        Raises:
            RetryableModelError: For a connection that failed, a timeout, 408, 409, 429, 5xx and a
                reply that is no whole JSON; with the wait that the endpoint asked for.
            RejectedRequestError: For 400 and what else is final for this request.
            EndpointError: For 401, 402, 403, 404, 407, a used-up quota, a certificate that is
                not trusted, a redirect to another host, a web page instead of a reply, and a key
                that cannot be read.
        """
        http = self._open()
        way, body = self._call(request)
        started_s = self._clock()
        try:
            async with asyncio.timeout(way.timeout_s):
                response = await _send(http, way, body)
        except (httpx2.HTTPError, httpx2.InvalidURL, aiohttp.ClientError, OSError) as error:
            # Messages of these can quote addresses with a password in them: the class must do.
            raise connection_error(self._spec, error) from None
        latency_ms = (self._clock() - started_s) * 1e3
        if not response.is_success:
            raise self._status_error(response, request)
        return self._reply(response, request, latency_ms)

    async def refresh_key(self) -> None:
        """Read the key again, for the requests to come.

        Raises:
            EndpointError: As `memorypipe.llm.keys.resolve_key`.
        """
        # A callable may ask a server; the loop goes on meanwhile.
        key = await asyncio.to_thread(resolve_key, self._spec.api_key, self._environ)
        self._use_key(key)

    async def close(self) -> None:
        """Close the connections; another request would open new ones."""
        if self._http is not None:
            http, self._http = self._http, None
            await http.aclose()

    def _open(self) -> httpx2.AsyncClient:
        if self._http is None:
            self._http = _make_http(self._spec)
            self._client, self._key = make_client(self._spec, self._http), None
        if self._key is None:
            self._use_key(resolve_key(self._spec.api_key, self._environ))
        return self._http

    def _use_key(self, key: str) -> None:
        if not (key.isascii() and key.isprintable()):
            raise EndpointError(
                f"The key for {self._spec.endpoint!r} holds a character that no header can carry."
            )
        self._key, self._way = key, None

    def _call(self, request: Request) -> tuple[_Way, bytes]:
        params = {**request.params, **self._spec.params}
        options = {name: params.pop(name, None) for name in _OPTIONS}
        if self._way is None or self._way.options != options:
            self._way = self._find_way(options)
        extra_body = params.pop("extra_body", None) or {}
        body = {"model": self._spec.model, "messages": request.messages, **params, **extra_body}
        return self._way, _encode(body)

    def _find_way(self, options: Mapping[str, Any]) -> _Way:
        client = self._client
        headers = httpx2.Headers({"Authorization": f"Bearer {self._key}"})
        known = client.default_headers.items()
        headers.update({name: value for name, value in known if isinstance(value, str)})
        headers.update(options["extra_headers"])
        if client.base_url.scheme == "http" and self._spec.proxy is not None:
            # The request itself goes to the proxy; of a tunnel the proxy sees the opening only.
            headers.update(_proxy(self._spec.proxy).headers)
        path, mark, query = client.base_url.raw_path.partition(b"?")
        url = client.base_url.copy_with(raw_path=path.rstrip(b"/") + _PATH + mark + query)
        if options["extra_query"]:
            url = url.copy_merge_params(client.qs.stringify(options["extra_query"]))
        timeout_s, timeouts = _timeouts(options["timeout"])
        return _Way(
            options=options,
            url=url,
            headers=headers,
            extensions={"timeout": timeouts.as_dict()},
            timeout_s=timeout_s,
        )

    def _status_error(self, response: httpx2.Response, request: Request) -> ModelError:
        try:
            body = orjson.loads(response.content)
        except orjson.JSONDecodeError:
            body = None
        return self._error(response.status_code, response, body, request)

    def _error(
        self, status: int, response: httpx2.Response, body: object, request: Request
    ) -> ModelError:
        return status_error(
            self._spec, status, response.headers, body, request.messages, key=self._key
        )

    def _reply(self, response: httpx2.Response, request: Request, latency_ms: float) -> Reply:
        completion = self._completion(response)
        error = completion.get("error")
        if isinstance(error, Mapping):
            # Some gateways answer 200 and tell of the failure behind them in the body.
            code = error.get("code")
            status = code if isinstance(code, int) else 502
            raise self._error(status, response, completion, request)
        reply = read_completion(completion, latency_ms=latency_ms)
        if reply is None:
            if "choices" not in completion:
                raise self._not_an_endpoint("JSON that is no chat completion")
            raise self._malformed("The reply has no choices", "no_choices")
        rate = self._rate.read(response.headers)
        return reply if rate is None else replace(reply, rate=rate)

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


def make_client(spec: ModelSpec, http: httpx2.AsyncClient | None = None) -> openai.AsyncOpenAI:
    """Make the client library's client, without a key yet; it opens no connection.

    Args:
        spec: What to call, at its `base_url`.
        http: What sends; None makes one.

    Raises:
        EndpointError: For a file of certificates that cannot be read.
    """
    address, headers = _split_login(spec.base_url)
    client = openai.AsyncOpenAI(
        api_key="NOT_SET",
        base_url=address,
        max_retries=0,
        timeout=DEFAULT_TIMEOUT_S,
        http_client=http or _make_http(spec),
    )
    # The library takes headers and account names from variables that are meant for its own
    # service; they must not go to any other host.
    client.organization = client.project = client.admin_api_key = None
    client._custom_headers = headers  # noqa: SLF001  # the argument would be merged with them
    # The library looks at the platform when these are made for the first time.
    _ = client.default_headers
    return client


def _make_http(spec: ModelSpec) -> httpx2.AsyncClient:
    _check_proxy(spec)
    limits = httpx2.Limits(
        # Without a number here the transport stops at a hundred, whatever was asked for.
        max_connections=spec.concurrency,
        max_keepalive_connections=spec.concurrency,
        keepalive_expiry=_KEEP_ALIVE_S,
    )
    return openai.DefaultAioHttpClient(
        limits=limits,
        timeout=DEFAULT_TIMEOUT_S,
        verify=_trusted(spec.ca_file),
        proxy=None if spec.proxy is None else _proxy(spec.proxy),
    )


def _proxy(address: str) -> httpx2.Proxy:
    address, login = _split_login(address)
    # The transport would make the header itself, by a class that its library is giving up.
    headers = {f"Proxy-{name}": value for name, value in login.items()}
    return httpx2.Proxy(address, headers=headers)


def _check_proxy(spec: ModelSpec) -> None:
    """Refuse a proxy of the environment that the transport cannot speak to."""
    parts = urlsplit(spec.base_url)
    if spec.proxy is not None or proxy_bypass(parts.hostname or ""):
        return
    proxies = getproxies()
    scheme, has_scheme, _ = (proxies.get(parts.scheme) or proxies.get("all", "")).partition("://")
    if has_scheme and scheme.lower() not in {"http", "https"}:
        raise EndpointError(
            f"The environment names a {scheme} proxy for {spec.endpoint!r}; HTTP proxies only are "
            f"spoken to. Set proxy to one, or put the host into NO_PROXY."
        )


@functools.cache
def _trusted(ca_file: str | None) -> ssl.SSLContext:
    """Load certificates, once for all replicas."""
    if ca_file is None:
        return httpx2.create_ssl_context()
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # also of a file that holds no certificate
        reason = error.strerror if isinstance(error, FileNotFoundError) else type(error).__name__
        raise EndpointError(
            f"ca_file {ca_file!r} cannot be read as PEM certificates on this machine: {reason}."
        ) from error


async def _send(http: httpx2.AsyncClient, way: _Way, body: bytes) -> httpx2.Response:
    """Send, and follow one redirect, to the same host: nobody else gets the key and the prompt."""
    request = httpx2.Request(
        "POST", way.url, headers=way.headers, content=body, extensions=way.extensions
    )
    response = await http.send(request, follow_redirects=False)
    onward = response.next_request
    if onward is None or onward.method != "POST" or not _is_same_place(request.url, onward.url):
        return response
    if onward.url.scheme != request.url.scheme:
        onward.headers.pop("Proxy-Authorization", None)
    return await http.send(onward, follow_redirects=False)


def _is_same_place(asked: httpx2.URL, onward: httpx2.URL) -> bool:
    return asked.host == onward.host and onward.scheme in {asked.scheme, "https"}


def _timeouts(timeout: object) -> tuple[float, httpx2.Timeout]:
    """Give the bound of the whole call in seconds, and those of its parts."""
    if isinstance(timeout, httpx2.Timeout):
        return DEFAULT_TIMEOUT_S, timeout
    if timeout is None:
        timeout = DEFAULT_TIMEOUT_S
    if not isinstance(timeout, int | float) or isinstance(timeout, bool):
        raise InvalidArgumentError(
            f"timeout must be a number of seconds for the whole call, or an httpx2.Timeout, got "
            f"{type(timeout).__name__}."
        )
    return float(timeout), httpx2.Timeout(None, connect=min(float(timeout), CONNECT_TIMEOUT_S))


def _encode(body: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        # The standard library also writes a lone surrogate, and integers of any size.
        return json.dumps(body).encode()


def _parse(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        # The standard library also takes a lone surrogate: half an emoji, where a model was cut.
        return json.loads(content)


def _split_login(url: str) -> tuple[str, dict[str, str]]:
    """Take user and password out of an address and give them as a header."""
    parts = urlsplit(url)
    login, _, host = parts.netloc.rpartition("@")
    if not login:
        return url, {}
    token = base64.b64encode(unquote(login).encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), {"Authorization": f"Basic {token}"}
