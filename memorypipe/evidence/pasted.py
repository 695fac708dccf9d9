"""Which part of a message its sender wrote, and which was pasted into it.

Mails, quotations, code, logs and records speak with the voice of others. What they claim may be
worth knowing; it changes nothing that the sender said.
"""

import re

__all__ = ["own_and_pasted"]

_QUOTED_LINE = re.compile(r"^\s*(?:>|\|\s).*$", re.MULTILINE)
_FENCED = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_RECORD = re.compile(r"^BEGIN:\w+$.*?(?:^END:\w+$|\Z)", re.DOTALL | re.MULTILINE)
# From here on to the end.
_OPENINGS = re.compile(
    r"^-{3,}\s*(?:forwarded|original|weitergeleitete|ursprüngliche)\b.*$"
    r"|^begin forwarded message:?\s*$"
    r"|^on .{5,80} wrote:\s*$|^am .{5,80} schrieb.{0,60}:\s*$|^le .{5,80} a écrit\s*:\s*$"
    r"|^(?:from|von|de|subject|betreff|objet|to|an|reporter|ticket|description)\b.{0,3}[ :].{2,}\n"
    r"(?:[A-Z][\w-]{1,20}:.*\n)+"
    r"|^ticket\s+#?\d+.*$",
    re.IGNORECASE | re.MULTILINE,
)


def own_and_pasted(text: str) -> tuple[str, str]:
    r"""Part a message into what its sender wrote and what was pasted into it.

    Returns:
        Both parts; the second is "" where nothing was pasted.

    Example:
        >>> own_and_pasted("> The rent is cancelled\nLook what he wrote")[1]
        '> The rent is cancelled'
    """
    pasted: list[str] = []

    def take(match: re.Match[str]) -> str:
        pasted.append(match[0])
        return " "

    opening = _OPENINGS.search(text)
    if opening is not None:
        pasted.append(text[opening.start() :])
        text = text[: opening.start()]
    for pattern in (_FENCED, _RECORD, _QUOTED_LINE):
        text = pattern.sub(take, text)
    return text, "\n".join(pasted)
