"""Hashes of many texts at once: `memorypipe.ids.text_hash`, column by column.

What most texts are (printable ASCII) is normalised and encoded by Arrow; only the hashing itself
goes text by text. All other texts take the plain way.
"""

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe import ids
from memorypipe.id_key import NO_ID_KEY

__all__ = ["text_hashes"]

_DIGEST_BYTES = 16

# The JSON array that `ids.text_hash` hashes, around the text.
_BEFORE, _AFTER = b'["text","', b'"]'
_SPACE, _QUOTE, _BACKSLASH = b' "\\'


def text_hashes(texts: pa.Array, key: bytes = NO_ID_KEY) -> pa.Array:
    """Hash texts as `memorypipe.ids.text_hash` does, a null to a null.

    Args:
        texts: Strings.
        key: That of the table.

    Returns:
        Strings of 32 hex digits.

    Example:
        >>> text_hashes(pa.array(["Likes tea"]))[0].as_py() == ids.text_hash("likes  TEA")
        True
    """
    # Printable ASCII is a JSON string as it stands, but for the quote and the backslash.
    plain = pc.fill_null(pc.and_(pc.string_is_ascii(texts), pc.ascii_is_printable(texts)), False)
    data = _bytes(texts)
    if np.any((data == _QUOTE) | (data == _BACKSLASH)):
        escaped = pc.match_substring_regex(texts, r'["\\]')
        plain = pc.and_not(plain, pc.fill_null(escaped, False))
    if pc.all(plain).as_py():
        return _hash_plain(texts, key)
    others = pc.and_not(pc.is_valid(texts), plain)
    hashed = pa.array([ids.text_hash(text, key=key) for text in texts.filter(others).to_pylist()])
    result = pa.nulls(len(texts), pa.string())
    result = pc.replace_with_mask(result, plain, _hash_plain(texts.filter(plain), key))
    return pc.replace_with_mask(result, others, hashed.cast(pa.string()))


def _hash_plain(texts: pa.Array, key: bytes) -> pa.Array:
    normalised = pc.utf8_trim(pc.ascii_lower(texts), " ")
    is_space = _bytes(normalised) == _SPACE
    # Two texts may meet at their spaces, too: then nothing is replaced.
    if np.any(is_space[1:] & is_space[:-1]):
        double = pc.match_substring(normalised, "  ")
        single = pc.replace_substring_regex(normalised.filter(double), " +", " ")
        normalised = pc.replace_with_mask(normalised, double, single)
    ended = pc.binary_join_element_wise(normalised.cast(pa.binary()), _AFTER, b"")
    # Copying a hasher takes half the time of making one.
    copy = hashlib.blake2b(_BEFORE, digest_size=_DIGEST_BYTES, key=key).copy
    return _from_digests(b"".join(_digest(copy(), text) for text in ended.to_pylist()))


def _bytes(texts: pa.Array) -> Any:
    """Look at all bytes of texts, and maybe at those of texts beside them."""
    data = texts.buffers()[2]
    return np.frombuffer(data if data is not None else b"", np.uint8)


def _digest(hasher: "hashlib.blake2b", ended: bytes) -> bytes:
    hasher.update(ended)
    return hasher.digest()


def _from_digests(digests: bytes) -> pa.Array:
    count, digits = len(digests) // _DIGEST_BYTES, 2 * _DIGEST_BYTES
    offsets: Any = np.arange(count + 1, dtype=np.int32) * digits
    return pa.StringArray.from_buffers(
        count, pa.py_buffer(offsets), pa.py_buffer(digests.hex().encode())
    )
