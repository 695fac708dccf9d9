"""Replies that look like "nothing to say", or like all there is to say, and are neither.

An empty list counts as an answer only where nothing beside it says that something went wrong.
"""

import re
from collections.abc import Sequence
from typing import Any, Literal

from memorypipe.llm.replies.lenient_json import CutObject, Elided

__all__ = ["is_elision", "says_more", "says_none", "why_hollow"]

# Dots as a text: "and so on", not an item.
_DOTS = re.compile(r"[\s(\[{]*(?:\.{2,}|…+)[\s)\]}]*")

# An item that says that there is none.
_WHAT = r"(?:facts?|memor(?:y|ies)|information|details?|data)"
_KIND = (
    r"(?:(?:durable|new|relevant|lasting|personal|specific|user|explicit|clear|significant|further|"
    r"additional|long-term|other|useful|memorable)[\s,]+){0,3}"
)
_WHERE = (
    r"(?: (?:about the user|to (?:store|save|extract|remember|keep)|here"
    r"|(?:(?:is|are|was|were|has been|have been|can be|could be) )?(?:found|present|available"
    r"|extracted|mentioned|given|provided|shared|stated|identified|detected)"
    r"|in (?:the|this) (?:\w+ )?(?:transcript|conversation|messages?|dialogue|text|chat))){0,3}"
)
_NONE = re.compile(
    r"[\s(\[\"'*_-]*(?:"
    r"n/?a|none|null|nil|nothing(?: (?:durable|new|relevant|found|to (?:store|save|remember)))?"
    rf"|(?:there (?:are|is|were|was) )?no {_KIND}{_WHAT}{_WHERE}"
    r"|keine?(?: (?:dauerhaften|neuen))?(?: (?:fakten|informationen|angaben))?(?: gefunden)?"
    r"|aucune?(?: (?:fait|information|souvenir)s?)?(?: (?:durable|trouvée?)s?){0,2}"
    r"|ning[uú]n[oa]?(?: (?:hecho|dato|recuerdo)s?)?|nenhuma?(?: (?:fato|facto|memória)s?)?"
    r"|nessun[oa]?(?: (?:fatto|informazione|ricordo))?|нет(?: (?:фактов|информации|данных))?"
    r"|无|無|没有|(?:没有|无)(?:任何|持久的?|新的?|相关)*(?:事实|信息|记忆|内容)"
    r"|なし|特になし|(?:事実|情報|記憶)(?:は)?(?:ありません|なし)|없음"
    r")[\s)\]\"'*_.!。-]*",
    re.IGNORECASE,
)

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


def says_none(item: Any) -> bool:
    """Whether an item only says that there is no item.

    Example:
        >>> says_none("No durable facts found."), says_none({"text": "N/A"})
        (True, True)
        >>> says_none("No peanuts for the user")
        False
    """
    if isinstance(item, dict):
        texts = [value for value in item.values() if isinstance(value, str) and value.strip()]
        return len(texts) == 1 and says_none(texts[0])
    return isinstance(item, str) and bool(_NONE.fullmatch(item))


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
