"""JSON cells as text: what is common to reading and writing all of them."""

import json
import re
from typing import Any, NoReturn

import orjson

from memorypipe.errors import InvalidCellError
from memorypipe.text import clean

__all__ = ["decode", "encode", "invalid"]

_ESCAPED_UNSTORABLE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")


def decode(cell: str) -> Any:
    r"""Decode JSON text; NUL, lone surrogates and NaN, which no store can hold, are replaced.

    Raises:
        ValueError: The text is no JSON.

    Example:
        >>> decode('["a\\u0000", NaN]')
        ['a�', None]
    """
    try:
        value = orjson.loads(cell)
    except ValueError:
        # Stricter than the standard library: it refuses lone surrogates and NaN.
        value = _decode_leniently(cell)
    if "\\" in cell and _ESCAPED_UNSTORABLE.search(cell):
        return _storable(value)
    return value


def _decode_leniently(cell: str) -> Any:
    try:
        return json.loads(cell, parse_constant=lambda _: None)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)[0]
    if isinstance(value, dict):
        return {clean(key)[0]: _storable(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_storable(child) for child in value]
    return value


def encode(value: Any, *, ensure_ascii: bool = False) -> str:
    r"""Encode a value as compact JSON text.

    Args:
        value: Plain JSON values.
        ensure_ascii: Whether to escape everything that is not ASCII.

    Example:
        >>> encode(["é"], ensure_ascii=True)
        '["\\u00e9"]'
    """
    if ensure_ascii:
        return json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return orjson.dumps(value).decode()


def invalid(row: int, column: str, reason: str) -> NoReturn:
    """Raise the error for a cell that cannot be read.

    Raises:
        InvalidCellError: Always; it names row, column and reason.
    """
    raise InvalidCellError(f"Row {row}: the {column} cell cannot be read: {reason}.")
