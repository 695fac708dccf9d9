"""A stand-in for a provider's Batch API on loopback: files, batches, and chat completions beside.

It lives in a thread of the test, which may read and change its state at any time::

    with batch_server(scripts={1: {"fail_share": 0.1}}) as server:
        ...  # talk to server.base_url
        assert max(server.paid.values()) == 1

A script says what goes wrong with one batch, by its number (from 1) or ``"all"``:

=================  =====================================================================
``refuse``         errors of the batch object: it fails as a whole
``no_room``        so many creations of its file fail with ``token_limit_exceeded``
``fail_share``     share of the lines that end with a 500 in the error file
``bad_share``      share of the lines whose reply is no JSON; they are paid for
``cut_share``      share of the lines whose reply was cut, for all that it looks whole
``drop_share``     share of the lines that are in no file
``expire_share``   share of the lines that are not got to: the batch ends as expired
``extra_lines``    further lines of the output file
``repeat``         True writes each line of the output file twice
``polls``          how often the batch is asked after until it ends (2)
=================  =====================================================================

A fault strikes a call of the control plane: `method`, `path` (a prefix), `calls` (numbers from 1
among those of that method and prefix), and `kind`: ``status`` (with `status`, `headers`), or
``reset``; with ``after`` the call takes effect before its answer is lost.
"""

import asyncio
import contextlib
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from tests.support.responders import answer

__all__ = ["BatchServer", "batch_server"]

_ACTIVE = ("validating", "in_progress", "finalizing")


@dataclass(kw_only=True)
class BatchServer:
    """The server's state.

    Attributes:
        base_url: What a client takes as `base_url`.
        paid: How often each request body was answered with a reply, by whichever way.
        chats: Requests that came alone.
        files: Uploaded and result files by id: `filename`, `purpose`, `content`.
        batches: Batch objects by id, in the order of their creation.
        seen: Calls of the control plane, as ``"POST /v1/files"``.
        lost: Lines that were answered, and are in no file (``drop_share``).
    """

    base_url: str = ""
    responder: Callable[[Mapping[str, Any]], "str | Mapping[str, Any]"] = answer
    scripts: Mapping[Any, Mapping[str, Any]] = field(default_factory=dict)
    faults: Sequence[Mapping[str, Any]] = ()
    max_requests: int = 50_000
    max_bytes: int = 200_000_000
    has_batches: bool = True
    require_key: str | None = None
    page: int = 2
    paid: Counter[str] = field(default_factory=Counter)
    chats: int = 0
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    lost: int = 0
    _struck: Counter[int] = field(default_factory=Counter)
    _no_room: Counter[str] = field(default_factory=Counter)

    def statuses(self) -> list[str]:
        """Give the statuses of all batches, in the order of their creation."""
        return [batch["status"] for batch in self.batches.values()]

    # --- what it serves ---

    @web.middleware
    async def guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """Refuse, break off or answer a call."""
        is_control = not request.path.endswith("/chat/completions")
        if self.require_key and request.headers.get("Authorization") != self.require_key:
            return _error(401, "Incorrect API key provided.")
        if is_control and not self.has_batches:
            return _error(404, "Not found.")
        if is_control:
            self.seen.append(f"{request.method} {request.path}")
        fault = self._fault(request) if is_control else None
        if fault is not None and not fault.get("after"):
            return self._strike(fault, request)
        response: web.StreamResponse = await handler(request)
        return response if fault is None else self._strike(fault, request)

    def _fault(self, request: web.Request) -> Mapping[str, Any] | None:
        found = None
        for number, fault in enumerate(self.faults):
            if request.method == fault["method"] and request.path.startswith(fault["path"]):
                self._struck[number] += 1
                if self._struck[number] in fault["calls"] and found is None:
                    found = fault
        return found

    @staticmethod
    def _strike(fault: Mapping[str, Any], request: web.Request) -> web.StreamResponse:
        if fault["kind"] == "reset" and request.transport is not None:
            request.transport.abort()
        return _error(fault.get("status", 500), "scripted", headers=fault.get("headers"))

    async def chat(self, request: web.Request) -> web.Response:
        """Answer one request alone."""
        self.chats += 1
        return web.json_response(self._complete(orjson.loads(await request.read())))

    async def upload(self, request: web.Request) -> web.Response:
        """Take a file."""
        fields: dict[str, Any] = {}
        async for part in await request.multipart():
            fields[str(part.name)] = bytes(await part.read(decode=False))  # type: ignore[union-attr]
            if part.filename:  # type: ignore[union-attr]
                fields["filename"] = part.filename  # type: ignore[union-attr]
        file_id = self._keep(fields["filename"], fields["purpose"].decode(), fields["file"])
        return web.json_response(self._file_object(file_id))

    async def list_files(self, request: web.Request) -> web.Response:
        """List files, newest first."""
        wanted = [
            self._file_object(each)
            for each, file in self.files.items()
            if file["purpose"] == request.query.get("purpose", file["purpose"])
        ]
        return self._listing(wanted, request)

    async def content(self, request: web.Request) -> web.Response:
        """Give a file's content."""
        file = self.files.get(request.match_info["id"])
        if file is None:
            return _error(404, "No such File object.")
        return web.Response(body=file["content"], content_type="application/octet-stream")

    async def delete_file(self, request: web.Request) -> web.Response:
        """Delete a file."""
        self.files.pop(request.match_info["id"], None)
        deleted = {"id": request.match_info["id"], "object": "file", "deleted": True}
        return web.json_response(deleted)

    async def create(self, request: web.Request) -> web.Response:
        """Create a batch."""
        asked = orjson.loads(await request.read())
        if asked["input_file_id"] not in self.files:
            return _error(400, "Invalid input_file_id.")
        number = len(self.batches) + 1
        batch_id = f"batch_{number:04d}"
        self.batches[batch_id] = {
            "id": batch_id,
            "object": "batch",
            "endpoint": asked["endpoint"],
            "errors": None,
            "input_file_id": asked["input_file_id"],
            "completion_window": asked["completion_window"],
            "status": "validating",
            "output_file_id": None,
            "error_file_id": None,
            "created_at": int(time.time()),
            "request_counts": {"total": 0, "completed": 0, "failed": 0},
            "metadata": asked.get("metadata"),
            "_script": {**self.scripts.get("all", {}), **self.scripts.get(number, {})},
            "_polls": 0,
        }
        return web.json_response(_shown(self.batches[batch_id]))

    async def list_batches(self, request: web.Request) -> web.Response:
        """List batches, newest first."""
        return self._listing([_shown(batch) for batch in self.batches.values()], request)

    async def retrieve(self, request: web.Request) -> web.Response:
        """Tell of a batch; it gets on by being asked after."""
        batch = self.batches.get(request.match_info["id"])
        if batch is None:
            return _error(404, "No batch found.")
        self._get_on(batch)
        return web.json_response(_shown(batch))

    async def cancel(self, request: web.Request) -> web.Response:
        """Begin to cancel a batch."""
        batch = self.batches[request.match_info["id"]]
        if batch["status"] not in _ACTIVE:
            return _error(409, f"Cannot cancel a batch with status '{batch['status']}'.")
        batch["status"] = "cancelling"
        return web.json_response(_shown(batch))

    def _listing(self, rows: list[dict[str, Any]], request: web.Request) -> web.Response:
        newest = rows[::-1]
        after = request.query.get("after")
        start = next((n + 1 for n, row in enumerate(newest) if row["id"] == after), 0)
        page = newest[start : start + self.page]
        has_more = start + self.page < len(newest)
        return web.json_response({"object": "list", "data": page, "has_more": has_more})

    # --- how batches get on ---

    def _get_on(self, batch: dict[str, Any]) -> None:
        script = batch["_script"]
        batch["_polls"] += 1
        if batch["status"] == "cancelling":
            self._answer(batch, share=0.5)
            batch["status"] = "cancelled"
        elif batch["status"] == "validating":
            faults = self._validate(batch)
            batch["status"] = "failed" if faults else "in_progress"
            batch["errors"] = {"object": "list", "data": faults} if faults else None
        if batch["status"] == "in_progress" and batch["_polls"] >= script.get("polls", 2):
            share = 1 - script.get("expire_share", 0.0)
            self._answer(batch, share=share)
            batch["status"] = "completed" if share == 1 else "expired"

    def _validate(self, batch: dict[str, Any]) -> list[dict[str, Any]]:
        script = batch["_script"]
        file_id = batch["input_file_id"]
        content = self.files[file_id]["content"]
        if self._no_room[file_id] < script.get("no_room", 0):
            self._no_room[file_id] += 1
            return [_fault("token_limit_exceeded", "Enqueued token limit reached for model m.")]
        if "refuse" in script:
            return [dict(fault) for fault in script["refuse"]]
        lines = content.splitlines()
        batch["request_counts"]["total"] = len(lines)
        if len(lines) > self.max_requests:
            return [_fault("too_many_tasks", f"More than {self.max_requests} requests.")]
        if len(content) > self.max_bytes:
            return [_fault("file_too_large", f"More than {self.max_bytes} bytes.")]
        seen: set[str] = set()
        faults = []
        for number, line in enumerate(lines, start=1):
            fault = _line_fault(line, seen)
            faults += [_fault("invalid_request", fault, number)] if fault else []
        return faults

    def _answer(self, batch: dict[str, Any], *, share: float) -> None:
        """Answer the lines of a batch in any order, as its script has it."""
        script, dice = batch["_script"], random.Random(batch["id"])  # noqa: S311  # a test's dice
        lines = [
            orjson.loads(x) for x in self.files[batch["input_file_id"]]["content"].splitlines()
        ]
        dice.shuffle(lines)
        reached = round(len(lines) * share)
        output, errors = [], []
        for number, line in enumerate(lines):
            if number >= reached:
                errors.append(_expired_line(line))
            elif dice.random() < script.get("fail_share", 0.0):
                errors.append(_failed_line(line))
            else:
                completion = self._complete(line["body"], is_bad=_hit(dice, script, "bad_share"))
                if _hit(dice, script, "cut_share"):
                    completion["choices"][0]["finish_reason"] = "length"
                is_lost = _hit(dice, script, "drop_share")
                self.lost += is_lost
                output += [] if is_lost else [_answered_line(line, completion)]
        batch["request_counts"] |= {"completed": len(output), "failed": len(errors)}
        output = [line for line in output for _ in range(2 if script.get("repeat") else 1)]
        output += script.get("extra_lines", [])
        batch["output_file_id"] = self._keep_lines(output)
        batch["error_file_id"] = self._keep_lines(errors)

    def _complete(self, body: Mapping[str, Any], *, is_bad: bool = False) -> dict[str, Any]:
        self.paid[json.dumps(body, sort_keys=True)] += 1
        said = "I could not find anything." if is_bad else self.responder(body)
        fields = {"content": said} if isinstance(said, str) else dict(said)
        message = {"role": "assistant", "refusal": None, **fields}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": body["model"],
            "choices": [choice],
            "usage": usage,
        }

    def _keep_lines(self, lines: Sequence[Mapping[str, Any]]) -> str | None:
        content = b"".join(orjson.dumps(line) + b"\n" for line in lines)
        return self._keep("results.jsonl", "batch_output", content) if lines else None

    def _keep(self, filename: str, purpose: str, content: bytes) -> str:
        file_id = f"file-{len(self.files) + 1:04d}"
        self.files[file_id] = {"filename": filename, "purpose": purpose, "content": content}
        return file_id

    def _file_object(self, file_id: str) -> dict[str, Any]:
        file = self.files[file_id]
        return {
            "id": file_id,
            "object": "file",
            "bytes": len(file["content"]),
            "created_at": 1_700_000_000,
            "filename": file["filename"],
            "purpose": file["purpose"],
            "status": "processed",
        }


def _shown(batch: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in batch.items() if not name.startswith("_")}


def _error(status: int, message: str, *, headers: Mapping[str, str] | None = None) -> web.Response:
    error = {"message": message, "type": "error", "param": None, "code": None}
    return web.json_response({"error": error}, status=status, headers=headers)


def _fault(code: str, message: str, line: int | None = None) -> dict[str, Any]:
    return {"code": code, "message": message, "param": None, "line": line}


def _line_fault(line: bytes, seen: set[str]) -> str | None:
    try:
        found = orjson.loads(line)
        custom_id, body = found["custom_id"], found["body"]
    except (orjson.JSONDecodeError, KeyError):
        return "This line is no request."
    if found.get("method") != "POST" or found.get("url") != "/v1/chat/completions":
        return "Method or url is wrong."
    if not body.get("model") or not isinstance(body.get("messages"), list):
        return "The body needs a model and messages."
    if custom_id in seen:
        return "This custom_id is not unique."
    seen.add(custom_id)
    return None


def _hit(dice: random.Random, script: Mapping[str, Any], name: str) -> bool:
    return bool(dice.random() < script.get(name, 0.0))


def _answered_line(line: Mapping[str, Any], completion: object) -> dict[str, Any]:
    response = {"status_code": 200, "request_id": "req_1", "body": completion}
    return {
        "id": "batch_req_1",
        "custom_id": line["custom_id"],
        "response": response,
        "error": None,
    }


def _failed_line(line: Mapping[str, Any]) -> dict[str, Any]:
    body = {"error": {"message": "The server had an error.", "type": "server_error"}}
    response = {"status_code": 500, "request_id": "req_1", "body": body}
    return {"id": "batch_req_1", "custom_id": line["custom_id"], "response": response}


def _expired_line(line: Mapping[str, Any]) -> dict[str, Any]:
    error = {"code": "batch_expired", "message": "The completion window expired."}
    return {"id": "batch_req_1", "custom_id": line["custom_id"], "response": None, "error": error}


@contextlib.contextmanager
def batch_server(**state: Any) -> Iterator[BatchServer]:
    """Run a server until the block ends; `state` are fields of `BatchServer`."""
    server = BatchServer(**state)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    runner = asyncio.run_coroutine_threadsafe(_start(server), loop).result(timeout=30)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(timeout=30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _start(server: BatchServer) -> web.AppRunner:
    app = web.Application(client_max_size=1024**3, middlewares=[server.guard])
    app.router.add_post("/v1/chat/completions", server.chat)
    app.router.add_post("/v1/files", server.upload)
    app.router.add_get("/v1/files", server.list_files)
    app.router.add_get("/v1/files/{id}/content", server.content)
    app.router.add_delete("/v1/files/{id}", server.delete_file)
    app.router.add_post("/v1/batches", server.create)
    app.router.add_get("/v1/batches", server.list_batches)
    app.router.add_get("/v1/batches/{id}", server.retrieve)
    app.router.add_post("/v1/batches/{id}/cancel", server.cancel)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    return runner
