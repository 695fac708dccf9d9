"""The files and batches endpoints of a provider: one method per thing that can be asked of them.

Failures that may pass (connection, 408, 409, 429, 5xx) are tried again here, but for the creation
of a batch: whether that got through has to be found out before it is sent once more.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import openai
import orjson

from memorypipe.errors import EndpointError, ModelError, RetryableModelError
from memorypipe.llm.batch.client import make_client
from memorypipe.llm.batch.lines import CHAT_URL
from memorypipe.llm.http_errors import connection_error, status_error
from memorypipe.llm.keys import resolve_key
from memorypipe.llm.retry import next_wait_s
from memorypipe.llm.spec import ModelSpec

__all__ = ["BatchApi", "BatchFault", "RemoteBatch"]

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]

_MAX_ATTEMPTS = 20
# What the listings give at a time, and where looking for one thing ends.
_PAGE = 100
_MAX_PAGES = 200
_MISSING = frozenset({404, 405, 501})
_NO_ROOM = ("token_limit", "enqueued", "quota_limit", "too_many_batches")
_SHOWN_FAULTS = 3
_ENDED = frozenset({"completed", "expired", "cancelled", "failed"})
_MESSAGE_CHARS = 200
_TRANSPORT_ERRORS = (openai.OpenAIError, httpx2.HTTPError, OSError)


@dataclass(frozen=True, kw_only=True)
class BatchFault:
    """One reason why a batch was refused as a whole.

    Attributes:
        code: The provider's word for it.
        message: Its explanation, cut.
        line: The line of the file that it is about, from 1; None where it is about all.
    """

    code: str
    message: str
    line: int | None = None


@dataclass(frozen=True, kw_only=True)
class RemoteBatch:
    """A batch as the provider tells of it.

    Attributes:
        id: The provider's name of it.
        status: ``validating``, ``failed``, ``in_progress``, ``finalizing``, ``completed``,
            ``expired``, ``cancelling`` or ``cancelled``.
        name: The name that we gave it; None where it is none of ours.
        output_file_id: File of the replies; None where there is none (yet).
        error_file_id: File of the requests that failed, likewise.
        done: Requests that are through, well or not.
        faults: Why it was refused.
    """

    id: str
    status: str
    name: str | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    done: int = 0
    faults: tuple[BatchFault, ...] = field(default=())

    @property
    def has_ended(self) -> bool:
        """Whether the provider is through with it."""
        return self.status in _ENDED

    @property
    def found_no_room(self) -> bool:
        """Whether it was refused because the provider's queue is full."""
        said = " ".join(f"{fault.code} {fault.message}" for fault in self.faults).lower()
        return any(word in said for word in _NO_ROOM)

    @property
    def reasons(self) -> str:
        """Why it was refused, in words for a message."""
        told = [
            f"{'' if fault.line is None else f'line {fault.line}: '}{fault.message or fault.code}"
            for fault in self.faults[:_SHOWN_FAULTS]
        ]
        more = len(self.faults) - len(told)
        return "; ".join([*told, *([f"and {more} more"] if more > 0 else [])]) or "no reason given"

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "RemoteBatch":
        """Read the provider's JSON; what it leaves out is absent."""
        counts = _object(found.get("request_counts"))
        errors = found.get("errors")
        listed = _object(errors).get("data", errors)
        return cls(
            id=str(found.get("id")),
            status=str(found.get("status")),
            name=_object(found.get("metadata")).get("memorypipe_batch"),
            output_file_id=found.get("output_file_id") or None,
            error_file_id=found.get("error_file_id") or None,
            done=(counts.get("completed") or 0) + (counts.get("failed") or 0),
            faults=tuple(map(_fault, listed if isinstance(listed, list) else ())),
        )


class BatchApi:
    """Talks to the files and batches endpoints.

    Args:
        spec: Whose endpoints; the key is read anew for every call, as batches outlive keys.
        environ: Where keys named ``"env:NAME"`` are looked up.
        sleep: Waits so many seconds.
        rng: Dice of the back-off.
    """

    def __init__(
        self,
        spec: ModelSpec,
        *,
        environ: Mapping[str, str],
        sleep: Sleep = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self._spec = spec
        self._environ = environ
        self._sleep = sleep
        self._rng = rng or random.Random()  # noqa: S311  # jitter, no secret
        self._client = make_client(spec)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def upload(self, path: Path, file_name: str) -> str:
        """Upload a file of requests; give the provider's name of it.

        Raises:
            EndpointError: Where the endpoint has no Batch API, or does not let us use it.
            RejectedRequestError: Where it takes no such file.
            RetryableModelError: Where it failed again and again.
        """

        async def send() -> Mapping[str, Any]:
            with path.open("rb") as file:
                return await self._call(
                    "POST",
                    "/files",
                    body={"purpose": "batch"},
                    files=[("file", (file_name, file, "application/jsonl"))],
                    headers={"Content-Type": "multipart/form-data"},
                )

        return str((await self._retried(send)).get("id"))

    async def find_file(self, file_name: str) -> str | None:
        """Look for an uploaded file by name; None where there is none, or no listing."""
        try:
            async for found in self._pages("/files", purpose="batch"):
                if found.get("filename") == file_name:
                    return str(found.get("id"))
        except EndpointError as error:
            # A file that is uploaded twice costs nothing: no batch works on the first.
            if error.status not in _MISSING:
                raise
        return None

    async def create(self, file_id: str, *, name: str, run_id: str) -> RemoteBatch:
        """Create a batch over an uploaded file, in one attempt.

        Raises:
            RetryableModelError: Where it may or may not be there now: `find` tells.
        """
        body = {
            "input_file_id": file_id,
            "endpoint": CHAT_URL,
            "completion_window": "24h",
            "metadata": {"memorypipe_batch": name, "memorypipe_run": run_id[:512]},
        }
        return RemoteBatch.from_json(await self._call("POST", "/batches", body=body))

    async def find(self, name: str) -> RemoteBatch | None:
        """Look for a batch by the name that we gave it; one that was refused does not count."""
        async for found in self._pages("/batches"):
            batch = RemoteBatch.from_json(found)
            if batch.name == name and batch.status != "failed":
                return batch
        return None

    async def retrieve(self, batch_id: str) -> RemoteBatch:
        """Ask how a batch is getting on."""
        path = f"/batches/{batch_id}"
        return RemoteBatch.from_json(await self._retried(lambda: self._call("GET", path)))

    async def cancel(self, batch_id: str) -> RemoteBatch:
        """Cancel a batch; what it has answered by then can be had as always."""
        path = f"/batches/{batch_id}/cancel"
        return RemoteBatch.from_json(await self._retried(lambda: self._call("POST", path, body={})))

    async def download(self, file_id: str, path: Path) -> None:
        """Write a file of results to the local disk."""
        await self._retried(lambda: self._download(file_id, path))

    async def _download(self, file_id: str, path: Path) -> None:
        self._read_key()
        params = self._spec.params
        where = f"/files/{file_id}/content"
        try:
            async with self._client.files.with_streaming_response.content(
                file_id,
                extra_headers=params.get("extra_headers"),
                extra_query=params.get("extra_query"),
            ) as response:
                with path.open("wb") as file:
                    async for piece in response.iter_bytes():
                        file.write(piece)
        except openai.APIStatusError as error:
            raise self._status_error(error.response, where) from None
        except _TRANSPORT_ERRORS as error:
            raise connection_error(self._spec, error) from None

    async def _pages(self, path: str, **query: str) -> AsyncIterator[Mapping[str, Any]]:
        """Go through a listing, newest first as the provider gives it."""
        after: dict[str, str] = {}
        for _ in range(_MAX_PAGES):
            asked = {"limit": str(_PAGE), **query, **after}
            page = await self._retried(lambda asked=asked: self._call("GET", path, query=asked))  # type: ignore[misc]  # mypy infers no lambda with a default
            rows = page.get("data") or []
            for row in rows:
                yield row
            if not rows or not page.get("has_more"):
                return
            after = {"after": str(rows[-1].get("id"))}

    async def _retried(self, call: Callable[[], Awaitable[T]]) -> T:
        for attempt in range(1, _MAX_ATTEMPTS):
            try:
                return await call()
            except RetryableModelError as error:
                await self.back_off(error, attempt)
        return await call()

    async def back_off(self, error: ModelError, attempt: int) -> None:
        """Wait before the next attempt, or raise the error where there shall be none."""
        if attempt >= _MAX_ATTEMPTS:
            raise error
        await self._sleep(next_wait_s(error, attempt, rng=self._rng))

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        **sent: Any,
    ) -> Mapping[str, Any]:
        self._read_key()
        params = self._spec.params
        options: Any = {
            "headers": {**(headers or {}), **(params.get("extra_headers") or {})},
            "params": {**(params.get("extra_query") or {}), **(query or {})},
            "security": {"bearer_auth": True},
        }
        ask: Any = self._client.get if method == "GET" else self._client.post
        try:
            response = await ask(path, cast_to=httpx2.Response, options=options, **sent)
        except openai.APIStatusError as error:
            raise self._status_error(error.response, path) from None
        except _TRANSPORT_ERRORS as error:
            # Messages of these can quote addresses with a password in them: the class must do.
            raise connection_error(self._spec, error) from None
        found = _parse(response.content)
        if not isinstance(found, dict) or not ("id" in found or "data" in found):
            raise EndpointError(self._no_batch_api(path, "something else than a batch API would"))
        return found

    def _read_key(self) -> None:
        self._client.api_key = resolve_key(self._spec.api_key, self._environ)

    def _status_error(self, response: httpx2.Response, path: str) -> ModelError:
        status = response.status_code
        if status in _MISSING and path in {"/files", "/batches"}:
            return EndpointError(self._no_batch_api(path, str(status)), status=status)
        if status in _MISSING:
            return EndpointError(
                f"Endpoint {self._spec.endpoint!r} does not know {path!r} ({status}): another "
                f"key's project may have it, or it was deleted there.",
                status=status,
            )
        body = _parse(response.content)
        key = self._client.api_key
        return status_error(self._spec, status, response.headers, body, (), key=key)

    def _no_batch_api(self, path: str, answer: str) -> str:
        return (
            f"Endpoint {self._spec.endpoint!r} has no Batch API: {path!r} answers {answer}. Leave "
            f"--batch-api out, or check base_url, which usually ends in '/v1'."
        )


def _parse(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return None


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _fault(found: object) -> BatchFault:
    told = _object(found) or {"message": str(found)}
    line = told.get("line")
    return BatchFault(
        code=str(told.get("code") or "unknown"),
        message=" ".join(str(told.get("message") or "").split())[:_MESSAGE_CHARS],
        line=line if isinstance(line, int) else None,
    )
