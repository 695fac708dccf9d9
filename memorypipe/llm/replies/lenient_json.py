"""Decode JSON as models write it: all that was said, what was cut marked, nothing made up.

Strict JSON comes first. Where that fails, a reader that forgives trailing and missing commas,
single, triple and typographic quotes, the commas and colons of other scripts, unescaped quotes and
backslashes, bare keys, comments, Python literals and missing brackets takes over. A container whose
end is missing comes back as `CutObject` or `CutArray`, so that the caller can tell an item that is
whole from one that is not; an array element that cannot be read becomes `UNREADABLE`, and its
neighbours stand. An object in which a key comes again with something else to say was meant as
several objects, and comes back as a list of them.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

__all__ = ["ELIDED", "UNREADABLE", "CutArray", "CutObject", "Decoded", "Elided", "decode_at"]

# Deeper nesting is no reply to any of our prompts, and recursion has an end.
_MAX_DEPTH = 32

# A text with more unescaped quotes than this is a model going round in circles; without an end to
# the search such a reply would take minutes.
_MAX_BARE_QUOTES = 64


class CutArray(list[Any]):
    """An array whose end is missing; its last element may be cut too."""


class CutObject(dict[str, Any]):
    """An object whose end is missing; the pair in the works is left out."""


class _Unreadable:
    """The one value that stands for an array element that cannot be read."""

    def __repr__(self) -> str:
        return "UNREADABLE"


class Elided(_Unreadable):
    """The one value that stands for elements that the writer left out."""

    def __repr__(self) -> str:
        return "ELIDED"


UNREADABLE: Final = _Unreadable()
ELIDED: Final = Elided()

_DOTS = re.compile(r"\{?\s*(?:\.{3}|…)\s*\}?\s*")


class Decoded(NamedTuple):
    """A JSON value and the position after it."""

    value: Any
    end: int


class _CutError(Exception):
    """The text ends inside a value."""


class _SyntaxError(Exception):
    """No JSON, however forgiving one is."""


class _Several(list[Any]):
    """Objects that were written as one."""


def _strict_object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key comes twice")
    return result


def _add(parts: list[dict[str, Any]], key: str, value: Any) -> None:
    """Add a pair to the last object, or begin another where it has the key for something else."""
    if _is_said_otherwise(parts[-1].get(key), value):
        parts.append({})
    _put(parts[-1], key, value)


def _is_said_otherwise(old: Any, new: Any) -> bool:
    either = (old, new)
    return None not in either and not any(isinstance(v, list | dict) for v in either) and old != new


def _put(target: dict[str, Any], key: str, value: Any) -> None:
    """Set a pair; lists and objects under one key are all meant, and nothing replaces them."""
    old = target.get(key)
    if not old or not isinstance(old, list | dict):
        target[key] = value
    elif isinstance(value, list | dict):
        joined = [*_listed(old), *_listed(value)]
        is_cut = isinstance(value, CutArray | CutObject)
        target[key] = CutArray(joined) if is_cut else joined


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


_STRICT = json.JSONDecoder(
    strict=False,  # raw line breaks inside strings
    parse_constant=lambda _: None,  # NaN and Infinity are no JSON values
    object_pairs_hook=_strict_object,
)


def decode_at(text: str, start: int, *, lenient: bool = True) -> Decoded | None:
    r"""Decode the JSON value that begins at a position.

    Args:
        text: Any text.
        start: Where a ``{`` or ``[`` stands.
        lenient: Whether to forgive what is not quite JSON.

    Returns:
        The value and where it ends; None where there is none.

    Example:
        >>> decode_at(r'see {"a": ["C:\data",]} there', 4)
        Decoded(value={'a': ['C:\\data']}, end=23)
        >>> decode_at('[{"a": 1}, {"a": 2', 0)
        Decoded(value=[{'a': 1}, {}], end=17)
    """
    try:
        return Decoded(*_STRICT.raw_decode(text, start))
    except (ValueError, RecursionError):
        if not lenient:
            return None
    reader = _Reader(text, start)
    try:
        return Decoded(reader.value(0), reader.pos)
    except (_CutError, _SyntaxError):
        return None


_SPACE = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_COMMAS = ",，、،"  # noqa: RUF001  # those of other scripts too
_COLONS = ":："  # noqa: RUF001  # as above
_SEPARATORS = re.compile(rf"(?:[\s{_COMMAS}]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_BARE_KEY = re.compile(rf"[^\W\d]\w*(?=\s*[{_COLONS}])")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,299})(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])")
_WORD = re.compile(r"-?[A-Za-z]+\b")
_WORDS: dict[str, bool | None] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
    "undefined": None,
    "NaN": None,
    "Infinity": None,
    "-Infinity": None,
}
_STOPS = {
    '"': re.compile(r'["\\]'),
    "'": re.compile(r"['\\]"),
    "“": re.compile(r"[”\\]"),
}

# A quote ends its string only where what follows could follow a string in JSON; any other quote
# was not escaped and belongs to the text.
_AFTER_STRING = re.compile(
    rf"""\s*(?:$|[}}\]{_COLONS}])  # the end, a closing bracket, the colon after a key
    |\s*,\s*(?:$|["'“{{\[\]}}\d/-]|(?:true|false|null|True|False|None|NaN)\b|[^\W\d]\w*\s*:)
    |\s*,\s*(?:\.{{3}}|…)\s*[,\]}}]  # dots for what is left out
    # A comma of prose separates only before a bracket, a key, or a string that ends well.
    |\s*[{_COMMAS}]\s*(?:[{{\[\]}}]|["'“][^"'“”\n]*(?:$|["'”]\s*[{_COMMAS}{_COLONS}\]}}]))
    |[^\S\n]*\n\s*["'“{{\[]         # a comma is missing at the end of a line
    |\s*["'“]\w+["'”]\s*[{_COLONS}]  # a comma is missing before a key
    |\s+"(?=\S)                    # a comma is missing between strings
    |\s+//                         # a comment
    """,
    re.VERBOSE,
)

_TRIPLE = re.compile(r"""(\"{3}|'{3})(.*?)\1(?!["'])""", re.DOTALL)

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {
    '"': '"',
    "'": "'",
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}


def _unescape(raw: str) -> str:
    if "\\" not in raw:
        return raw
    # Through UTF-16 the two halves of an escaped emoji become one character again.
    text = _ESCAPE.sub(_unescape_one, raw)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _unescape_one(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPES.get(code, match[0])  # an unknown escape is a backslash that was meant


_UNIT = re.compile(r'"(?:\\.|[^"\\\n])*"|[{}\[\],]')


class _Reader:
    """A cursor over the text of one value."""

    def __init__(self, text: str, pos: int) -> None:
        self.text = text
        self.pos = pos

    def value(self, depth: int) -> Any:
        char = self._next(_SPACE)
        if not char:
            raise _CutError
        if depth > _MAX_DEPTH:
            raise _CutError
        if char == "{":
            return self._object(depth + 1)
        if char == "[":
            return self._array(depth + 1)
        return self._string() if char in _STOPS else self._scalar()

    def _next(self, skipped: re.Pattern[str]) -> str:
        """Skip, and look at the character there; "" at the end of the text."""
        match = skipped.match(self.text, self.pos)
        self.pos = match.end() if match else self.pos
        return self.text[self.pos : self.pos + 1]

    def _array(self, depth: int) -> list[Any]:
        self.pos += 1
        items: list[Any] = []
        while char := self._next(_SEPARATORS):
            # The bracket of a parent closes what was left open.
            if char in "]}":
                self.pos += char == "]"
                return items
            try:
                element = self._element(depth)
            except _CutError:
                break
            items.extend(element if isinstance(element, _Several) else [element])
            if isinstance(items[-1], CutArray | CutObject):
                break
        return CutArray(items)

    def _element(self, depth: int) -> Any:
        begin = self.pos
        try:
            return self.value(depth)
        except _SyntaxError:
            self.pos = begin
            self._skip_element()
            return ELIDED if _DOTS.fullmatch(self.text, begin, self.pos) else UNREADABLE

    def _skip_element(self) -> None:
        """Go to the comma or bracket that ends the element at hand."""
        depth = 0
        for unit in _UNIT.finditer(self.text, self.pos):
            if depth == 0 and unit[0] in ",]}":
                self.pos = unit.start()
                return
            depth += (unit[0] in "{[") - (unit[0] in "}]")
        raise _CutError

    def _object(self, depth: int) -> dict[str, Any] | list[Any]:
        self.pos += 1
        parts: list[dict[str, Any]] = [{}]
        while char := self._next(_SEPARATORS):
            if char in "]}":
                self.pos += char == "}"
                return parts[0] if len(parts) == 1 else _Several(parts)
            try:
                key = self._key(char)
                value = self.value(depth)
            except _CutError:
                break
            _add(parts, key, value)
            if isinstance(value, CutArray | CutObject):
                break
        *whole, cut = parts
        return CutArray([*whole, CutObject(cut)]) if whole else CutObject(cut)

    def _key(self, char: str) -> str:
        if char in _STOPS:
            key = self._string()
        elif match := _BARE_KEY.match(self.text, self.pos):
            key, self.pos = match[0], match.end()
        else:
            raise _SyntaxError
        colon = self._next(_SPACE)
        if not colon:
            raise _CutError
        if colon not in _COLONS:
            raise _SyntaxError
        self.pos += 1
        return key

    def _string(self) -> str:
        if triple := _TRIPLE.match(self.text, self.pos):
            self.pos = triple.end()
            return _unescape(triple[2])
        stop = _STOPS[self.text[self.pos]]
        begin = at = self.pos + 1
        bare_quotes = 0
        while bare_quotes <= _MAX_BARE_QUOTES and (match := stop.search(self.text, at)):
            at = match.end()
            if match[0] == "\\":
                at += 1
            elif _AFTER_STRING.match(self.text, at):
                self.pos = at
                return _unescape(self.text[begin : match.start()])
            else:
                bare_quotes += 1
        raise _CutError

    def _scalar(self) -> float | bool | None:
        match = _NUMBER.match(self.text, self.pos) or _WORD.match(self.text, self.pos)
        if not match:
            raise _SyntaxError
        if match.end() == len(self.text):
            raise _CutError  # more of it may have been cut
        token = match[0]
        if token.lstrip("-")[0].isdigit():
            number: float = json.loads(token)
        elif token in _WORDS:
            self.pos = match.end()
            return _WORDS[token]
        else:
            raise _SyntaxError
        self.pos = match.end()
        return number
