"""From the JSON of a chat completion to a reply, whichever way it came."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from memorypipe.llm.tokens import estimate_request_tokens, estimate_tokens
from memorypipe.llm.types import ChatMessage, Reply

__all__ = ["read_completion", "with_usage"]


def read_completion(completion: Mapping[str, Any], *, latency_ms: float = 0.0) -> Reply | None:
    """Read a chat completion; None where it has no choice with a message.

    Args:
        completion: The JSON object that the endpoint gave.
        latency_ms: From sending to the last byte.

    Example:
        >>> read_completion({"choices": [{"message": {"content": "Hi"}}]}).content
        'Hi'
    """
    choices = completion.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if choice is None or not isinstance(message, dict):
        return None
    told = completion.get("usage")
    usage = told if isinstance(told, Mapping) else {}
    return Reply(
        content=_text(message.get("content")),
        finish_reason=choice.get("finish_reason"),
        refusal=message.get("refusal") or None,
        prompt_tokens=usage.get("prompt_tokens") or 0,
        completion_tokens=usage.get("completion_tokens") or 0,
        latency_ms=latency_ms,
        model=completion.get("model"),
    )


def with_usage(reply: Reply, messages: Sequence[ChatMessage]) -> Reply:
    """Estimate the tokens that an endpoint did not report, so that bounds and accounts hold.

    Args:
        reply: As `read_completion` gives it.
        messages: Those of the request.

    Example:
        >>> asked = [{"role": "user", "content": "Which tea do I like?"}]
        >>> reply = with_usage(Reply(content="I like green tea."), asked)
        >>> reply.prompt_tokens, reply.completion_tokens
        (9, 4)
    """
    if reply.prompt_tokens and reply.completion_tokens:
        return reply
    said = reply.content or reply.refusal or ""
    return replace(
        reply,
        prompt_tokens=reply.prompt_tokens or estimate_request_tokens(messages),
        completion_tokens=reply.completion_tokens or estimate_tokens(said),
    )


def _text(content: object) -> str | None:
    """Give a message's content as text; some servers send a list of parts."""
    if isinstance(content, Sequence) and not isinstance(content, str):
        parts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else None
