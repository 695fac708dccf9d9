"""The ``scope`` cell: whose memories a row is about."""

from collections.abc import Mapping
from typing import Any

from memorypipe.cells.json_text import decode, invalid
from memorypipe.errors import InvalidArgumentError
from memorypipe.ids import check_scope

__all__ = ["parse_scope"]


def parse_scope(cell: Any, row: int) -> dict[str, str]:
    """Read a cell as a scope with sorted keys.

    Args:
        cell: A JSON-object string, a mapping (an Arrow struct; null fields are left out), or a
            list of pairs (an Arrow map); null or blank means unscoped.
        row: Named in the error.

    Raises:
        InvalidCellError: The cell is none of these, or no valid scope.

    Example:
        >>> parse_scope('{"user_id": 42}', 0)
        {'user_id': '42'}
    """
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return {}
    value = _decoded(cell, row) if isinstance(cell, str) else cell
    if isinstance(value, list):
        value = _from_pairs(value, row)
    if not isinstance(value, Mapping):
        invalid(row, "scope", f"expected a map or JSON object, got {type(value).__name__}")
    try:
        return check_scope({key: part for key, part in value.items() if part is not None})
    except InvalidArgumentError as error:
        invalid(row, "scope", str(error).rstrip("."))


def _decoded(cell: str, row: int) -> Any:
    try:
        value = decode(cell)
    except ValueError as error:
        invalid(row, "scope", f"it is no JSON ({error})")
    if not isinstance(value, dict):
        invalid(row, "scope", f"expected a JSON object, got {type(value).__name__}")
    return value


def _from_pairs(pairs: list[Any], row: int) -> dict[Any, Any]:
    try:
        scope = dict(pairs)
    except (TypeError, ValueError) as error:
        invalid(row, "scope", f"expected pairs of key and value ({error})")
    if len(scope) != len(pairs):
        invalid(row, "scope", "a key comes twice, so that nobody knows whose memories are meant")
    return scope
