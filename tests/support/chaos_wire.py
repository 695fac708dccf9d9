"""The chaos model behind a real socket: what the transport spoils is spoilt byte by byte.

A server on loopback, in a thread of this process, answers for a `WireChaosModel`; the client is
the real one. Who asks says in a header which task it is, so that the ledger of the model holds
the very tasks that the worker has.
"""

import asyncio
import contextlib
import json
import random
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from memorypipe.errors import ModelError
from memorypipe.llm.models import make_model
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.types import DecideTask, ExtractTask, Model, Reply, Request
from tests.support.chaos_model import BROKEN, FAULTS, HALF, HTTP, ChaosModel

__all__ = ["WIRE_FAULTS", "FastLoop", "Wire", "WireChaosModel", "served"]

# Seconds of waiting take that much less: back-offs and time-outs are many.
_SPEED = 30.0
# Of the loop's time. No answer that comes takes as long, however busy the machine is.
_TIMEOUT_S = 90.0

_TASK_HEADER = "x-task"

Task = ExtractTask | DecideTask


class _FastSelector(selectors.DefaultSelector):
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(None if timeout is None else timeout / _SPEED)


class FastLoop(asyncio.SelectorEventLoop):
    """A loop with real sockets on which time passes faster."""

    def __init__(self) -> None:
        super().__init__(_FastSelector())

    def time(self) -> float:
        return time.monotonic() * _SPEED


class _StruckError(ModelError):
    """The transport fails, in the way that this names."""

    def __init__(self, fault: str) -> None:
        super().__init__(fault)
        self.fault = fault


class WireChaosModel(ChaosModel):
    """A chaos model whose transport faults are left to the server."""

    @staticmethod
    def is_on_the_wire(fault: str) -> bool:
        """Whether a fault is one of the transport."""
        return fault in _WIRE

    def _error(self, name: str, request: Request) -> ModelError | None:
        if name not in _WIRE or (name == "400 for the schema" and not request.params):
            return None
        return _StruckError(name)


# --- the faults: bytes, and what becomes of the connection ---

_Send = Callable[["_Connection", bytes], None]


def _http(
    status: int, body: bytes, headers: Mapping[str, str] | None = None, *, length: int | None = None
) -> bytes:
    length = len(body) if length is None else length
    named = {"content-length": length, "content-type": "application/json", **(headers or {})}
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in named.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _refused(name: str) -> _Send:
    status, headers = HTTP[name]
    message = "unknown field response_format" if "schema" in name else "it did not work"
    body = orjson.dumps({"error": {"message": message}})
    return lambda to, _: to.send(_http(status, body, headers))


def _answer(body: bytes, status: int = 200, **headers: str) -> _Send:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda to, _: to.send(_http(status, body, named))


def _half_body(to: "_Connection", whole: bytes) -> None:
    to.send(_http(200, whole[: len(whole) // 2], length=len(whole)))
    to.close()


def _short_length(to: "_Connection", whole: bytes) -> None:
    to.send(_http(200, whole, length=len(whole) // 2))
    to.close()


def _cut_chunks(to: "_Connection", whole: bytes) -> None:
    head = _http(200, b"", length=0).replace(b"content-length: 0", b"transfer-encoding: chunked")
    half = whole[: len(whole) // 2]
    to.send(head + f"{len(half):x}\r\n".encode() + half + b"\r\n")
    to.close()


def _stalled(to: "_Connection", whole: bytes) -> None:
    to.send(_http(200, whole[: len(whole) // 2], length=len(whole)))
    to.hang()


def _broken_off(to: "_Connection", whole: bytes) -> None:
    """The server gave up midway, and what there is looks whole."""
    completion = orjson.loads(whole)
    completion["choices"][0]["finish_reason"] = "error"
    completion["choices"][0]["message"]["content"] = '{"memories": [], "actions": []}'
    to.send(_http(200, orjson.dumps(completion)))


_WIRE: dict[str, _Send] = {
    **{name: _refused(name) for name in HTTP},
    **dict.fromkeys(BROKEN, lambda to, _: to.reset()),
    "timeout": lambda to, _: to.hang(),
    **dict.fromkeys(HALF, _half_body),
    "no choices": _answer(b'{"choices": []}'),
    "closed without a word": lambda to, _: to.close(),
    "length too small": _short_length,
    "chunks without an end": _cut_chunks,
    "stalled within the body": _stalled,
    "empty body": _answer(b""),
    "text": _answer(b"upstream connect error", content_type="text/plain"),
    "text that says JSON": _answer(b"upstream connect error"),
    "an error in a 200": _answer(b'{"error": {"message": "overloaded", "code": 503}}'),
    "no HTTP": lambda to, _: to.send(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"),
    "no gzip": _answer(b"plain", content_encoding="gzip"),
    "broken off": _broken_off,
    # Its status says that the endpoint is wrong; with others that answer it is not.
    "a page of the gateway": _answer(b"<html>busy</html>", 503, content_type="text/html"),
}

WIRE_FAULTS = (*FAULTS, *(name for name in _WIRE if name not in FAULTS))
"""All faults of the chaos model, and those that need a socket."""


# --- the server ---


class _Connection:
    """One connection, as the fault that strikes it sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.hangs = False

    async def request(self) -> tuple[Mapping[str, str], dict[str, Any]] | None:
        """The headers and the body of the next request; None where none comes any more."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
            pairs = [line.split(": ", 1) for line in head.decode().split("\r\n")[1:] if line]
            headers = {name.lower(): value for name, value in pairs}
            raw = await self._reader.readexactly(int(headers["content-length"]))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return headers, json.loads(raw)  # takes lone surrogates

    def send(self, content: bytes) -> None:
        self._writer.write(content)

    def hang(self) -> None:
        self.hangs = True

    def reset(self) -> None:
        """End it with a reset instead of an orderly close."""
        connection = self._writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def close(self) -> None:
        self._writer.close()

    async def until_gone(self) -> None:
        with contextlib.suppress(ConnectionError):
            await self._reader.read()

    @property
    def is_closing(self) -> bool:
        return self._writer.is_closing()


class Wire:
    """A running server, and what the worker needs to talk to it.

    Attributes:
        base_url: The address.
        settings: Of the expressions.
    """

    def __init__(self, model: WireChaosModel, port: int) -> None:
        self.base_url = f"http://127.0.0.1:{port}/v1"
        self.settings = {"base_url": self.base_url, "timeout": _TIMEOUT_S}
        self._chaos = model
        self._tasks: list[Task] = []

    def client(self, spec: ModelSpec) -> Model:
        """The real client, which also tells whose task a request is."""
        return _Client(make_model(spec, environ={}), self._tasks)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        connection = _Connection(reader, writer)
        try:
            while not connection.is_closing and (found := await connection.request()):
                await self._answer(connection, *found)
                if connection.hangs:
                    await connection.until_gone()
        finally:
            connection.close()

    async def _answer(
        self, connection: _Connection, headers: Mapping[str, str], body: Mapping[str, Any]
    ) -> None:
        params = {name: body[name] for name in ("response_format",) if name in body}
        task = self._tasks[int(headers[_TASK_HEADER])]
        request = Request(messages=body["messages"], params=params, task=task)
        try:
            reply = await self._chaos.complete(request)
        except _StruckError as struck:
            _WIRE[struck.fault](connection, _completion(Reply(content='{"memories": []}')))
            return
        connection.send(_http(200, _completion(reply)))


def _completion(reply: Reply) -> bytes:
    message = {"role": "assistant", "content": reply.content, "refusal": reply.refusal}
    # Not every server has the usual words for how a reply ended.
    dice = random.Random(reply.content)  # noqa: S311  # no secret
    words = {"length": ("length", "MAX_TOKENS"), "content_filter": ("content_filter", "SAFETY")}
    reason = dice.choice(words.get(reply.finish_reason or "", (reply.finish_reason,)))
    choice = {"index": 0, "message": message, "finish_reason": reason}
    usage = {"prompt_tokens": 9, "completion_tokens": 9}
    return json.dumps({"model": "chaos", "choices": [choice], "usage": usage}).encode()


class _Client:
    def __init__(self, client: Model, tasks: list[Task]) -> None:
        self._client = client
        self._tasks = tasks

    async def complete(self, request: Request) -> Reply:
        assert request.task is not None
        self._tasks.append(request.task)
        header = {_TASK_HEADER: str(len(self._tasks) - 1)}
        params = {**request.params, "extra_headers": header}
        return await self._client.complete(Request(messages=request.messages, params=params))

    async def refresh_key(self) -> None:
        await self._client.refresh_key()

    async def close(self) -> None:
        await self._client.close()


@contextlib.contextmanager
def served(model: WireChaosModel) -> Iterator[Wire]:
    """Serve a model until the block ends."""
    loop = FastLoop()
    thread = threading.Thread(target=loop.run_forever, name="chaos-server", daemon=True)
    thread.start()
    listening = socket.create_server(("127.0.0.1", 0))
    wire = Wire(model, listening.getsockname()[1])

    async def start() -> asyncio.Server:
        return await asyncio.start_server(wire.serve, sock=listening)

    async def stop(server: asyncio.Server) -> None:
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    server = asyncio.run_coroutine_threadsafe(start(), loop).result()
    try:
        yield wire
    finally:
        asyncio.run_coroutine_threadsafe(stop(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
