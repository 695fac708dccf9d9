"""Cut a text that is too long for an embedder, where it hurts least."""

import re

__all__ = ["split_text"]

_SENTENCE_END = re.compile(r"[.!?…](?=\s)|[。！？\n]")  # noqa: RUF001  # full-width marks
_SPACE = re.compile(r"\s")


def split_text(text: str, max_chars: int) -> list[str]:
    """Cut a text into pieces of at most `max_chars` characters.

    Cuts after a sentence where one ends in the second half of a piece, else between words, else
    anywhere. White space at the cuts is dropped; no piece is blank.

    Args:
        text: Any text.
        max_chars: From 1.

    Example:
        >>> split_text("I run a lot. I like green tea.", 20)
        ['I run a lot.', 'I like green tea.']
    """
    pieces = []
    rest = text.strip()
    while len(rest) > max_chars:
        cut = _find_cut(rest, max_chars)
        pieces.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    if rest:
        pieces.append(rest)
    return pieces


def _find_cut(text: str, max_chars: int) -> int:
    head = text[:max_chars]
    ends = [match.end() for match in _SENTENCE_END.finditer(text[: max_chars + 1])]
    inside = [end for end in ends if max_chars // 2 < end <= max_chars]
    if inside:
        return inside[-1]
    # A space right after the piece will do as well: the last word is whole then.
    spaces = [match.start() for match in _SPACE.finditer(head + text[max_chars : max_chars + 1])]
    return spaces[-1] if spaces else max_chars
