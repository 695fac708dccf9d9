"""Look for many texts in bytes at once, however they are written there. Pure."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["MIN_NEEDLE_BYTES", "Needles", "forms", "is_long", "text_buffers"]

# What is shorter than one machine word turns up by chance.
MIN_NEEDLE_BYTES = 8

# So much of a text tells it from all others.
_MAX_CHARS = 64

_CHUNK_BYTES = 1 << 20


class Needles:
    """Texts to look for.

    A text counts as found in its UTF-8 form and in those that JSON gives it, also as a JSON text
    within a JSON text.

    Args:
        texts: What to look for; of long ones the beginning. Those below `MIN_NEEDLE_BYTES` are
            left out.

    Attributes:
        texts: What is looked for.
        left_out: How many were too short.

    Example:
        >>> needles = Needles(["Likes green tea", "tea"])
        >>> needles.found_in(b'{"text": "Likes green tea"}'), needles.left_out
        ({'Likes green tea'}, 1)
    """

    def __init__(self, texts: Collection[str]) -> None:
        known = {text[:_MAX_CHARS] for text in texts}
        self.texts = frozenset(each for each in known if is_long(each))
        self.left_out = len(known) - len(self.texts)
        self._by_tail: dict[int, list[tuple[bytes, str]]] = {}
        self._longest = MIN_NEEDLE_BYTES
        for text in self.texts:
            for form in forms(text):
                self._longest = max(self._longest, len(form))
                self._by_tail.setdefault(_tail(form), []).append((form, text))
        self._tails = np.array(sorted(self._by_tail), np.uint64)
        # The last two bytes of a tail sort nearly all places out.
        self._ends = np.zeros(1 << 16, np.bool_)
        self._ends[(self._tails >> np.uint64(48)).astype(np.int64)] = True

    def found_in(self, data: Any, *, besides: Collection[str] = ()) -> set[str]:
        """Give the texts that stand in some bytes.

        Args:
            data: Bytes, or anything with their buffer.
            besides: Texts that need not be looked for.
        """
        found: set[str] = set()
        view = memoryview(data).cast("B")
        step = _CHUNK_BYTES
        for start in range(0, len(view), step):
            # Each chunk reaches back, so that nothing is cut in two.
            piece = view[max(0, start - self._longest) : start + step]
            self._search(piece, found, besides)
        return found

    def found_in_stream(self, read: Callable[[int], bytes]) -> tuple[set[str], int]:
        """Give the texts that stand in a file, and its size in bytes.

        Args:
            read: Reads up to so many bytes; b"" at the end.
        """
        found: set[str] = set()
        size_bytes = 0
        kept = b""
        while data := read(_CHUNK_BYTES):
            size_bytes += len(data)
            piece = kept + data
            self._search(memoryview(piece), found, ())
            kept = piece[-self._longest :]
        return found, size_bytes

    def _search(self, piece: memoryview, found: set[str], besides: Collection[str]) -> None:
        if len(piece) < MIN_NEEDLE_BYTES or not self.texts:
            return
        data = np.frombuffer(piece, np.uint8)
        for end in self._candidates(data):
            for form, text in self._by_tail.get(_word(piece, end), ()):
                if text in found or text in besides:
                    continue
                start = end - len(form)
                if start >= 0 and piece[start:end] == form:
                    found.add(text)

    def _candidates(self, data: Any) -> Iterator[int]:
        """Find where a tail ends, as places behind its last byte."""
        ends = data[6:-1].astype(np.uint16) | (data[7:].astype(np.uint16) << np.uint16(8))
        places = np.flatnonzero(self._ends[ends])
        words = np.zeros(len(places), np.uint64)
        for shift in range(MIN_NEEDLE_BYTES):
            words |= data[places + shift].astype(np.uint64) << np.uint64(8 * shift)
        slots = np.minimum(np.searchsorted(self._tails, words), len(self._tails) - 1)
        yield from (places[self._tails[slots] == words] + MIN_NEEDLE_BYTES).tolist()


def is_long(text: str) -> bool:
    """Tell whether a text is long enough not to turn up by chance."""
    return len(text.encode("utf-8", "surrogatepass")) >= MIN_NEEDLE_BYTES


def forms(text: str) -> set[bytes]:
    """Write a text in all the ways in which files hold it."""
    plain = {text}
    for _ in range(2):  # JSON, and JSON within JSON
        plain |= {
            json.dumps(each, ensure_ascii=is_ascii)[1:-1]
            for each in plain
            for is_ascii in (True, False)
        }
    return {each.encode("utf-8", "surrogatepass") for each in plain}


def _tail(form: bytes) -> int:
    return int.from_bytes(form[-MIN_NEEDLE_BYTES:], "little")


def _word(piece: memoryview, end: int) -> int:
    return int.from_bytes(piece[end - MIN_NEEDLE_BYTES : end], "little")


def text_buffers(columns: Iterable[pa.ChunkedArray]) -> Iterator[pa.Buffer]:
    """Give the bytes of all strings in some columns, those inside lists, maps and structs too."""
    for column in columns:
        for chunk in column.chunks:
            yield from _leaves(chunk)


def _leaves(array: pa.Array) -> Iterator[pa.Buffer]:
    kind = array.type
    if pa.types.is_dictionary(kind):
        yield from _leaves(array.dictionary)
    elif pa.types.is_map(kind):
        yield from _leaves(array.keys)
        yield from _leaves(array.items)
    elif pa.types.is_struct(kind):
        for number in range(kind.num_fields):
            yield from _leaves(array.field(number))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(array.values)
    elif _is_text(kind) and (buffer := array.buffers()[-1]) is not None:
        yield buffer


def _is_text(kind: pa.DataType) -> bool:
    return any(
        check(kind)
        for check in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_binary,
            pa.types.is_large_binary,
        )
    )
