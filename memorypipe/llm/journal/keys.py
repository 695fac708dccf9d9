"""Names of requests: equal names mean that the replies may stand for each other."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson

from memorypipe.llm.types import ChatMessage

__all__ = ["journal_key"]

# Parameters that cannot change what the model says.
_SILENT_PARAMS = frozenset({"timeout", "extra_headers"})

_SORTED = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
_HEX_DIGITS = 32
_ROLE_AND_CONTENT = 2
# Stages times settings of one process; each entry holds a few kilobytes.
_CONSTANT_PARTS = 64


def journal_key(
    endpoint: str,
    model: str,
    params: Mapping[str, Any],
    messages: Sequence[ChatMessage],
    repeat_key: str | None = None,
) -> str:
    """Name a request by everything that can change its reply (32 hex digits).

    What many requests share (everything but the messages after the system message) is hashed once.

    Args:
        endpoint: The endpoint's name or address, without secrets.
        model: The model's name there.
        params: All parameters of the call; `timeout` and `extra_headers` do not count.
        messages: The complete messages; they hold the prompt and thereby its version.
        repeat_key: Tells repeated samples of one request apart.

    Example:
        >>> journal_key("e", "m", {"timeout": 1}, []) == journal_key("e", "m", {}, [])
        True
    """
    telling = {name: value for name, value in params.items() if name not in _SILENT_PARAMS}
    system = _system_text(messages)
    hasher = _constant_part(endpoint, model, repeat_key, _written(telling), system).copy()
    hasher.update(_canonical(list(messages[system is not None :])))
    return hasher.hexdigest()[:_HEX_DIGITS]


def _written(params: Mapping[str, Any]) -> bytes:
    """Write parameters in the order given: sorting is left to the part that runs once."""
    try:
        return orjson.dumps(params)
    except TypeError:
        # Numbers as keys, as in `logit_bias`, take twice as long.
        return orjson.dumps(params, option=orjson.OPT_NON_STR_KEYS, default=dict)


def _system_text(messages: Sequence[ChatMessage]) -> str | None:
    """Give the text of a system message that begins the messages and has no more to it."""
    if not messages or len(messages[0]) > _ROLE_AND_CONTENT or messages[0].get("role") != "system":
        return None
    text = messages[0].get("content")
    return text if isinstance(text, str) else None


@lru_cache(maxsize=_CONSTANT_PARTS)
def _constant_part(
    endpoint: str, model: str, repeat_key: str | None, params: bytes, system: str | None
) -> "hashlib._Hash":
    """Begin the hash; JSON values end by themselves, so no two requests run together."""
    # SHA-256 has instructions of its own on the processors in use: half the time of BLAKE2b.
    constant = ["reply", endpoint, model, repeat_key, orjson.loads(params), system]
    return hashlib.sha256(_canonical(constant))


def _canonical(value: Any) -> bytes:
    return orjson.dumps(value, option=_SORTED, default=dict)
