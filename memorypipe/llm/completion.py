"""From the JSON of a chat completion to a reply, whichever way it came."""

from collections.abc import Mapping, Sequence
from typing import Any

from memorypipe.llm.types import Reply

__all__ = ["read_completion"]


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
    usage = completion.get("usage") or {}
    return Reply(
        content=_text(message.get("content")),
        finish_reason=choice.get("finish_reason"),
        refusal=message.get("refusal") or None,
        prompt_tokens=usage.get("prompt_tokens") or 0,
        completion_tokens=usage.get("completion_tokens") or 0,
        latency_ms=latency_ms,
        model=completion.get("model"),
    )


def _text(content: object) -> str | None:
    """Give a message's content as text; some servers send a list of parts."""
    if isinstance(content, Sequence) and not isinstance(content, str):
        parts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else None
