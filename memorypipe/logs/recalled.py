"""Blocks of previously recalled memories, which a chat application put into a prompt.

A memory that was shown to the model must not be extracted again: it would confirm itself.
"""

import re

__all__ = ["drop_recalled"]

# <memory>, <memories>, <user_memories>, <recalled-memories>, … with or without attributes.
_TAG = re.compile(
    r"<(?P<close>/?)"
    r"(?P<name>(?:(?:user|recalled|relevant|retrieved|saved|long[_-]term)[_-])?memor(?:y|ies))"
    r"(?:\s[^<>]*)?>",
    re.IGNORECASE,
)


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
        name = tag["name"].lower()
        if not tag["close"]:
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
