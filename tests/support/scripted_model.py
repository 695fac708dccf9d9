"""A model whose replies are scripted, and a stage that reads lists of words."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from memorypipe.llm.stage import Reading
from memorypipe.llm.types import Reply, Request

__all__ = ["ScriptedModel", "WordStage", "content", "said"]

Answer = Reply | Exception
Script = Callable[[Request, int], Answer | Awaitable[Answer]]


def said(content: str | None, *, finish_reason: str = "stop", tokens: int = 1) -> Reply:
    """A reply that cost `tokens` on both sides."""
    return Reply(
        content=content,
        finish_reason=finish_reason,
        prompt_tokens=tokens,
        completion_tokens=tokens,
        latency_ms=1.0,
        model="scripted",
    )


class ScriptedModel:
    """Answers by a function of the request and its number, from 1.

    Attributes:
        requests: What was asked, in order.
        max_in_flight: The most requests at one time.
        refreshed: How often the key was read again.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self.requests: list[Request] = []
        self.in_flight = 0
        self.max_in_flight = 0
        self.refreshed = 0
        self.closed = False

    async def complete(self, request: Request) -> Reply:
        self.requests.append(request)
        number = len(self.requests)
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        try:
            # Let others start, as a real call would.
            for _ in range(3):
                await asyncio.sleep(0)
            answer = self._script(request, number)
            if inspect.isawaitable(answer):
                answer = await answer
        finally:
            self.in_flight -= 1
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def refresh_key(self) -> None:
        self.refreshed += 1

    async def close(self) -> None:
        self.closed = True


class WordStage:
    """Tasks are sentences; the value is the tuple of words that the model says back.

    A reply in brackets reads badly; a reply that was cut keeps its complete words.
    """

    kind = "words"
    prompt_hash = "words"

    def request(self, task: str) -> Request:
        return Request(
            messages=[{"role": "user", "content": task}], params={"response_format": {"x": 1}}
        )

    def read(self, task: str, reply: Reply) -> Reading[tuple[str, ...]]:  # noqa: ARG002  # the seam
        if not reply.content or reply.content.startswith("["):
            return Reading(value=None, status="parse_error", error="it stands in brackets")
        words = tuple(reply.content.split())
        if reply.finish_reason == "length":
            return Reading(value=words[:-1], status="truncated", error="it was cut")
        return Reading(value=words, status="ok")

    def split(self, task: str) -> tuple[str, str] | None:
        words = task.split()
        half = len(words) // 2
        return (" ".join(words[:half]), " ".join(words[half:])) if half else None

    def merge(
        self,
        task: str,
        first: tuple[str, ...] | None,
        second: tuple[str, ...] | None,
        whole: tuple[str, ...] | None,
    ) -> tuple[str, ...]:
        assert task
        kept = whole or () if first is None or second is None else ()
        return tuple(dict.fromkeys([*kept, *(first or ()), *(second or ())]))


def content(request: Request) -> Any:
    """What the last message of a request says."""
    return request.messages[-1]["content"]
