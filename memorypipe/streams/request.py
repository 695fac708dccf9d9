"""A request to ingest events, checked as a whole before anything of it is stored. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from memorypipe.cells.metadata import MERGE_STRATEGIES, encode_metadata, timestamp_value
from memorypipe.errors import InvalidArgumentError
from memorypipe.ids import check_scope
from memorypipe.logs.messages import content_text
from memorypipe.logs.recalled import drop_recalled
from memorypipe.streams.fields import Fields, refuse
from memorypipe.streams.rules import Rule
from memorypipe.text import clean

__all__ = ["DEFAULT_STREAM", "Event", "Request", "read_request"]

DEFAULT_STREAM = "default"

# What a speaker is called -> the role that it has in a conversation.
_ROLES = {"user": "user", "model": "assistant", "assistant": "assistant"}

_SOURCE = "direct_contents_source"
_CONFIG_FIELDS = (
    "force_flush",
    "wait_for_completion",
    "revision_labels",
    "revision_expire_time",
    "revision_ttl",
    "disable_memory_revisions",
    "metadata",
    "metadata_merge_strategy",
)
_VALUE_FIELDS = ("string_value", "double_value", "bool_value", "timestamp_value")

# Parts of other kinds, as their fields are called.
_PART_FIELDS = (
    "inline_data",
    "file_data",
    "function_call",
    "function_response",
    "executable_code",
    "code_execution_result",
)
_MEDIA = ("image", "audio", "video")
_MAX_PART_NAME_CHARS = 30


@dataclass(frozen=True, kw_only=True)
class Event:
    """One event of a request.

    Attributes:
        role: ``"user"`` or ``"assistant"``.
        content: What was said; "" where nothing was.
        event_id: As given; None: it is never a duplicate.
        event_time: As given, UTC; None: that of the ingestion.
    """

    role: str
    content: str
    event_id: str | None = None
    event_time: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request that can be taken.

    Attributes:
        scope: With sorted keys, never empty.
        stream_id: The stream within the scope.
        events: In the order given.
        rule: The trigger that it sets; None leaves the one that the stream has.
        is_forced: Whether what is pending is due whatever the rule.
        waits: Whether the caller wants to wait until that is done.
        config: What goes with the memories that are made, as JSON values: any of `labels`,
            `expire_time` (ISO 8601), `ttl_s`, `no_revisions`, `metadata` (a JSON object) and
            `strategy`; what was not said is not there.
    """

    scope: Mapping[str, str]
    stream_id: str = DEFAULT_STREAM
    events: tuple[Event, ...] = ()
    rule: Rule | None = None
    is_forced: bool = False
    waits: bool = False
    config: Mapping[str, Any] = field(default_factory=dict)


def read_request(
    *,
    scope: Any,
    stream_id: Any = None,
    direct_contents_source: Any = None,
    generation_trigger_config: Any = None,
    config: Any = None,
) -> Request:
    """Check a request; arguments as of `EventStreams.ingest_events`.

    Raises:
        InvalidArgumentError: For anything that cannot be; names field and value.
    """
    source = Fields(direct_contents_source, ("events",), _SOURCE)
    events = source.items("events") or ()
    flags = Fields(config, _CONFIG_FIELDS, "config")
    return Request(
        scope=_scope(scope),
        stream_id=_stream_id(stream_id),
        events=tuple(_event(event, f"{_SOURCE}.events[{n}]") for n, event in enumerate(events)),
        rule=Rule.read(generation_trigger_config),
        is_forced=bool(flags.flag("force_flush")),
        waits=bool(flags.flag("wait_for_completion")),
        config=_config(flags),
    )


def _scope(scope: Any) -> dict[str, str]:
    if not isinstance(scope, Mapping) or not scope:
        refuse("scope", scope, "be a mapping of one to five pairs such as {'user_id': 'u1'}")
    try:
        return check_scope(scope)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"scope {dict(scope)!r} cannot be: {error}") from error


def _stream_id(value: Any) -> str:
    if value is None:
        return DEFAULT_STREAM
    if not isinstance(value, str) or not value.strip() or clean(value)[1]:
        refuse("stream_id", value, "be a string that is not blank, without NUL")
    return str(value)


def _event(value: Any, path: str) -> Event:
    given = Fields(value, ("content", "event_id", "event_time"), path)
    content = Fields(given["content"], ("role", "parts"), given.path("content"))
    role = content["role"]
    if not isinstance(role, str) or role not in _ROLES:
        refuse(content.path("role"), role, f"be one of {', '.join(_ROLES)}")
    parts = content.items("parts")
    if not parts:
        refuse(content.path("parts"), parts, "be a list of at least one part")
    text = "\n".join(
        said
        for n, part in enumerate(parts)
        if (said := _part(part, f"{content.path('parts')}[{n}]"))
    )
    event_id = given.text("event_id")
    return Event(
        role=_ROLES[role],
        content=drop_recalled(clean(text)[0]),
        event_id=None if event_id is None else clean(event_id)[0],
        event_time=given.time("event_time"),
    )


def _part(part: Any, path: str) -> str:
    """Give the text of a part; of one of another kind a placeholder."""
    if isinstance(part, str):
        return part
    is_mapping = isinstance(part, Mapping)
    fields = part if is_mapping else {n: getattr(part, n, None) for n in ("text", *_PART_FIELDS)}
    said = {name: value for name, value in fields.items() if value is not None}
    text = said.get("text")
    if isinstance(text, str):
        return text
    if not said or text is not None:
        refuse(path, part, "be an object with 'text', or a part of another kind")
    if "type" in said:
        return content_text([said])
    return _placeholder(*next(iter(said.items())))


def _placeholder(name: str, value: Any) -> str:
    kind = (
        value.get("mime_type") if isinstance(value, Mapping) else getattr(value, "mime_type", None)
    )
    media = str(kind).split("/", maxsplit=1)[0]
    if media in _MEDIA:
        return f"[{media}]"
    if name in {"inline_data", "file_data"}:
        return "[file]"
    return f"[{' '.join(str(name).split())[:_MAX_PART_NAME_CHARS]}]"


def _config(given: Fields) -> dict[str, Any]:
    expire_time, ttl_s = (
        given.time("revision_expire_time"),
        given.seconds("revision_ttl", multiple_of=1),
    )
    if expire_time is not None and ttl_s is not None:
        raise InvalidArgumentError(
            f"{given.path('revision_expire_time')} {given['revision_expire_time']!r} and "
            f"{given.path('revision_ttl')} {given['revision_ttl']!r} exclude each other; give one."
        )
    metadata = given.mapping("metadata")
    strategy = given["metadata_merge_strategy"]
    if strategy is not None and strategy not in MERGE_STRATEGIES:
        refuse(given.path("metadata_merge_strategy"), strategy, f"be one of {MERGE_STRATEGIES}")
    said = {
        "labels": _labels(given),
        "expire_time": None if expire_time is None else expire_time.isoformat(),
        "ttl_s": ttl_s,
        "no_revisions": given.flag("disable_memory_revisions"),
        "metadata": None if metadata is None else _metadata(metadata, given.path("metadata")),
        "strategy": None if strategy is None else str(strategy),
    }
    return {name: value for name, value in said.items() if value is not None}


def _labels(given: Fields) -> dict[str, str] | None:
    labels = given.mapping("revision_labels")
    if labels is None:
        return None
    for name, value in labels.items():
        if not isinstance(value, str):
            refuse(f"{given.path('revision_labels')}[{name!r}]", value, "be a string")
    return {clean(name)[0]: clean(value)[0] for name, value in labels.items()}


def _metadata(values: Mapping[str, Any], path: str) -> str:
    return encode_metadata(
        {clean(name)[0]: _value(value, f"{path}[{name!r}]") for name, value in values.items()}
    )


def _value(value: Any, path: str) -> Any:
    given = Fields(value, _VALUE_FIELDS, path)
    said: Sequence[str] = [name for name in _VALUE_FIELDS if given[name] is not None]
    if len(said) != 1:
        refuse(path, value, f"have exactly one of {', '.join(_VALUE_FIELDS)}")
    name = said[0]
    typed = given[name]
    if name == "string_value":
        if not isinstance(typed, str):
            refuse(given.path(name), typed, "be a string")
        return clean(typed)[0]
    if name == "double_value":
        return _double(typed, given.path(name))
    if name == "bool_value":
        return given.flag(name)
    moment = given.time(name)
    return None if moment is None else timestamp_value(moment.astimezone(UTC))


def _double(value: Any, path: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or value != value or value in {float("inf"), float("-inf")}:  # noqa: PLR0124  # NaN
        refuse(path, value, "be a finite number")
    return float(value)
