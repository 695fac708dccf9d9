"""Columns of a record: by name, or by a path of names into nested objects. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["column_value", "has_column", "list_columns"]

_SHOWN_COLUMNS = 30
_MAX_NAME_CHARS = 40


def column_value(fields: Mapping[str, Any], column: str) -> Any:
    """Give the value of a column; None where the record does not have it.

    Args:
        fields: A record.
        column: A name of the record; else a path of names, parted by dots.

    Example:
        >>> column_value({"meta": {"uid": 7}}, "meta.uid")
        7
        >>> column_value({"meta.uid": 8, "meta": {"uid": 7}}, "meta.uid")
        8
    """
    return _find(fields, column)[1]


def has_column(fields: Mapping[str, Any], column: str) -> bool:
    """Tell whether a record has a column, be its value missing or not."""
    return _find(fields, column)[0]


def _find(fields: Mapping[str, Any], column: str) -> tuple[bool, Any]:
    if column in fields:
        return True, fields[column]
    value: Any = fields
    for name in column.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return False, None
        value = value[name]
    return True, value


def list_columns(records: Iterable[Mapping[str, Any]]) -> str:
    """Name the columns that records have, for an error; never what they hold.

    Example:
        >>> list_columns([{"b": 1}, {"a": 2}])
        "'a', 'b'"
    """
    names = sorted({str(name) for fields in records for name in fields})
    shown = [repr(name[:_MAX_NAME_CHARS]) for name in names[:_SHOWN_COLUMNS]]
    more = ", …" if len(names) > _SHOWN_COLUMNS else ""
    return (", ".join(shown) + more) or "none"
