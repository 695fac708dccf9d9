"""What of the table is wanted, as a Lance filter. Pure."""

from datetime import UTC
from typing import Any

from memorypipe.table.records import SYSTEM_TYPES
from memorypipe.table.storage import Where

__all__ = ["predicate"]


def predicate(where: Where) -> str:
    """Write a filter for the rows that `where` selects."""
    if where.record_type is None:
        parts = [f"record_type NOT IN ({_literals(SYSTEM_TYPES)})"]
    else:
        parts = [f"record_type = {_literals([where.record_type])}"]
    if where.rows != "all":
        parts.append(f"is_{where.rows}")
    if where.touched_at is not None:
        moment = f"timestamp '{where.touched_at.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}'"
        parts.append(f"(valid_from = {moment} OR valid_to = {moment})")
    for column, values in (
        ("scope_key", where.scope_keys),
        ("memory_id", where.memory_ids),
        ("event", where.events),
    ):
        if values is not None:
            parts.append(f"{column} IN ({_literals(values)})" if values else "false")
    return " AND ".join(parts)


def _literals(values: Any) -> str:
    """Quote strings for SQL, where the quote is the only character that means something."""
    return ", ".join("'" + value.replace("'", "''") + "'" for value in values)
