"""From one record of another store to a memory: which field is what, and what is wrong. Pure."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Literal

import orjson

from memorypipe import ids
from memorypipe.errors import InvalidArgumentError
from memorypipe.logs.times import parse_time
from memorypipe.schema import RECORD_TYPE_MEMORY
from memorypipe.text import clean

__all__ = [
    "CONSTANT",
    "SOURCES",
    "TARGETS",
    "ImportMapping",
    "Imported",
    "SkippedError",
    "UnreadableError",
    "make_mapping",
    "read_memory",
]

Source = Literal["jsonl", "parquet", "mem0"]
SOURCES: tuple[Source, ...] = ("jsonl", "parquet", "mem0")

_TEXTS = (
    *("external_id", "memory_id", "context", "conversation_id", "rationale", "model"),
    "prompt_hash",
)
_TIMES = ("event_time", "created_at", "updated_at", "expires_at")
_LISTS = ("topics", "source_ids")
_OBJECTS = ("metadata", "payload")

#: What a field of a record can become.
TARGETS = ("text", "record_type", *_TEXTS, *_TIMES, *_LISTS, *_OBJECTS, "vector")

#: Begins what is said of a part of the scope where it is a value and not the name of a field.
CONSTANT = "="

# Shapes of mem0's own export: the fields that have a meaning here. What is not listed goes to
# the metadata.
_MEM0_MAP = {
    "text": "memory",
    "external_id": "id",
    "metadata": "metadata",
    "topics": "categories",
    "created_at": "created_at",
    "updated_at": "updated_at",
    "expires_at": "expiration_date",
}
_MEM0_SCOPE = {
    "user_id": "user_id",
    "agent_id": "agent_id",
    "app_id": "app_id",
    "thread_id": "run_id",
}
# Follow from the text, or from one search.
_MEM0_DERIVED = frozenset({"hash", "score", "text_lemmatized"})


class UnreadableError(ValueError):
    """Why no memory can be made of a record."""


class SkippedError(Exception):
    """Why a record is no memory to take over: it was superseded or deleted where it comes from."""


@dataclass(frozen=True, kw_only=True)
class ImportMapping:
    """Which field of a record is what.

    Attributes:
        source: What kind of export the records come from.
        fields: Target, one of `TARGETS`, to the name of the field.
        scope: Part of the scope to the name of the field; ``=value`` is a constant.
        scope_keys: The parts that make the scope, in any order; the others go to the metadata.
            None: all.
        keep: Fields that go to the metadata as they are.
        store: Name of the store that the records come from: their ids mean the same within it.
            None: not said.
        takes_vectors: Whether vectors are taken over.
    """

    source: Source
    fields: Mapping[str, str]
    scope: Mapping[str, str]
    scope_keys: tuple[str, ...] | None = None
    keep: tuple[str, ...] = ()
    store: str | None = None
    takes_vectors: bool = False


@dataclass(frozen=True, kw_only=True)
class Imported:
    """A memory as another store holds it.

    Attributes:
        scope: Whose it is.
        text: What it says.
        record_type: Its kind.
        values: The other columns of `memorypipe.schema.ACTIONS` and `ACTION_OPTIONS` that the
            record gives, `memory_id` among them where it names one.
    """

    scope: Mapping[str, str]
    text: str
    record_type: str = RECORD_TYPE_MEMORY
    values: Mapping[str, Any] = field(default_factory=dict)


def make_mapping(  # noqa: PLR0913  # one keyword per independent choice of an import
    source: str,
    *,
    fields: Mapping[str, str] | None = None,
    scope: Mapping[str, str] | None = None,
    scope_keys: Sequence[str] | None = None,
    keep: Sequence[str] = (),
    store: str | None = None,
) -> ImportMapping:
    """Complete a mapping by what the kind of export says.

    Args:
        source: One of `SOURCES`.
        fields: Target to field, over the defaults: for ``"mem0"`` its own names, else every
            target is the field of that name.
        scope: Part of the scope to field, or ``=value``, in place of the defaults: for ``"mem0"``
            `user_id`, `agent_id`, `app_id` and its `run_id` as `thread_id`; else the field `scope`
            (an object, or the pairs of a map column).
        scope_keys: As for `ImportMapping`.
        keep: As for `ImportMapping`.
        store: As for `ImportMapping`; None for ``"mem0"``, whose ids are unique, is ``"mem0"``.

    Raises:
        InvalidArgumentError: For an unknown source or target, a blank store, or a constant scope
            that cannot be.

    Example:
        >>> make_mapping("mem0", scope_keys=["user_id"]).fields["text"]
        'memory'
    """
    if source not in SOURCES:
        raise InvalidArgumentError(f"Unknown source {source!r}; choices: {SOURCES!r}.")
    given = dict(fields or {})
    if unknown := sorted(set(given).difference(TARGETS)):
        raise InvalidArgumentError(f"No field can become {unknown[0]!r}; choices: {TARGETS!r}.")
    if store is not None and not store.strip():
        raise InvalidArgumentError(f"The store must have a name, got {store!r}.")
    constants = {k: v[1:] for k, v in (scope or {}).items() if v.startswith(CONSTANT)}
    ids.check_scope(constants)
    default = _MEM0_MAP if source == "mem0" else {name: name for name in TARGETS}
    return ImportMapping(
        source=source,
        fields={**default, **given},
        scope=dict(scope) if scope else dict(_MEM0_SCOPE) if source == "mem0" else {},
        scope_keys=None if scope_keys is None else tuple(scope_keys),
        keep=tuple(keep),
        store="mem0" if store is None and source == "mem0" else store,
    )


def read_memory(value: Any, mapping: ImportMapping) -> Imported:
    """Make a memory of one record.

    Args:
        value: The record; anything but an object is unreadable.
        mapping: Which field is what.

    Raises:
        UnreadableError: With the reason why nothing can be made of it.
        SkippedError: For a record that says of itself that it is no current, valid memory.
    """
    if not isinstance(value, Mapping):
        raise UnreadableError(f"It is no object but a {type(value).__name__}.")
    _check_live(value)
    text = _text(value, mapping)
    scope, beside = _scope(value, mapping)
    values: dict[str, Any] = {}
    for target in _TEXTS:
        values[target] = _word(value, mapping, target)
    for target in _TIMES:
        values[target] = _time(value, mapping, target)
    for target in _LISTS:
        values[target] = _words(value, mapping, target)
    values["payload"] = _dumped(_object(value, mapping, "payload"))
    values["metadata"] = _dumped(
        {**_object(value, mapping, "metadata"), **_kept(value, mapping), **beside}
    )
    if mapping.takes_vectors:
        values["vector"] = _vector(value, mapping)
    if values["updated_at"] is None:
        values["updated_at"] = values["created_at"]
    if mapping.source == "mem0" and values["event_time"] is None:
        # The newest time at which somebody is known to have said so.
        values["event_time"] = values["updated_at"]
    return Imported(
        scope=scope,
        text=text,
        record_type=_word(value, mapping, "record_type") or RECORD_TYPE_MEMORY,
        values={name: each for name, each in values.items() if each is not None},
    )


def _check_live(record: Mapping[str, Any]) -> None:
    """Skip what an export with history holds beside the live rows."""
    if record.get("is_current") is False:
        raise SkippedError("superseded")
    if record.get("deleted") is True:
        raise SkippedError("deleted")
    if record.get("is_live") is False or record.get("status") == "invalid":
        raise SkippedError("invalid")


def _text(record: Mapping[str, Any], mapping: ImportMapping) -> str:
    name = mapping.fields["text"]
    value = record.get(name)
    if not isinstance(value, str) or not value.strip():
        what = "is missing" if value is None else f"is {_shown(value)}"
        raise UnreadableError(f"The text, field {name!r}, {what}; it must be a text.")
    return clean(value)[0]


def _scope(
    record: Mapping[str, Any], mapping: ImportMapping
) -> tuple[dict[str, str], dict[str, Any]]:
    """Read the scope, and what would belong to it but for `scope_keys`."""
    parts = _scope_parts(record, mapping)
    keys = mapping.scope_keys
    chosen = {k: v for k, v in parts.items() if keys is None or k in keys}
    if not chosen and (parts or mapping.scope):
        names = sorted(mapping.scope.values()) or sorted(parts)
        raise UnreadableError(f"It has no scope: none of the fields {names!r} says whose it is.")
    try:
        scope = ids.check_scope(chosen)
    except InvalidArgumentError as error:
        raise UnreadableError(str(error)) from error
    return scope, {k: v for k, v in parts.items() if k not in chosen}


def _scope_parts(record: Mapping[str, Any], mapping: ImportMapping) -> dict[str, Any]:
    if not mapping.scope:
        if record.get("scope") is None:
            raise UnreadableError("It has no scope: the field 'scope' is missing.")
        return _as_object(record["scope"], "scope")
    parts = {
        key: name[1:] if name.startswith(CONSTANT) else _plain_number(record.get(name))
        for key, name in mapping.scope.items()
    }
    return {key: value for key, value in parts.items() if value not in (None, "")}


def _plain_number(value: Any) -> Any:
    # A column of integers with gaps comes as floats.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _field(record: Mapping[str, Any], mapping: ImportMapping, target: str) -> tuple[str, Any]:
    name = mapping.fields.get(target, "")
    return name, record.get(name)


def _word(record: Mapping[str, Any], mapping: ImportMapping, target: str) -> str | None:
    name, value = _field(record, mapping, target)
    value = _plain_number(value)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if not isinstance(value, str):
        raise UnreadableError(f"The field {name!r} is {_shown(value)}; {target} is a text.")
    return clean(value)[0]


def _time(record: Mapping[str, Any], mapping: ImportMapping, target: str) -> datetime | None:
    name, value = _field(record, mapping, target)
    parsed = parse_time(value)
    if parsed.unreadable:
        raise UnreadableError(f"The field {name!r}, {_shown(value)}, is no time.")
    if target == "expires_at" and parsed.at is not None and _is_day(value):
        # What expires on a day lasts until its end; the last day that there is has none.
        with suppress(OverflowError):
            return parsed.at + timedelta(days=1)
    return parsed.at


def _is_day(value: Any) -> bool:
    """Tell whether a time names a day and no hour."""
    if not isinstance(value, str):
        return isinstance(value, date) and not isinstance(value, datetime)
    try:
        date.fromisoformat(value.strip())
    except ValueError:
        return False
    return True


def _words(record: Mapping[str, Any], mapping: ImportMapping, target: str) -> list[str] | None:
    name, value = _field(record, mapping, target)
    if value is None:
        return None
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        raise UnreadableError(
            f"The field {name!r} is {_shown(value)}; {target} is a list of texts."
        )
    return [clean(item)[0] for item in items]


def _object(record: Mapping[str, Any], mapping: ImportMapping, target: str) -> dict[str, Any]:
    name, value = _field(record, mapping, target)
    return {} if value is None else _as_object(value, name)


def _as_object(value: Any, name: str) -> dict[str, Any]:
    """Read an object from what JSON, a map column or a text with JSON gives."""
    if isinstance(value, str):
        try:
            value = orjson.loads(value) if value.strip() else {}
        except orjson.JSONDecodeError:
            raise UnreadableError(f"The field {name!r} is a text that is no JSON object.") from None
    if isinstance(value, list | tuple):  # a map column: its pairs
        with suppress(TypeError, ValueError):
            value = dict(value)
    if not isinstance(value, Mapping):
        raise UnreadableError(f"The field {name!r} is {_shown(value)}; it must be an object.")
    return {str(key): item for key, item in value.items()}


def _kept(record: Mapping[str, Any], mapping: ImportMapping) -> dict[str, Any]:
    """Give the fields that go to the metadata; of mem0's records all that have no other place."""
    names = list(mapping.keep)
    if mapping.source == "mem0":
        placed = {*mapping.fields.values(), *mapping.scope.values(), *_MEM0_DERIVED}
        names += [name for name in record if name not in placed]
    found = {name: record.get(name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def _dumped(value: dict[str, Any]) -> str | None:
    if not value:
        return None
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z).decode()
    except TypeError as error:
        raise UnreadableError(f"The metadata or payload cannot be JSON: {error}.") from error


def _vector(record: Mapping[str, Any], mapping: ImportMapping) -> list[float] | None:
    name, value = _field(record, mapping, "vector")
    if value is None:
        return None
    if not isinstance(value, list | tuple) or not all(isinstance(x, int | float) for x in value):
        raise UnreadableError(f"The field {name!r} is {_shown(value)}; a vector is numbers.")
    return [float(x) for x in value]


def _shown(value: Any) -> str:
    """Show a value that is wrong, as far as it may be short."""
    shown = repr(value)
    return shown if len(shown) <= 40 else f"a {type(value).__name__}"  # noqa: PLR2004  # a short line
