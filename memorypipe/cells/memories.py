"""The ``existing`` cell: the memories that a decision is made against."""

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from memorypipe.cells.json_text import decode, encode, invalid

__all__ = ["Indexed", "encode_existing", "index_existing", "parse_existing"]


def parse_existing(cell: str | None, row: int) -> tuple[dict[str, Any], ...]:
    """Read a cell as memories, with all their keys.

    Args:
        cell: A JSON array of ``{"id", "text", …}``; null or blank means none.
        row: Named in the error.

    Raises:
        InvalidCellError: The cell is no JSON array of objects, an ``id`` or ``text`` is missing
            or no string, an id is empty or comes twice.

    Example:
        >>> parse_existing('[{"id": "m1", "text": "Likes tea", "rank": 1}]', 0)
        ({'id': 'm1', 'text': 'Likes tea', 'rank': 1},)
    """
    return tuple(index_existing(cell, row)[0].values())


# The memories of a cell by id, in their order, and all their texts with a line break between.
Indexed = tuple[dict[str, dict[str, Any]], str]


def index_existing(cell: str | None, row: int) -> Indexed:
    """Read a cell as `parse_existing` does, to look memories up in it."""
    if cell is None:
        return {}, ""
    if not isinstance(cell, str):
        invalid(row, "existing", f"expected a string, got {type(cell).__name__}")
    if not cell.strip():
        return {}, ""
    try:
        value = decode(cell)
    except ValueError as error:
        invalid(row, "existing", f"it is no JSON ({error})")
    if not isinstance(value, list):
        invalid(row, "existing", f"expected a JSON array, got {type(value).__name__}")
    indexed = _indexed(value)
    return indexed or _explain(value, row)


def _indexed(memories: list[Any]) -> Indexed | None:
    """Check all memories in a few calls; None where one is wrong."""
    try:
        by_id = {memory["id"]: memory for memory in memories}
        "".join(by_id)  # refuses what is no string
        texts = "\n".join([memory["text"] for memory in memories])
        valid = len(by_id) == len(memories) and "" not in by_id
    except (KeyError, TypeError):
        return None
    return (by_id, texts) if valid else None


def _explain(memories: list[Any], row: int) -> NoReturn:
    """Raise the error of the first memory that is wrong."""
    seen: set[str] = set()
    for index, item in enumerate(memories):
        if not isinstance(item, dict):
            invalid(row, "existing", f"item {index} must be an object, got {type(item).__name__}")
        memory_id = item.get("id")
        if not isinstance(memory_id, str) or not memory_id:
            invalid(row, "existing", f"item {index} needs an 'id' that is a non-empty string")
        if not isinstance(item.get("text"), str):
            invalid(row, "existing", f"item {index} needs a 'text' that is a string")
        if memory_id in seen:
            break
        seen.add(memory_id)
    invalid(row, "existing", f"the id {memory_id!r} comes twice")


def encode_existing(memories: Iterable[Mapping[str, Any]], *, ensure_ascii: bool = False) -> str:
    """Write memories as a cell, all keys kept.

    Example:
        >>> encode_existing([{"id": "m1", "text": "Likes tea"}])
        '[{"id":"m1","text":"Likes tea"}]'
    """
    return encode(list(memories), ensure_ascii=ensure_ascii)
