"""Names too short to be looked for everywhere: found where a line of a log gives them. Pure."""

import re
from collections.abc import Collection, Iterator

import orjson

from memorypipe.table.erasing.needles import forms, is_long

__all__ = ["REJECTS_FILE", "ShortNames"]

#: The file of a run that quotes lines which nobody could read, and whose scope nobody knows.
REJECTS_FILE = "rejects.jsonl"


class ShortNames:
    r"""Values of scopes that turn up by chance, such as ``"u1"`` or ``"42"``.

    Args:
        values: Of scopes; the long ones among them are left out.

    Example:
        >>> names = ShortNames(["u1"])
        >>> names.given_in(b'{"line": 7, "excerpt": "{\\"user_id\\":\\"u1\\", \\"te"}')
        True
        >>> names.given_in(b'{"line": 7, "excerpt": "see u1 and {\\"user_id\\":\\"u12\\""}')
        False
    """

    def __init__(self, values: Collection[str]) -> None:
        self.values = frozenset(value for value in values if not is_long(value))
        written = {form.decode(errors="replace") for value in self.values for form in forms(value)}
        names = f"(?:{'|'.join(map(re.escape, sorted(written)))})"
        # As a value: all of a text, or behind a quote, a colon or an equals sign.
        self._given = re.compile(rf"""(?:^|["'=]|:\s*){names}(?![\w@-]|\.\w)""")
        self._named = re.compile(rf"(?<!\w){names}(?!\w)")

    def given_in(self, line: bytes) -> bool:
        """Tell whether a line of `REJECTS_FILE` quotes one as a value."""
        if not self.values:
            return False
        return any(self._given.search(text) for text in _texts(line))

    def named_in(self, path: str) -> bool:
        """Tell whether a path holds one as a word."""
        return bool(self.values) and bool(self._named.search(path))


def _texts(line: bytes) -> Iterator[str]:
    try:
        reject = orjson.loads(line)
    except orjson.JSONDecodeError:
        reject = {"line": line.decode(errors="replace")}
    yield from (each for each in reject.values() if isinstance(each, str))
