"""A fast stand-in for an OpenAI-compatible server, on loopback and in a process of its own.

In tests::

    with endpoint(latency_s=0.05, faults=[{"kind": "reset", "calls": [1]}]) as server:
        ...  # talk to server.base_url, then look at server.calls()

By hand or for a benchmark (prints its address as the first line)::

    python tests/support/endpoint.py --port 0 --latency-ms 200
"""

import argparse
import asyncio
import contextlib
import importlib
import json
import os
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

__all__ = ["Endpoint", "endpoint"]

DEFAULT_RESPONDER = "tests.support.responders:answer"
_KEPT_CALLS = 20_000
_HANG_S = 3_600.0

Responder = Callable[[Mapping[str, Any]], "str | Mapping[str, Any]"]


@dataclass(kw_only=True)
class _Server:
    """The server's state and its handlers.

    A fault is a mapping: `kind` is ``status`` (with `status`, `headers`, `body`), ``body`` (status
    200 with any `body` and `content_type`), ``reset``, ``hang``, ``slow`` (with `latency_s`),
    ``reject_schema`` (400 where the request has a `response_format`) or ``vectors`` (with `how`
    they are spoilt, see `tests.support.embeddings`). It strikes the requests whose number (from
    1) is in `calls`, that hold all texts of `contains`, a share of `rate` of them, that find
    more than `over_in_flight` open, or all. The first fault that strikes counts. Who finds too
    many open is answered at once, as a server does that protects itself; every other answer
    takes the latency.
    """

    latency_s: float = 0.0
    responder: Responder
    faults: Sequence[Mapping[str, Any]] = ()
    require_key: str | None = None
    seed: int = 0
    count: int = 0
    in_flight: int = 0
    max_in_flight: int = 0
    calls: list[dict[str, Any]] = field(default_factory=list)

    async def complete(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        self.count += 1
        number = self.count
        headers = {name.lower(): value for name, value in request.headers.items()}
        call = {"at_s": time.monotonic(), "path": request.path_qs, "headers": headers, "raw": raw}
        call |= {"done_s": None, "status": None}
        if number <= _KEPT_CALLS:
            self.calls.append(call)
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        try:
            response = await self._answer(request, raw, number)
            call["status"] = response.status
            return response
        finally:
            call["done_s"] = time.monotonic()
            self.in_flight -= 1

    async def _answer(self, request: web.Request, raw: bytes, number: int) -> web.StreamResponse:
        body = orjson.loads(raw)
        fault = self._fault(number, body)
        if (
            self.require_key
            and request.headers.get("Authorization") != f"Bearer {self.require_key}"
        ):
            fault = {"kind": "status", "status": 401, "body": _error("Incorrect API key provided.")}
        if self.latency_s and (fault is None or "over_in_flight" not in fault):
            await asyncio.sleep(self.latency_s)
        if fault is None:
            return _json(self._reply(body, number))
        return await self._fail(fault, body, number, request)

    def _fault(self, number: int, body: Mapping[str, Any]) -> Mapping[str, Any] | None:
        for index, fault in enumerate(self.faults):
            if "calls" in fault and number not in fault["calls"]:
                continue
            if any(
                text not in str(body.get("messages", body.get("input")))
                for text in fault.get("contains", ())
            ):
                continue
            if self.in_flight <= fault.get("over_in_flight", 0):
                continue
            if "rate" in fault:
                dice = random.Random(f"{self.seed}:{index}:{number}")  # noqa: S311  # a test's dice
                if dice.random() >= fault["rate"]:
                    continue
            if fault["kind"] == "reject_schema" and "response_format" not in body:
                continue
            return fault
        return None

    async def _fail(
        self, fault: Mapping[str, Any], body: Mapping[str, Any], number: int, request: web.Request
    ) -> web.StreamResponse:
        kind = fault["kind"]
        if kind == "status":
            content = fault.get("body", _error(f"scripted {fault['status']}"))
            return _json(content, status=fault["status"], headers=fault.get("headers"))
        if kind == "body":
            return _json(fault["body"], content_type=fault.get("content_type"))
        if kind == "reject_schema":
            message = "Invalid parameter: 'response_format' of type 'json_schema' is unknown."
            return _json(_error(message, param="response_format"), status=400)
        if kind == "reset" and request.transport is not None:
            request.transport.abort()
        elif kind in {"slow", "hang"}:
            await asyncio.sleep(fault.get("latency_s", _HANG_S))
        elif kind == "vectors":
            return _json(_embeddings(body, fault["how"]))
        return _json(self._reply(body, number))

    def _reply(self, body: Mapping[str, Any], number: int) -> str | dict[str, Any]:
        if "input" in body:
            return _embeddings(body)
        return _completion(body, self.responder(body), number)

    async def stats(self, _request: web.Request) -> web.Response:
        return _json({"count": self.count, "max_in_flight": self.max_in_flight})

    async def recorded(self, _request: web.Request) -> web.Response:
        calls = [{**call, "raw": call["raw"].decode()} for call in self.calls]
        return _json(calls)

    async def script(self, request: web.Request) -> web.Response:
        change = await request.json()
        for name, value in change.items():
            setattr(self, name, value)
        return _json({})


def _embeddings(body: Mapping[str, Any], how: str = "") -> str:
    # Looked up here: most servers embed nothing, and it is slow to import.
    return str(importlib.import_module("tests.support.embeddings").embeddings(body, how))


def _error(message: str, *, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "error", "param": param, "code": code}}


def _completion(
    body: Mapping[str, Any], reply: str | Mapping[str, Any], number: int
) -> dict[str, Any]:
    fields = {"content": reply} if isinstance(reply, str) else dict(reply)
    content = fields.get("content")
    prompt_tokens = sum(len(str(message.get("content"))) for message in body["messages"]) // 4
    completion_tokens = len(content or "") // 4
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": body["model"],
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": content,
                    "refusal": fields.get("refusal"),
                },
                "finish_reason": fields.get("finish_reason", "stop"),
            }
        ],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


def _json(
    content: object,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    content_type: str | None = None,
) -> web.Response:
    body = content.encode() if isinstance(content, str) else orjson.dumps(content)
    kind = content_type or "application/json"
    return web.Response(body=body, status=status, headers=headers, content_type=kind)


class Endpoint:
    """A running server, as the test that started it sees it.

    Attributes:
        base_url: What a client takes as `base_url`, e.g. ``http://127.0.0.1:40123/v1``.
    """

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self._root = base_url.removesuffix("/v1")
        # A proxy variable of the machine must not catch loopback calls.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def calls(self) -> list[dict[str, Any]]:
        """Give the requests received.

        Each has `at_s` and `done_s` (monotonic; `done_s` is None while it is open), `status`
        (None where no answer was sent), `path`, `headers` (lower case) and `body`.
        """
        return [{"body": json.loads(call.pop("raw")), **call} for call in self._get("calls")]

    def call_count(self) -> int:
        """Give how many requests came in, failed ones too."""
        return int(self._get("stats")["count"])

    def max_in_flight(self) -> int:
        """Give the most requests that were open at one time."""
        return int(self._get("stats")["max_in_flight"])

    def ended(self, *, within_s: float) -> bool:
        """Tell whether the server stops taking connections within a time."""
        deadline_s = time.monotonic() + within_s
        while time.monotonic() < deadline_s:
            try:
                self.call_count()
            except TimeoutError:
                continue
            except OSError:
                return True
        return False

    def script(self, **changes: Any) -> None:
        """Change `faults`, `latency_s` or `require_key` while the server runs."""
        request = urllib.request.Request(
            f"{self._root}/control/script", data=orjson.dumps(changes), method="POST"
        )
        self._opener.open(request, timeout=10).close()

    def _get(self, what: str) -> Any:
        with self._opener.open(f"{self._root}/control/{what}", timeout=30) as response:
            return json.load(response)


@contextlib.contextmanager
def endpoint(  # noqa: PLR0913  # each is one thing that a test turns
    *,
    latency_s: float = 0.0,
    responder: str = DEFAULT_RESPONDER,
    faults: Sequence[Mapping[str, Any]] = (),
    require_key: str | None = None,
    seed: int = 0,
    lifetime_s: float = 300.0,
) -> Iterator[Endpoint]:
    """Run a server until the block ends; it also ends with this process, or after `lifetime_s`.

    Args:
        latency_s: From a request's last byte to its answer.
        responder: ``"module:function"``; takes the request's JSON, gives the message's content,
            or a mapping of `content`, `refusal` and `finish_reason`.
        faults: What goes wrong, as `_Server` describes.
        require_key: Any other bearer key gets a 401.
        seed: Of the faults' `rate`.
        lifetime_s: The longest that the server lives.
    """
    command = [sys.executable, __file__, "--port", "0", "--until-stdin-closes"]
    command += ["--latency-ms", str(latency_s * 1e3), "--responder", responder]
    command += ["--faults", json.dumps(list(faults)), "--seed", str(seed)]
    command += ["--lifetime-s", str(lifetime_s)]
    if require_key is not None:
        command += ["--require-key", require_key]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["", *sys.path])}
    with subprocess.Popen(  # noqa: S603  # our own script
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            yield Endpoint(process.stdout.readline().strip())
        finally:
            process.kill()


def _load(responder: str) -> Responder:
    module, _, name = responder.partition(":")
    found: Responder = getattr(importlib.import_module(module), name)
    return found


async def _stdin_closed() -> None:
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    await reader.read()


async def _serve(server: _Server, options: argparse.Namespace) -> None:
    app = web.Application(client_max_size=64 * 1024**2)
    app.router.add_post("/v1/chat/completions", server.complete)
    app.router.add_post("/v1/embeddings", server.complete)
    app.router.add_get("/control/stats", server.stats)
    app.router.add_get("/control/calls", server.recorded)
    app.router.add_post("/control/script", server.script)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", options.port, backlog=4_096).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", flush=True)  # noqa: T201  # the contract
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(options.lifetime_s):
            await (_stdin_closed() if options.until_stdin_closes else asyncio.Event().wait())


def _main() -> None:
    parser = argparse.ArgumentParser(description="A fake OpenAI-compatible server on loopback.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--responder", default=DEFAULT_RESPONDER, help="module:function")
    parser.add_argument("--faults", type=json.loads, default=[], help="a JSON list")
    parser.add_argument("--require-key")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lifetime-s", type=float, default=1_800.0)
    parser.add_argument("--until-stdin-closes", action="store_true")
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parents[2]))
    server = _Server(
        latency_s=options.latency_ms / 1e3,
        responder=_load(options.responder),
        faults=options.faults,
        require_key=options.require_key,
        seed=options.seed,
    )
    asyncio.run(_serve(server, options))


if __name__ == "__main__":
    _main()
