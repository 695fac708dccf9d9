"""Servers on loopback for what lies between a client and an endpoint: TLS, proxies, redirects.

They run on the test's own event loop.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Self
from urllib.parse import urlsplit

from aiohttp import web

__all__ = ["COMPLETION", "Proxy", "Server", "serving"]

COMPLETION: dict[str, Any] = {
    "object": "chat.completion",
    "choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """A running server.

    Attributes:
        port: Where it listens, on loopback.
        requests: Path with query, and headers in lower case, of what came in.
    """

    def __init__(self) -> None:
        self.port = 0
        self.requests: list[tuple[str, dict[str, str]]] = []

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


async def _complete(_request: web.Request) -> web.StreamResponse:
    return web.json_response(COMPLETION)


@contextlib.asynccontextmanager
async def serving(
    handler: Handler = _complete, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Server]:
    """Answer every request by a handler, until the block ends."""
    server = Server()

    async def record(request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        server.requests.append((request.path_qs, headers))
        return await handler(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", record)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        server.port = runner.addresses[0][1]
        yield server
    finally:
        await runner.cleanup()


class Proxy:
    """A proxy that tunnels (CONNECT) and forwards; both lead to one port on loopback.

    Args:
        port: Where everything leads to, whatever host is asked for.
        login: The `Proxy-Authorization` that it wants; None takes everybody.

    Attributes:
        asked: First lines of what came in.
        logins: The `Proxy-Authorization` of each, None where there was none.
    """

    def __init__(self, port: int, *, login: str | None = None) -> None:
        self._target = port
        self._login = login
        self._server: asyncio.Server | None = None
        self.asked: list[str] = []
        self.logins: list[str | None] = []

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (x.partition(": ") for x in lines)}
        login = headers.get("proxy-authorization")
        self.asked.append(lines[0])
        self.logins.append(login)
        if self._login is not None and login != self._login:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
            writer.close()
            return
        onward_reader, onward = await asyncio.open_connection("127.0.0.1", self._target)
        if lines[0].startswith("CONNECT"):
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            method, url, version = lines[0].split(" ")
            onward.write(
                "\r\n".join([f"{method} {urlsplit(url).path} {version}", *lines[1:]]).encode()
            )
        await asyncio.gather(_pour(reader, onward), _pour(onward_reader, writer))


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(65_536):
            writer.write(chunk)
    writer.close()
