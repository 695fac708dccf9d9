"""Metadata of memories: typed values as JSON, compared and merged by type. Pure.

In JSON a string, a number and a boolean stand for themselves; a time is
``{"timestamp_value": "2026-01-01T10:00:00+00:00"}``, so that it never passes for a string.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, get_args

import orjson

from memorypipe.errors import InvalidArgumentError

__all__ = [
    "MERGE_STRATEGIES",
    "MergeStrategy",
    "applied_metadata",
    "encode_metadata",
    "metadata_key",
    "timestamp_value",
]

MergeStrategy = Literal["OVERWRITE", "MERGE", "REQUIRE_EXACT_MATCH"]
"""``"OVERWRITE"``: what is given replaces what was there. ``"MERGE"``: both, what is given wins.
``"REQUIRE_EXACT_MATCH"``: only memories with equal metadata may be changed."""

MERGE_STRATEGIES: tuple[str, ...] = get_args(MergeStrategy)

_TIMESTAMP = "timestamp_value"


def timestamp_value(moment: datetime) -> dict[str, str]:
    """Give a time as a value of metadata.

    Args:
        moment: With a zone.
    """
    return {_TIMESTAMP: moment.astimezone(UTC).isoformat()}


def encode_metadata(values: Mapping[str, Any]) -> str:
    """Write metadata as a JSON object with sorted keys."""
    return orjson.dumps(dict(values), option=orjson.OPT_SORT_KEYS).decode()


def metadata_key(metadata: str | None) -> str:
    """Give what is equal for metadata with the same keys, types and values.

    Times count to the second, and no metadata is as good as none in it.

    Args:
        metadata: A JSON object, or None.

    Example:
        >>> metadata_key('{"b": true, "a": 1}') == metadata_key('{"a": 1.0, "b": true}')
        True
        >>> metadata_key(None) == metadata_key("{}")
        True
        >>> metadata_key('{"a": "1"}') == metadata_key('{"a": 1}')
        False
    """
    values = {} if metadata is None else _object(metadata)
    return encode_metadata({name: _comparable(value) for name, value in values.items()})


def _comparable(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, Mapping) and set(value) == {_TIMESTAMP}:
        moment = datetime.fromisoformat(value[_TIMESTAMP]).astimezone(UTC)
        return {_TIMESTAMP: moment.replace(microsecond=0).isoformat()}
    return value


def applied_metadata(
    before: str | None, given: str | None, strategy: str | None = None
) -> str | None:
    """Give the metadata of a memory after a change.

    Args:
        before: What it had: a JSON object, or None.
        given: What the change gives; None leaves what was there, ``"{}"`` clears it.
        strategy: One of `MERGE_STRATEGIES`; None is ``"OVERWRITE"``.

    Example:
        >>> applied_metadata('{"a": 1, "b": 2}', '{"b": 3}', "MERGE")
        '{"a":1,"b":3}'
        >>> applied_metadata('{"a": 1}', '{"b": 3}')
        '{"b": 3}'
        >>> applied_metadata('{"a": 1}', None)
        '{"a": 1}'
    """
    if given is None:
        return before
    if strategy == "MERGE" and before is not None:
        return encode_metadata({**_object(before), **_object(given)})
    return given


def _object(metadata: str) -> dict[str, Any]:
    value = orjson.loads(metadata)
    if not isinstance(value, dict):
        raise InvalidArgumentError(
            f"metadata must be a JSON object, got one of type {type(value).__name__}."
        )
    return value
