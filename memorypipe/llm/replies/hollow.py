"""Replies that look like "nothing to say", or like all there is to say, and are neither.

An empty list counts as an answer only where nothing beside it says that something went wrong.
"""

import re
from collections.abc import Sequence
from typing import Any, Literal

from memorypipe.llm.replies.lenient_json import CutObject, Elided

__all__ = ["is_elision", "says_more", "why_hollow"]

# Dots as a text: "and so on", not an item.
_DOTS = re.compile(r"[\s(\[{]*(?:\.{2,}|…+)[\s)\]}]*")

_FAILED = ("error", "errors", "refusal", "exception")
_STATES = frozenset({"error", "failed", "failure", "refused", "incomplete", "in_progress"})
_MORE = ("truncated", "has_more", "more", "partial", "incomplete", "is_truncated")

_REASONING_END = re.compile(r"</[\w:]+\s*>|\[/THINK\]|◁/think▷", re.IGNORECASE)
_REFUSAL = re.compile(
    r"\b(?:can(?:['’]t|not| not)|could(?:n['’]t| not)|won['’]t|(?:un|not )able to|refuse to)\b"  # noqa: RUF001  # as typed
    r".{0,30}?\b(?:help|assist|comply|fulfil+|engage|process|continue|discuss)\b"
    r"|\bagainst (?:my|our|the) (?:guidelines|policy|policies)\b"
    r"|\bkann\b.{0,40}\bnicht (?:helfen|verarbeiten|fortfahren)\b"
    r"|\bne peux pas\b.{0,30}\b(?:aider|traiter|continuer)\b"
    r"|\bno puedo\b.{0,30}\b(?:ayudar|procesar|continuar)",
    re.IGNORECASE,
)


def is_elision(item: Any) -> bool:
    """Whether an item stands for others that the writer left out.

    Example:
        >>> is_elision("..."), is_elision({"text": "…"}), is_elision("Hm...")
        (True, True, False)
    """
    if isinstance(item, Elided):
        return True
    if isinstance(item, dict):
        # Every other value of such an item is a filler too.
        texts = [value for value in item.values() if isinstance(value, str)]
        return bool(texts) and all(map(is_elision, texts)) and not isinstance(item, CutObject)
    return isinstance(item, str) and bool(_DOTS.fullmatch(item))


def says_more(value: Any) -> bool:
    """Whether an answer says of itself that it is not all.

    Example:
        >>> says_more({"memories": ["Likes tea"], "has_more": True})
        True
    """
    return isinstance(value, dict) and any(value.get(key) is True for key in _MORE)


def why_hollow(
    text: str, values: Sequence[Any], *, elided: bool
) -> tuple[Literal["parse_error", "refused"], str] | None:
    """Say why an answer without items is no "nothing to say"; None where it is.

    Args:
        text: The whole reply.
        values: What was found in it.
        elided: Whether dots stood in the place of items.

    Returns:
        The status, and the error in words for the model.
    """
    if elided:
        return "parse_error", "Dots stand in the place of the items."
    for value in values:
        if not isinstance(value, dict):
            continue
        if any(value.get(key) for key in _FAILED) or value.get("status") in _STATES:
            return "parse_error", "It tells of an error beside the empty list."
        if "$schema" in value or value.get("type") == "object":
            return "parse_error", "It repeats the schema instead of filling it."
    if _REFUSAL.search(_REASONING_END.split(text)[-1]):
        return "refused", "The model declined to answer."
    return None
