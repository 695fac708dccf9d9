"""Sends a request's bytes and gives the answer's: aiohttp with our proxies and certificates.

The usual client libraries copy each request into objects of their own, several times: that costs
three times the CPU of sending, and one worker has to keep hundreds of requests in flight.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.connecting import CONNECT_TIMEOUT_S, DEFAULT_TIMEOUT_S, find_proxy, trusted
from memorypipe.llm.spec import ModelSpec

__all__ = ["Answer", "Timeouts", "Transport", "read_timeout"]

# Below the five seconds after which common servers close an idle connection: a request that
# meets the closing is lost.
_KEEP_ALIVE_S = 4.0

# Redirects that keep the method; a POST that becomes a GET asks for something else.
_REDIRECTS = frozenset({307, 308})


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back.

    Attributes:
        status: The HTTP status.
        headers: Looked up in any case.
        content: The body.
    """

    status: int
    headers: CIMultiDictProxy[str]
    content: bytes


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """How long a call may take.

    Attributes:
        whole_s: From connecting to the last byte.
        connect_s: To open a connection; None for no bound of its own.
        silence_s: Between two bytes; likewise.
    """

    whole_s: float
    connect_s: float | None = None
    silence_s: float | None = None


def read_timeout(timeout: Any) -> Timeouts:
    """Read the `timeout` of a call.

    Args:
        timeout: Seconds for the whole call; or an ``httpx.Timeout``, whose `connect` and `read`
            bound the parts; None for the default.

    Raises:
        InvalidArgumentError: For anything else.

    Example:
        >>> read_timeout(5)
        Timeouts(whole_s=5.0, connect_s=5.0, silence_s=None)
    """
    if hasattr(timeout, "connect") and hasattr(timeout, "read"):
        return Timeouts(
            whole_s=DEFAULT_TIMEOUT_S, connect_s=timeout.connect, silence_s=timeout.read
        )
    whole_s = DEFAULT_TIMEOUT_S if timeout is None else timeout
    if not isinstance(whole_s, int | float) or isinstance(whole_s, bool):
        raise InvalidArgumentError(
            f"timeout must be a number of seconds for the whole call, or an httpx.Timeout, got "
            f"{type(timeout).__name__}."
        )
    return Timeouts(whole_s=float(whole_s), connect_s=min(float(whole_s), CONNECT_TIMEOUT_S))


class Transport:
    """Posts to one endpoint; belongs to one event loop from the first request on.

    Args:
        spec: Says how the endpoint is reached, and how many connections it may have.

    Raises:
        EndpointError: For certificates that cannot be read, or a proxy that is not spoken to.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self._proxy = find_proxy(spec)
        # Slow to load, and a request that waited for it would start late.
        self._trusted = trusted(spec.ca_file)
        self._connections = spec.concurrency
        self._session: aiohttp.ClientSession | None = None

    async def post(
        self, url: URL, body: bytes, *, headers: CIMultiDict[str], timeouts: Timeouts
    ) -> Answer:
        """Send, and follow one redirect, to the same host: nobody else gets key and prompt.

        Raises:
            aiohttp.ClientError: Where the connection fails.
            TimeoutError: Where it takes too long.
            OSError: Where the connection fails.
        """
        async with asyncio.timeout(timeouts.whole_s):
            answer = await self._post(url, body, headers, timeouts)
            onward = _onward(url, answer)
            return answer if onward is None else await self._post(onward, body, headers, timeouts)

    async def close(self) -> None:
        """Close the connections; another request would open new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _post(
        self, url: URL, body: bytes, headers: CIMultiDict[str], timeouts: Timeouts
    ) -> Answer:
        proxy: dict[str, Any] = {}
        if self._proxy is not None:
            proxy = {"proxy": self._proxy.url, "proxy_headers": self._proxy.headers}
            if url.scheme == "http":
                # The request itself goes to the proxy; of a tunnel it sees the opening only.
                headers = CIMultiDict(headers)
                headers.update(self._proxy.headers)
        timeout = aiohttp.ClientTimeout(
            sock_connect=timeouts.connect_s, sock_read=timeouts.silence_s
        )
        async with self._open().post(
            url,
            data=body,
            headers=headers,
            allow_redirects=False,
            timeout=timeout,
            **proxy,
        ) as response:
            content = await response.read()
            return Answer(status=response.status, headers=response.headers, content=content)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=self._connections, keepalive_timeout=_KEEP_ALIVE_S, ssl=self._trusted
            )
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session


def _onward(url: URL, answer: Answer) -> URL | None:
    """Give where a redirect leads, where it stays with the same host."""
    location = answer.headers.get("location")
    if answer.status not in _REDIRECTS or not location:
        return None
    try:
        onward = url.join(URL(location))
    except ValueError:  # it is no address
        return None
    is_same = onward.host == url.host and onward.scheme in {url.scheme, "https"}
    return onward if is_same else None
