"""Sets of 16-byte ledger keys as sorted arrays, looked up a column at a time.

The arrays have the dtype ``V16``: numpy compares such values byte by byte. (Its string dtype
``S16`` takes trailing zero bytes for padding and drops them.)
"""

from collections.abc import Collection
from typing import TypeAlias

import numpy as np

from memorypipe.errors import InvalidArgumentError

__all__ = ["KEY_BYTES", "KeyArray", "contains", "pack_keys"]

KEY_BYTES = 16

KeyArray: TypeAlias = np.ndarray[tuple[int], np.dtype[np.void]]


def pack_keys(keys: Collection[bytes]) -> KeyArray:
    """Pack ledger keys into a sorted array without repeats.

    Args:
        keys: As from `memorypipe.ids.ledger_key`, 16 bytes each, in any order.

    Returns:
        Dtype ``V16``, sorted by bytes, read-only.

    Raises:
        InvalidArgumentError: A key has another length.
    """
    distinct = sorted(set(keys))
    return _array(distinct)


def contains(
    keys: KeyArray, wanted: Collection[bytes]
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Tell for each wanted key whether it is among `keys`.

    Args:
        keys: Sorted, as from `pack_keys`.
        wanted: 16 bytes each, in any order, repeats allowed.

    Returns:
        One boolean per wanted key, in their order.

    Raises:
        InvalidArgumentError: A wanted key has another length.

    Example:
        >>> keys = pack_keys([b"a" * 15 + bytes(1), b"b" * 16])
        >>> contains(keys, [b"b" * 16, b"a" * 16]).tolist()
        [True, False]
    """
    targets = _array(list(wanted))
    if not len(keys):
        return np.zeros(len(targets), dtype=np.bool_)
    places = np.minimum(np.searchsorted(keys, targets), len(keys) - 1)
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = keys[places] == targets
    return found


def _array(keys: list[bytes]) -> KeyArray:
    wrong = next((key for key in keys if len(key) != KEY_BYTES), None)
    if wrong is not None:
        raise InvalidArgumentError(
            f"A ledger key has {KEY_BYTES} bytes, this one {len(wrong)}: {wrong!r}; "
            "make keys with memorypipe.ids.ledger_key."
        )
    return np.frombuffer(b"".join(keys), dtype=f"V{KEY_BYTES}")
