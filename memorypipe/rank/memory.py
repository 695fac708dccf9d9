"""One memory as ranking and decisions see it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

__all__ = ["Memory", "memory_cell"]


@dataclass(frozen=True, kw_only=True)
class Memory:
    """One live memory, as a lookup gives it.

    Attributes:
        id: Its id.
        text: What it says.
        context: Free text that goes with it.
        event_time: When it was said (UTC); None where nothing tells.
        metadata: A JSON object; None where it has none, or nobody asked for it.
    """

    id: str
    text: str
    context: str | None = None
    event_time: datetime | None = None
    metadata: str | None = None

    def to_cell(self) -> dict[str, Any]:
        """Give the memory as an item of an `existing` cell; what is not known is left out."""
        return memory_cell(self.id, self.text, self.context, self.event_time)


def memory_cell(
    memory_id: str, text: str, context: str | None, event_time: datetime | None
) -> dict[str, Any]:
    """Give a memory as an item of an `existing` cell; what is not known is left out."""
    cell = {"id": memory_id, "text": text}
    if context is not None:
        cell["context"] = context
    if event_time is not None:
        cell["event_time"] = event_time.isoformat()
    return cell
