"""The ``facts`` cell: what extraction writes and the decision reads."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from memorypipe.cells.json_text import decode, encode, invalid
from memorypipe.llm.types import Fact

__all__ = ["encode_facts", "parse_facts"]

_KEYS = ("text", "context", "sources", "event_time", "topics")


def parse_facts(cell: str | None, row: int) -> tuple[Fact, ...] | None:
    """Read a cell as the facts that a decision is shown: text and context, nothing else.

    Three shapes, tried in this order: ``{"memories": [{"text": …}, …]}``; a JSON array of
    strings, each a fact; anything else is, verbatim, one fact. Blank cells hold none.

    Args:
        cell: The cell; None where the extraction failed.
        row: Named in the error.

    Returns:
        The facts in order; None for a null cell.

    Raises:
        InvalidCellError: ``memories`` is no list, or one of its items has no text.

    Example:
        >>> [fact.text for fact in parse_facts('["Likes tea", "Owns a cat"]', 0)]
        ['Likes tea', 'Owns a cat']
    """
    if cell is None:
        return None
    if not isinstance(cell, str):
        invalid(row, "facts", f"expected a string, got {type(cell).__name__}")
    if not cell.strip():
        return ()
    try:
        value = decode(cell)
    except ValueError:
        return (Fact(text=cell),)
    if isinstance(value, dict) and "memories" in value:
        return tuple(_wrapped(value["memories"], row))
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(Fact(text=item) for item in value)
    return (Fact(text=cell),)


def _wrapped(memories: Any, row: int) -> Iterator[Fact]:
    if not isinstance(memories, list):
        invalid(row, "facts", f"'memories' must be a list, got {type(memories).__name__}")
    for index, item in enumerate(memories):
        if not isinstance(item, dict):
            invalid(row, "facts", f"item {index} must be an object, got {type(item).__name__}")
        text, context = item.get("text"), item.get("context")
        if not isinstance(text, str) or not text.strip():
            invalid(row, "facts", f"item {index} needs a 'text' that is a non-blank string")
        told = isinstance(context, str) and context.strip()
        yield Fact(text=text, context=context if told else None)


def encode_facts(items: Iterable[Mapping[str, Any]], *, ensure_ascii: bool = False) -> str:
    """Write facts as a cell; keys that are absent, empty or unknown are left out.

    Args:
        items: Each with ``text`` and any of ``context``, ``sources``, ``event_time``, ``topics``.
        ensure_ascii: Whether to escape everything that is not ASCII.

    Example:
        >>> encode_facts([{"text": "Likes tea", "sources": ["m1"], "context": None}])
        '{"memories":[{"text":"Likes tea","sources":["m1"]}]}'
    """
    memories = [{key: item[key] for key in _KEYS if item.get(key)} for item in items]
    return encode({"memories": memories}, ensure_ascii=ensure_ascii)
