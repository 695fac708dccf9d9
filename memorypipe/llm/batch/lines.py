"""The lines of batch files: requests out, replies in."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from memorypipe.llm.batch.records import BatchFolder
from memorypipe.llm.journal.keys import journal_key
from memorypipe.llm.replies.completion import read_completion
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.types import Reply, Request

__all__ = [
    "CHAT_URL",
    "BatchRequest",
    "BatchResult",
    "RequestFile",
    "batch_request",
    "read_result",
]

CHAT_URL = "/v1/chat/completions"

# Arguments of a call that are no fields of its body.
_NOT_IN_BODY = frozenset({"extra_headers", "extra_query", "extra_body", "timeout"})

_HTTP_ERROR = 400


@dataclass(frozen=True, kw_only=True)
class BatchRequest:
    """One request of a batch.

    Attributes:
        key: From `memorypipe.llm.journal.keys.journal_key`; it is the request's `custom_id`.
        body: The JSON of the chat-completions call.
        scope_key: Whose data it is about, for the journal.
    """

    key: str
    body: Mapping[str, Any]
    scope_key: str | None = None

    def line(self) -> bytes:
        """Give its line of the file, the newline included."""
        line = {"custom_id": self.key, "method": "POST", "url": CHAT_URL, "body": self.body}
        try:
            return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
        except TypeError:
            # A lone surrogate in a parameter; the standard library writes it as an escape.
            return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def batch_request(spec: ModelSpec, request: Request, scope_key: str | None = None) -> BatchRequest:
    """Make the batch form of a request: same key and same body as if it were sent alone.

    Args:
        spec: Whom it is for; its `params` win over those of the request.
        request: As a stage makes it.
        scope_key: Whose data it is about.

    Example:
        >>> spec = ModelSpec(base_url="http://host/v1", model="m", params={"timeout": 5})
        >>> batch_request(spec, Request(messages=[])).body
        {'model': 'm', 'messages': []}
    """
    params = {**request.params, **spec.params}
    key = journal_key(spec.endpoint, spec.model, params, request.messages, spec.repeat_key)
    fields = {name: value for name, value in params.items() if name not in _NOT_IN_BODY}
    body = {"model": spec.model, "messages": list(request.messages), **fields}
    return BatchRequest(
        key=key, body={**body, **(params.get("extra_body") or {})}, scope_key=scope_key
    )


class RequestFile:
    """A file of requests that grows up to the provider's limits.

    Args:
        folder: Where it is written.
        max_requests: Lines that it holds at most.
        max_bytes: Bytes that it holds at most.
    """

    def __init__(
        self,
        folder: BatchFolder,
        *,
        max_requests: int,
        max_bytes: int,
    ) -> None:
        self._folder = folder
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._scratch = folder.scratch("requests")
        self._file = self._scratch.open("wb")
        self._hash = hashlib.blake2b(digest_size=16)
        self._keys: list[str] = []
        self.size_bytes = 0

    @property
    def requests(self) -> int:
        """Requests in it."""
        return len(self._keys)

    def has_room(self, line: bytes) -> bool:
        """Tell whether one more line keeps to the limits."""
        return self.requests < self._max_requests and self.size_bytes + len(line) <= self._max_bytes

    def add(self, request: BatchRequest, line: bytes) -> None:
        """Add a request, given with its line."""
        self._file.write(line)
        self._hash.update(line)
        self._keys.append(f"{request.key} {request.scope_key or ''}\n")
        self.size_bytes += len(line)

    def close(self) -> str:
        """Make it durable; give the name that it has from now on."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        name = self._free_name()
        self._scratch.replace(self._folder.file(name, "jsonl"))
        self._folder.write_whole(f"{name}.keys", "".join(self._keys).encode())
        return name

    def discard(self) -> None:
        """Remove it."""
        self._file.close()
        self._scratch.unlink(missing_ok=True)

    def _free_name(self) -> str:
        """Name it by its content; requests that went before, unanswered, get another name."""
        content, number = self._hash.hexdigest(), 0
        while self._folder.file(name := f"{content}-{number}", "json").exists():
            number += 1
        return name


@dataclass(frozen=True, kw_only=True)
class BatchResult:
    """One line of a result file.

    Attributes:
        key: The request that it answers, 16 bytes; None where the line names none of ours.
        outcome: What it says.
        reply: The reply, where it is one.
    """

    key: bytes | None
    outcome: Literal["reply", "failed", "expired"]
    reply: Reply | None = None


def read_result(line: bytes) -> BatchResult:
    """Read a line of an output or error file; what cannot be read is a failure of nobody.

    Example:
        >>> read_result(b'{"custom_id": "x", "error": {"code": "batch_expired"}}')
        BatchResult(key=None, outcome='expired', reply=None)
    """
    found = _object(_json(line))
    key = _key(found.get("custom_id"))
    error = _object(found.get("error"))
    response = _object(found.get("response"))
    if error:
        outcome: Literal["failed", "expired"] = (
            "expired" if error.get("code") == "batch_expired" else "failed"
        )
        return BatchResult(key=key, outcome=outcome)
    status = response.get("status_code", 200)
    reply = read_completion(_object(response.get("body")))
    if reply is None or not isinstance(status, int) or status >= _HTTP_ERROR:
        return BatchResult(key=key, outcome="failed")
    return BatchResult(key=key, outcome="reply", reply=reply)


def _json(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        pass
    try:
        # The standard library also takes a lone surrogate: half an emoji, from a cut reply.
        return json.loads(line)
    except ValueError:
        return None


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _key(custom_id: object) -> bytes | None:
    try:
        key = bytes.fromhex(str(custom_id))
    except ValueError:
        return None
    return key if len(key) == 16 and isinstance(custom_id, str) else None  # noqa: PLR2004  # as keys are
