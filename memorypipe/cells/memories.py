"""The ``existing`` cell: the memories that a decision is made against."""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

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


# The memories of a cell by id, in their order, and one string that holds all their texts (and
# more): a word that is not in it is in none of them.
Indexed = tuple[dict[str, dict[str, Any]], str]


def index_existing(cell: str | None, row: int) -> Indexed:
    """Read a cell as `parse_existing` does, to look memories up in it.

    Checks all memories in a few calls; a check per memory would take longer than the decoding.
    """
    if cell is None:
        return {}, ""
    try:
        memories = orjson.loads(cell) if "\\" not in cell else decode(cell)
        by_id = {memory["id"]: memory for memory in memories}
        strings = [memory["text"] for memory in memories]
        strings += by_id
        words = "\n".join(strings)  # refuses what is no string
    except (ValueError, TypeError, KeyError):
        return _examined(cell, row)
    if isinstance(memories, list) and len(by_id) == len(memories) and "" not in by_id:
        return by_id, words
    return _examined(cell, row)


def _examined(cell: str, row: int) -> Indexed:
    """Read a cell step by step: it may be blank or odd, or the error has to name what is wrong."""
    if not isinstance(cell, str):
        invalid(row, "existing", f"expected a string, got {type(cell).__name__}")
    if not cell.strip():
        return {}, ""
    try:
        memories = decode(cell)
    except ValueError as error:
        invalid(row, "existing", f"it is no JSON ({error})")
    if not isinstance(memories, list):
        invalid(row, "existing", f"expected a JSON array, got {type(memories).__name__}")
    by_id: dict[str, dict[str, Any]] = {}
    for index, item in enumerate(memories):
        memory_id = _check(item, index, row)
        if memory_id in by_id:
            invalid(row, "existing", f"the id {memory_id!r} comes twice")
        by_id[memory_id] = item
    return by_id, "\n".join([memory["text"] for memory in memories])


def _check(item: Any, index: int, row: int) -> str:
    """Give the id of a memory that is as it should be."""
    if not isinstance(item, dict):
        invalid(row, "existing", f"item {index} must be an object, got {type(item).__name__}")
    memory_id = item.get("id")
    if not isinstance(memory_id, str) or not memory_id:
        invalid(row, "existing", f"item {index} needs an 'id' that is a non-empty string")
    if not isinstance(item.get("text"), str):
        invalid(row, "existing", f"item {index} needs a 'text' that is a string")
    return memory_id


def encode_existing(memories: Iterable[Mapping[str, Any]], *, ensure_ascii: bool = False) -> str:
    """Write memories as a cell, all keys kept.

    Example:
        >>> encode_existing([{"id": "m1", "text": "Likes tea"}])
        '[{"id":"m1","text":"Likes tea"}]'
    """
    return encode(list(memories), ensure_ascii=ensure_ascii)
