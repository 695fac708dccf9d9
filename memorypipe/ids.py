"""Deterministic ids and hashes: no clock, no randomness, no collision by concatenation."""

import hashlib
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

from memorypipe.errors import InvalidArgumentError
from memorypipe.id_key import NO_ID_KEY
from memorypipe.text import clean, normalise

__all__ = [
    "MAX_SCOPE_PAIRS",
    "check_scope",
    "digest",
    "ledger_key",
    "memory_id",
    "memory_id_of_normalised",
    "message_id",
    "scope_key",
    "text_hash",
]

MAX_SCOPE_PAIRS = 5

# Kinds of characters that show nothing; one that this Python does not know yet may show something.
_UNSEEN = frozenset({"Zs", "Zl", "Zp", "Cc", "Cf"})

_JSON_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS


def digest(*parts: Any, size: int = 16, key: bytes = NO_ID_KEY) -> bytes:
    """Hash JSON-like parts; the boundaries between parts count.

    Args:
        *parts: Strings, numbers, None, lists or mappings (keys are sorted).
        size: Length of the hash in bytes.
        key: As from `memorypipe.id_key.read_id_key`.

    Returns:
        BLAKE2b of the parts' JSON array, keyed where there is a key.
    """
    encoded = orjson.dumps(parts, option=_JSON_OPTIONS)
    return hashlib.blake2b(encoded, digest_size=size, key=key).digest()


def check_scope(scope: Mapping[str, Any]) -> dict[str, str]:
    """Validate a scope and give it back with sorted keys and string values.

    Args:
        scope: At most five pairs, e.g. ``{"user_id": "u1"}``; integer values become strings;
            empty means unscoped.

    Raises:
        InvalidArgumentError: For more than five pairs, a blank key or value, a ``*``, or a value
            that is neither string nor integer.

    Example:
        >>> check_scope({"user_id": 42, "agent_id": "a"})
        {'agent_id': 'a', 'user_id': '42'}
    """
    if len(scope) > MAX_SCOPE_PAIRS:
        raise InvalidArgumentError(
            f"A scope holds at most {MAX_SCOPE_PAIRS} pairs, this one has {len(scope)}: "
            f"{sorted(scope)!r}."
        )
    return {key: _scope_value(key, scope[key]) for key in sorted(scope)}


def _scope_value(key: Any, value: Any) -> str:
    if not isinstance(key, str) or _is_blank(key) or "*" in key or clean(key)[1]:
        raise InvalidArgumentError(f"Scope key {key!r} must be a non-blank string without '*'.")
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise InvalidArgumentError(
            f"Scope value of {key!r} must be a string or an integer, got {value!r}."
        )
    if _is_blank(value) or "*" in value or clean(value)[1]:
        raise InvalidArgumentError(
            f"Scope value of {key!r} must not be blank or hold '*', NUL or lone surrogates, "
            f"got {value!r}."
        )
    return value


def _is_blank(text: str) -> bool:
    """Whether a text shows nothing: spaces, and characters without a width."""
    if text.isascii():
        return not text.strip()
    return all(unicodedata.category(char) in _UNSEEN for char in text)


def scope_key(scope: Mapping[str, Any]) -> str:
    """Encode a scope as one string that no id can forge (the JSON of its sorted pairs).

    Raises:
        InvalidArgumentError: As `check_scope`.

    Example:
        >>> scope_key({"user_id": "u1"})
        '[["user_id","u1"]]'
    """
    return orjson.dumps(list(check_scope(scope).items())).decode()


def memory_id(
    record_type: str, scope_key: str, text: str, ordinal: int = 0, *, key: bytes = NO_ID_KEY
) -> str:
    """Mint the id of a memory from what it says: the same backfill mints the same ids.

    Args:
        record_type: E.g. ``"memory"``.
        scope_key: As from `scope_key`; "" where a cell has no scope.
        text: The memory's text; only its normalised form counts.
        ordinal: 0, or the lowest number whose id was never used for something else.
        key: That of the table.

    Example:
        >>> memory_id("memory", "", "Likes tea") == memory_id("memory", "", " likes  TEA")
        True
    """
    return memory_id_of_normalised(record_type, scope_key, normalise(text), ordinal, key=key)


def memory_id_of_normalised(
    record_type: str, scope_key: str, normalised: str, ordinal: int = 0, *, key: bytes = NO_ID_KEY
) -> str:
    """Mint as `memory_id` does, from a text whose normalised form is at hand."""
    # Spelt out from `digest`, as this runs for every ADD: copying a hasher takes half the time
    # of making one.
    hasher = _hasher(key).copy()
    hasher.update(orjson.dumps((record_type, scope_key, normalised, ordinal)))
    return "mem_" + hasher.hexdigest()


@lru_cache(maxsize=4)
def _hasher(key: bytes) -> "hashlib.blake2b":
    return hashlib.blake2b(digest_size=16, key=key)


def text_hash(text: str, *, key: bytes = NO_ID_KEY) -> str:
    """Hash a text's normalised form (32 hex digits), with the key of the table."""
    return digest("text", normalise(text), key=key).hex()


def message_id(role: str, timestamp: str | None, content: str, occurrence: int = 0) -> str:
    """Name a message that came without an id.

    Args:
        role: Who speaks.
        timestamp: ISO 8601 UTC, or None.
        content: The text, unchanged.
        occurrence: 0 for the first of several equal messages of one conversation, then 1, 2, …
    """
    return "msg_" + digest(role, timestamp, content, occurrence, size=12).hex()


def ledger_key(scope_key: str, conversation_id: str, message_id: str) -> bytes:
    """Key of one message in the ledger (16 bytes): a message is paid for once."""
    return digest("ledger", scope_key, conversation_id, message_id)
