"""Fields of requests: read from dictionaries and objects alike, each error naming field and value.

Pure.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NoReturn

from memorypipe.errors import InvalidArgumentError
from memorypipe.logs.times import parse_time

__all__ = ["Fields", "refuse"]

_SECONDS = re.compile(r"(\d{1,12})s")
_SHOWN_CHARS = 80


def refuse(field: str, value: Any, must: str) -> NoReturn:
    """Refuse a value.

    Args:
        field: Its path in the request.
        value: What it is.
        must: What it must be.

    Raises:
        InvalidArgumentError: Always.
    """
    shown = repr(value)
    if len(shown) > _SHOWN_CHARS:
        shown = f"{shown[:_SHOWN_CHARS]}…"
    raise InvalidArgumentError(f"{field} must {must}, got {shown}.")


class Fields:
    """The fields of one mapping or object.

    Args:
        value: A mapping, or an object with these attributes; None has no field.
        names: The fields that it may have.
        path: Its own place in the request; "" for the request itself.

    Raises:
        InvalidArgumentError: For a mapping with another field, and for what has no fields at all.
    """

    def __init__(self, value: Any, names: Sequence[str], path: str = "") -> None:
        self._path = path
        if value is None:
            self._values: dict[str, Any] = {}
        elif isinstance(value, Mapping):
            unknown = sorted(set(value) - set(names), key=repr)
            if unknown:
                raise InvalidArgumentError(
                    f"{path or 'the request'} has the unknown field {unknown[0]!r}; choices: "
                    f"{', '.join(names)}."
                )
            self._values = dict(value)
        elif any(hasattr(value, name) for name in names):
            self._values = {name: getattr(value, name, None) for name in names}
        else:
            refuse(path, value, f"be a mapping with any of {', '.join(names)}")

    def __getitem__(self, name: str) -> Any:
        return self._values.get(name)

    def path(self, name: str) -> str:
        """Give the place of a field in the request."""
        return f"{self._path}.{name}" if self._path else name

    def _read(
        self, name: str, must: str, is_good: Callable[[Any], bool], *, default: Any = None
    ) -> Any:
        value = self[name]
        if value is None:
            return default
        if not is_good(value):
            refuse(self.path(name), value, must)
        return value

    def flag(self, name: str) -> bool | None:
        """Read a boolean."""
        flag: bool | None = self._read(name, "be true or false", lambda v: isinstance(v, bool))
        return flag

    def count(self, name: str, most: int) -> int | None:
        """Read a whole number from 1 to `most`."""
        must = f"be a whole number from 1 to {most:,}"
        count: int | None = self._read(name, must, lambda v: _is_whole(v) and 1 <= v <= most)
        return count

    def text(self, name: str) -> str | None:
        """Read a string that is not blank."""
        must = "be a string that is not blank"
        text: str | None = self._read(name, must, lambda v: isinstance(v, str) and bool(v.strip()))
        return text

    def seconds(self, name: str, *, multiple_of: int) -> int | None:
        """Read a duration such as ``"300s"``."""
        value = self[name]
        if value is None:
            return None
        found = _SECONDS.fullmatch(value) if isinstance(value, str) else None
        seconds = int(found[1]) if found else 0
        if seconds < 1 or seconds % multiple_of:
            fits = f", a multiple of {multiple_of}" if multiple_of > 1 else ""
            refuse(self.path(name), value, f"be a duration in whole seconds such as '300s'{fits}")
        if seconds > timedelta.max.total_seconds() // 1000:
            refuse(self.path(name), value, "be a duration that ends within a thousand years")
        return seconds

    def time(self, name: str) -> datetime | None:
        """Read a time: ISO 8601 (UTC where it names no zone), or a datetime."""
        value = self[name]
        if value is None:
            return None
        parsed = parse_time(value) if isinstance(value, str | datetime) else None
        if parsed is None or parsed.at is None:
            refuse(self.path(name), value, "be a time in ISO 8601, or a datetime")
        return parsed.at

    def items(self, name: str) -> Sequence[Any] | None:
        """Read a list."""

        def is_list(value: Any) -> bool:
            return isinstance(value, Sequence) and not isinstance(value, str | bytes)

        items: Sequence[Any] | None = self._read(name, "be a list", is_list)
        return items

    def mapping(self, name: str) -> Mapping[str, Any] | None:
        """Read a mapping whose keys are strings that are not blank."""

        def is_mapping(value: Any) -> bool:
            return isinstance(value, Mapping) and all(
                isinstance(key, str) and key.strip() for key in value
            )

        found: Mapping[str, Any] | None = self._read(
            name, "be a mapping with string keys", is_mapping
        )
        return found


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
