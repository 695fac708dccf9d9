"""Blocks of previously recalled memories, which a chat application put into a prompt.

A memory that was shown to the model must not be extracted again: it would confirm itself.
"""

import re
from functools import lru_cache

__all__ = ["drop_recalled"]

# <memory>, <memories>, <user_memories>, <recalled-memories>, <memory_context>, … with or without
# attributes, in angle or square brackets.
_KINDS = (
    "user|recalled|relevant|retrieved|saved|stored|known|past|previous|existing|agent|assistant|"
    "episodic|semantic|core|session|chat|conversation|hindsight|long[_-]term|short[_-]term"
)
_PARTS = "context|blocks?|bank|list|section|entries|entry|results|items"
_NAME = re.compile(
    rf"(?:(?:{_KINDS})[_-]){{0,2}}memor(?:y|ies)(?:[_-](?:{_PARTS}))?"
    r"|(?:claude-mem|supermemory|recalled|long[_-]term)[_-]context"
)
_TAG = re.compile(
    r"<(?P<close>/?)(?P<name>[a-z_-]{6,40})(?:\s[^<>]*)?>"
    r"|\[(?P<closes>/?)(?P<named>[a-z_-]{6,40})(?:\s[^\[\]]*)?\]",
    re.IGNORECASE,
)


@lru_cache(maxsize=1024)
def _is_recalled(name: str) -> bool:
    return bool(_NAME.fullmatch(name))


def drop_recalled(text: str) -> str:
    """Drop blocks such as ``<memories>…</memories>`` from a message's text.

    Args:
        text: The content of a message.

    Returns:
        The text without complete blocks (nested ones included), trimmed if there were any; a
        tag without its partner stays as the user's own words.

    Example:
        >>> drop_recalled("<memories>Likes tea.</memories> What should I drink?")
        'What should I drink?'
    """
    blocks = _blocks(text)
    if not blocks:
        return text
    kept, position = [], 0
    for start, stop in blocks:
        kept.append(text[position:start])
        position = stop
    kept.append(text[position:])
    return "".join(kept).strip()


def _blocks(text: str) -> list[tuple[int, int]]:
    """Outermost complete blocks in order, found in one pass with a stack of open tags."""
    open_tags: list[tuple[str, int]] = []
    blocks: list[tuple[int, int]] = []
    for tag in _TAG.finditer(text):
        name = (tag["name"] or tag["named"]).lower()
        if not _is_recalled(name):
            continue
        name = f"[{name}" if tag["named"] else name
        if not (tag["close"] or tag["closes"]):
            open_tags.append((name, tag.start()))
            continue
        while open_tags:
            opened, start = open_tags.pop()
            if opened == name:
                _add_outer(blocks, start, tag.end())
                break
    return blocks


def _add_outer(blocks: list[tuple[int, int]], start: int, stop: int) -> None:
    while blocks and blocks[-1][0] > start:
        blocks.pop()
    blocks.append((start, stop))
