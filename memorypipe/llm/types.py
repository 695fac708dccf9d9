"""What goes to a model and what comes back: the seam that every model stands behind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

__all__ = [
    "ChatMessage",
    "DecideTask",
    "Existing",
    "ExtractTask",
    "Fact",
    "Model",
    "RateState",
    "Reply",
    "Request",
    "Turn",
]

ChatMessage = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One message of a transcript.

    Attributes:
        role: ``"user"``, ``"assistant"``, ``"system"``, ``"tool"`` or what the log says.
        content: Its text, unchanged.
        name: Who speaks, where the log tells.
        timestamp: When it was said (UTC), where the log tells.
        id: The message's id; None where the messages have none.
        background: True where it may be read but no fact may be taken from it.
    """

    role: str
    content: str
    name: str | None = None
    timestamp: datetime | None = None
    id: str | None = None
    background: bool = False


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One extracted fact, as the decision sees it."""

    text: str
    context: str | None = None
    event_time: str | None = None


@dataclass(frozen=True, kw_only=True)
class Existing:
    """One existing memory, as the decision sees it."""

    id: str
    text: str
    context: str | None = None
    event_time: str | None = None


@dataclass(frozen=True, kw_only=True)
class ExtractTask:
    """What an extraction request asks: a transcript and free text about it."""

    turns: Sequence[Turn]
    context: str | None = None


@dataclass(frozen=True, kw_only=True)
class DecideTask:
    """What a decision request asks: facts against existing memories, both in prompt order."""

    facts: Sequence[Fact]
    existing: Sequence[Existing]


@dataclass(frozen=True, kw_only=True)
class Request:
    """One chat-completions request.

    Attributes:
        messages: The chat messages, complete.
        params: Further fields of the call (`temperature`, `response_format`, …).
        task: The same content as values; only the rule-based model reads it.
    """

    messages: Sequence[ChatMessage]
    params: Mapping[str, Any] = field(default_factory=dict)
    task: ExtractTask | DecideTask | None = None


@dataclass(frozen=True, kw_only=True)
class RateState:
    """What an endpoint tells about its own limits, in the headers of a reply.

    Attributes:
        remaining_requests: Requests that it still takes before the reset; None where it is silent.
        reset_requests_s: Seconds until it takes more of them.
        remaining_tokens: Tokens that it still takes before the reset.
        reset_tokens_s: Seconds until it takes more of them.
    """

    remaining_requests: int | None = None
    reset_requests_s: float | None = None
    remaining_tokens: int | None = None
    reset_tokens_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One reply of a model.

    Attributes:
        content: The assistant message's content; None where the field was null.
        finish_reason: ``"stop"``, ``"length"``, ``"content_filter"``, … as the endpoint says.
        refusal: The refusal text, where the endpoint has a field for it and it is set.
        prompt_tokens: As counted by the endpoint; where it does not say, an estimate from the
            text (`memorypipe.llm.tokens`), and 0 in a reply that came in a batch.
        completion_tokens: As `prompt_tokens`.
        latency_ms: From sending to the last byte.
        model: The model's name as the endpoint reports it.
        rate: What the endpoint told about its limits; of the moment, so no journal keeps it.
    """

    content: str | None
    finish_reason: str | None = "stop"
    refusal: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_ms: float = 0.0
    model: str | None = None
    rate: RateState | None = None


class Model(Protocol):
    """Anything that answers a chat-completions request."""

    async def complete(self, request: Request) -> Reply:
        """Answer one request, or raise a `ModelError`."""
        ...

    async def refresh_key(self) -> None:
        """Read the key again, where there is one."""
        ...

    async def close(self) -> None:
        """Release sockets and the like; called once, on the loop that `complete` ran on."""
        ...
