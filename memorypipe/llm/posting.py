"""Posts JSON to one path of an endpoint: address, key, headers, time-outs, and what went wrong."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

import aiohttp
import orjson
from multidict import CIMultiDict
from yarl import URL

from memorypipe.errors import EndpointError, ModelError, RetryableModelError
from memorypipe.llm.connecting import split_login
from memorypipe.llm.http_errors import connection_error, status_error
from memorypipe.llm.keys import resolve_key
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.transport import Answer, Timeouts, Transport, read_timeout
from memorypipe.llm.types import ChatMessage

__all__ = ["OPTIONS", "Poster"]

OPTIONS = ("extra_headers", "extra_query", "timeout")
"""Arguments of a call that are no fields of the body."""

_OK = range(200, 300)
# Looked up here: within the first request it would delay that one into those that follow.
_USER_AGENT = f"memorypipe/{version('memorypipe')}"


@dataclass(frozen=True, kw_only=True)
class _Way:
    """What is the same for every request with the same options."""

    options: Mapping[str, Any]
    url: URL
    headers: CIMultiDict[str]
    timeouts: Timeouts


class Poster:
    """Posts to one path of an endpoint; no connection is opened, no key read, before the first.

    Args:
        spec: Whom to ask.
        path: What is added to `base_url`, e.g. ``"/embeddings"``.
        product: What an answer holds, for errors, e.g. ``"chat completion"``.
        environ: Where keys named ``"env:NAME"`` are looked up.
        clock: Monotonic seconds.

    Raises:
        InvalidArgumentError: For a `timeout` that is none.
        EndpointError: For a file of certificates that cannot be read.
    """

    def __init__(
        self,
        spec: ModelSpec,
        path: str,
        *,
        product: str,
        environ: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        read_timeout(spec.params.get("timeout"))
        self._spec = spec
        self._path = path
        self._product = product
        self._environ = environ
        self._clock = clock
        self._transport = Transport(spec)
        self._key: str | None = None
        self._way: _Way | None = None

    async def post(
        self,
        body: Mapping[str, Any],
        *,
        options: Mapping[str, Any],
        messages: Sequence[ChatMessage],
    ) -> tuple[dict[str, Any], Answer, float]:
        """Send a body, and read the JSON object that comes back.

        Args:
            body: The fields of the request.
            options: Of `OPTIONS`.
            messages: What is asked; no error repeats it.

        Returns:
            The object, the answer that it was read from, and the milliseconds from sending to the
            last byte.

        Raises:
            RetryableModelError: For a connection that failed, a timeout, 408, 409, 429, 5xx and a
                reply that is no whole JSON; with the wait that the endpoint asked for.
            RejectedRequestError: For 400 and what else is final for this request.
            EndpointError: For 401, 402, 403, 404, 407, a used-up quota, a certificate that is
                not trusted, a redirect to another host, a web page instead of a reply, and a key
                that cannot be read.
        """
        if self._key is None:
            self._use_key(resolve_key(self._spec.api_key, self._environ))
        if self._way is None or self._way.options != options:
            self._way = self._find_way(options)
        way, content = self._way, _encode(body)
        started_s = self._clock()
        try:
            answer = await self._transport.post(
                way.url, content, headers=way.headers, timeouts=way.timeouts
            )
        except (aiohttp.ClientError, OSError) as error:
            # Messages of these can quote addresses with a password in them: the class must do.
            raise connection_error(self._spec, error) from None
        latency_ms = (self._clock() - started_s) * 1e3
        if answer.status not in _OK:
            raise self._error(answer.status, answer, _json_or_none(answer.content), messages)
        reply = self._object(answer)
        if isinstance(failure := reply.get("error"), Mapping):
            # Some gateways answer 200 and tell of the failure behind them in the body.
            code = failure.get("code")
            raise self._error(code if isinstance(code, int) else 502, answer, reply, messages)
        return reply, answer, latency_ms

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
        await self._transport.close()

    def not_an_endpoint(self, what: str = "") -> EndpointError:
        """Make the error for an answer that is of quite another kind."""
        what = what or f"JSON that is no {self._product}"
        return EndpointError(
            f"{self._spec.endpoint!r} answers with {what} (model {self._spec.model!r}). Check "
            f"base_url: it usually ends in '/v1', and {self._path!r} is added to it."
        )

    def malformed(self, what: str, kind: str) -> RetryableModelError:
        """Make the error for an answer that is broken, and may be whole the next time."""
        return RetryableModelError(
            f"{what} (endpoint {self._spec.endpoint!r}, model {self._spec.model!r}).", kind
        )

    def _use_key(self, key: str) -> None:
        if not (key.isascii() and key.isprintable()):
            raise EndpointError(
                f"The key for {self._spec.endpoint!r} holds a character that no header can carry."
            )
        self._key, self._way = key, None

    def _find_way(self, options: Mapping[str, Any]) -> _Way:
        address, login = split_login(self._spec.base_url)
        parts = urlsplit(address)
        query = "&".join(filter(None, (parts.query, _query(options["extra_query"] or {}))))
        path = parts.path.rstrip("/") + self._path
        headers = CIMultiDict(
            {
                "Authorization": f"Bearer {self._key}",
                "Content-Type": "application/json",
                "Accept": "application/json",
                "User-Agent": _USER_AGENT,
            }
        )
        headers.update(login)
        headers.update(options["extra_headers"] or {})
        return _Way(
            options=options,
            url=URL(urlunsplit(parts._replace(path=path, query=query, fragment="")), encoded=True),
            headers=headers,
            timeouts=read_timeout(options["timeout"]),
        )

    def _error(
        self, status: int, answer: Answer, body: object, messages: Sequence[ChatMessage]
    ) -> ModelError:
        return status_error(self._spec, status, answer.headers, body, messages, key=self._key)

    def _object(self, answer: Answer) -> dict[str, Any]:
        content = answer.content
        if "html" in answer.headers.get("content-type", "") or content.lstrip()[:1] == b"<":
            raise self.not_an_endpoint("a web page")
        try:
            reply = _parse(content)
        except ValueError:
            raise self.malformed("The reply is no whole JSON", "malformed_reply") from None
        if not isinstance(reply, dict):
            raise self.not_an_endpoint()
        return reply


def _json_or_none(content: bytes) -> object:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return None


def _query(values: Mapping[str, Any], outer: str = "") -> str:
    """Write a query: lists repeat the name, mappings put theirs in brackets, nulls are left out.

    Example:
        >>> _query({"api-version": 1, "tags": ["a", "b"], "dry": True, "x": {"y": "&"}})
        'api-version=1&tags=a&tags=b&dry=true&x%5By%5D=%26'
    """
    written = []
    for name, value in values.items():
        full = f"{outer}[{name}]" if outer else name
        if isinstance(value, Mapping):
            written.append(_query(value, full))
            continue
        many = value if isinstance(value, list | tuple) else [value]
        pairs = [(full, _query_text(one)) for one in many if one is not None]
        written.append(urlencode(pairs))
    return "&".join(filter(None, written))


def _query_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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
