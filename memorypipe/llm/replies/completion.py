"""From the JSON of a chat completion to a reply, whichever way it came."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from memorypipe.llm.tokens import estimate_request_tokens, estimate_tokens
from memorypipe.llm.types import ChatMessage, Reply

__all__ = ["is_broken_off", "read_completion", "with_usage"]

# In what words servers say that a reply was cut, or held back, beside the usual two.
_OTHER_REASONS = {
    "max_tokens": "length",
    "max_output_tokens": "length",
    "max_length": "length",
    "model_length": "length",
    "token_limit": "length",
    "incomplete": "length",
    "safety": "content_filter",
    "recitation": "content_filter",
    "blocklist": "content_filter",
    "prohibited_content": "content_filter",
    "spii": "content_filter",
    "refusal": "content_filter",
}
# The server gave up midway: what there is of the reply may look whole.
_BROKEN_OFF = frozenset(
    {"error", "abort", "aborted", "cancelled", "canceled", "interrupted", "timeout"}
    | {"insufficient_system_resource"}
)


def read_completion(completion: Mapping[str, Any], *, latency_ms: float = 0.0) -> Reply | None:
    """Read a chat completion; None where it has no choice with a message, or was broken off.

    Args:
        completion: The JSON object that the endpoint gave.
        latency_ms: From sending to the last byte.

    Returns:
        The reply. Its `finish_reason` is ``"length"`` or ``"content_filter"`` where the server
        says so in other words.

    Example:
        >>> read_completion({"choices": [{"message": {"content": "Hi"}}]}).content
        'Hi'
    """
    choice = _choice(completion)
    message = choice.get("message")
    if not isinstance(message, dict) or is_broken_off(completion):
        return None
    told = completion.get("usage")
    usage = told if isinstance(told, Mapping) else {}
    return Reply(
        content=_text(message.get("content")),
        finish_reason=_reason(choice),
        refusal=message.get("refusal") or None,
        prompt_tokens=usage.get("prompt_tokens") or 0,
        completion_tokens=usage.get("completion_tokens") or 0,
        latency_ms=latency_ms,
        model=completion.get("model"),
    )


def is_broken_off(completion: Mapping[str, Any]) -> bool:
    """Whether the server says that it gave up before the reply was whole.

    Example:
        >>> is_broken_off({"choices": [{"finish_reason": "error"}]})
        True
    """
    return _reason(_choice(completion)) in _BROKEN_OFF


def _choice(completion: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = completion.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice if isinstance(choice, dict) else {}


def _reason(choice: Mapping[str, Any]) -> str | None:
    said = choice.get("finish_reason")
    if not isinstance(said, str):
        return None
    plain = said.strip().lower()
    return _OTHER_REASONS.get(plain, plain)


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
