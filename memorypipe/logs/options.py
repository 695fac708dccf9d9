"""How a log is read, checked before anything is opened. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, timedelta, timezone, tzinfo
from typing import Any, Literal, TypeAlias, cast, get_args
from zoneinfo import ZoneInfo

from memorypipe.errors import InvalidArgumentError, LogFormatError
from memorypipe.logs.columns import column_value
from memorypipe.logs.conversations import CONSTANT_MARK, check_scope_columns
from memorypipe.logs.formats.registry import FORMATS, FormatName
from memorypipe.logs.messages import ROLES
from memorypipe.logs.redact import Redact
from memorypipe.schema import CONVERSATIONS

__all__ = ["Layout", "ReadOptions", "find_zone", "read_options"]

Layout: TypeAlias = Literal["conversations", "messages"]

_LAYOUTS = get_args(Layout)

# What a mapping may name: of a record, and of each message.
_RECORD_PARTS = ("messages", "conversation_id", "event_time")
_MESSAGE_PARTS = ("role", "content", "name", "timestamp", "id")

_MAX_OFFSET_HOURS = 24


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Checked options of `memorypipe.logs.read.read_conversations`, which says what they mean.

    Attributes:
        format_name: None: recognised by content.
        scope_columns: None: what the format says.
        keep: Columns to carry along.
        is_mapped: Whether the mapping says what is what, not a format.
        mapping: From parts of conversations and messages to columns.
        roles: What the log calls a speaker, in small letters, to roles.
        zone: Of times that name none; None where there is none, or `zone_column` says it.
        zone_column: Column that names the zone of each record.
        layout: Whether a record is a conversation or a message.
        group_by: Column that tells which conversation a message is of.
        order_by: Column that orders the messages of a conversation.
        redact: Applied to all texts before anything else sees them.
    """

    format_name: FormatName | None = None
    scope_columns: Mapping[str, str] | None = None
    keep: tuple[str, ...] = ()
    is_mapped: bool = False
    mapping: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=lambda: ROLES)
    zone: tzinfo | None = None
    zone_column: str | None = None
    layout: Layout = "conversations"
    group_by: str | None = None
    order_by: str | None = None
    redact: Redact | None = None

    def column(self, part: str, usual: str) -> str:
        """Give the column of a part that has a usual name."""
        return self.mapping.get(part, usual)

    def zone_of(self, fields: Mapping[str, Any]) -> tzinfo | None:
        """Give the zone of a record's times that name none; None where none is known.

        Raises:
            LogFormatError: Its column holds something else.
        """
        value = None if self.zone_column is None else column_value(fields, self.zone_column)
        if value is None or value != value or value == "":  # noqa: PLR0124  # NaN
            return self.zone
        zone = find_zone(value) if isinstance(value, str) else None
        if zone is None:
            shown = value[:40] if isinstance(value, str) else value
            raise LogFormatError(
                f"Column {self.zone_column!r} has the time zone {shown!r}; it must be a name such "
                "as 'Europe/Berlin', an offset such as '+02:00', or 'Z'."
            )
        return zone


def find_zone(name: str) -> tzinfo | None:
    """Find a time zone by its name in the IANA database, an offset, or ``Z``; None: there is none.

    Example:
        >>> find_zone("Europe/Berlin")
        zoneinfo.ZoneInfo(key='Europe/Berlin')
        >>> find_zone("+05:30").utcoffset(None)
        datetime.timedelta(seconds=19800)
        >>> find_zone("Mars/Olympus") is None
        True
    """
    name = name.strip()
    if name.upper() in {"Z", "UTC"}:
        return UTC
    if name[:1] in {"+", "-"}:
        return _offset(name)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # OSError: the name of one of its folders
        return None


def _offset(name: str) -> tzinfo | None:
    hours, _, minutes = name[1:].partition(":")
    minutes = minutes or "0"
    if not (hours.isdecimal() and minutes.isdecimal()):
        return None
    if int(hours) >= _MAX_OFFSET_HOURS or int(minutes) >= 60:  # noqa: PLR2004  # minutes
        return None
    sign = -1 if name.startswith("-") else 1
    return timezone(sign * timedelta(hours=int(hours), minutes=int(minutes)))


def read_options(  # noqa: PLR0913  # one keyword per independent choice of a reading
    *,
    format: str = "auto",  # noqa: A002  # the word that users know
    scope: Mapping[str, str] | None = None,
    keep: Sequence[str] = (),
    map: Mapping[str, str] | None = None,  # noqa: A002  # as above
    roles: Mapping[str, str] | None = None,
    timezone: str | None = None,
    layout: str = "conversations",
    group_by: str | None = None,
    order_by: str | None = None,
    redact: Redact | None = None,
) -> ReadOptions:
    """Check the options of a reading, all that can be checked without the log.

    Args:
        format: As `memorypipe.logs.read.read_conversations`, like the others.
        scope: As there.
        keep: As there.
        map: As there.
        roles: As there.
        timezone: As there.
        layout: As there.
        group_by: As there.
        order_by: As there.
        redact: As there.

    Raises:
        InvalidArgumentError: An option cannot work; the message names it, its value and what
            it may be.
    """
    if layout not in _LAYOUTS:
        raise InvalidArgumentError(f"layout must be one of {', '.join(_LAYOUTS)}, got {layout!r}.")
    is_mapped = map is not None or layout == "messages"
    _check_layout(layout, group_by, order_by)
    _check_keep(keep)
    if redact is not None and not callable(redact):
        raise InvalidArgumentError(
            f"redact must be a function from a list of texts to one, got {redact!r}."
        )
    zone = None if timezone is None else find_zone(timezone)
    return ReadOptions(
        format_name=_format_name(format, is_mapped=is_mapped),
        scope_columns=None if scope is None else check_scope_columns(scope),
        keep=tuple(keep),
        is_mapped=is_mapped,
        mapping=_mapping(map or {}, layout),
        roles={**ROLES, **_roles(roles or {})},
        zone=zone,
        zone_column=timezone if zone is None else None,
        layout=cast("Layout", layout),
        group_by=group_by,
        order_by=order_by,
        redact=redact,
    )


def _check_layout(layout: str, group_by: str | None, order_by: str | None) -> None:
    if layout == "messages":
        if not (group_by and group_by.strip()):
            raise InvalidArgumentError(
                "Layout 'messages' needs the column that tells which conversation a message is "
                f"of: group_by (--group-by conversation_id), got {group_by!r}."
            )
        return
    for name, value in (("group_by", group_by), ("order_by", order_by)):
        if value is not None:
            raise InvalidArgumentError(
                f"{name}={value!r} needs layout 'messages' (--layout messages), one row per "
                f"message; the layout is {layout!r}."
            )


def _check_keep(keep: Sequence[str]) -> None:
    taken = [name for name in keep if name in CONVERSATIONS.names]
    if isinstance(keep, str) or taken or len(set(keep)) < len(keep):
        shown = keep if isinstance(keep, str) else list(keep)
        raise InvalidArgumentError(
            f"keep must be a list that names each column once and none of "
            f"{CONVERSATIONS.names!r}, got {shown!r}."
        )


def _format_name(name: str, *, is_mapped: bool) -> FormatName | None:
    if name == "auto":
        return None
    known = next((each for each in FORMATS if each == name), None)
    if known is None:
        raise InvalidArgumentError(
            f"Unknown log format {name!r}; choose auto, {', '.join(FORMATS)}, or say with map "
            "(--map messages=COLUMN) what is where."
        )
    if is_mapped:
        raise InvalidArgumentError(
            f"format {name!r} and a mapping (map, or layout 'messages') exclude each other; leave "
            "format at 'auto'."
        )
    return known


def _mapping(mapping: Mapping[str, str], layout: str) -> dict[str, str]:
    parts = _MESSAGE_PARTS if layout == "messages" else (*_RECORD_PARTS, *_MESSAGE_PARTS)
    for part, column in mapping.items():
        if part not in parts:
            hint = "; group_by names the conversation" if layout == "messages" else ""
            raise InvalidArgumentError(
                f"map cannot name {part!r} in the layout {layout!r}; it may name "
                f"{', '.join(parts)}{hint}."
            )
        if not column.strip():
            raise InvalidArgumentError(f"map {part} must be a column, got {column!r}.")
        if column.startswith(CONSTANT_MARK) and part != "role":
            raise InvalidArgumentError(
                f"map {part}={column!r}: only the role can be a constant (role==user)."
            )
    return dict(mapping)


def _roles(roles: Mapping[str, str]) -> dict[str, str]:
    known = sorted(set(ROLES.values()))
    for name, role in roles.items():
        if role not in known:
            raise InvalidArgumentError(
                f"roles: {name!r} cannot be the role {role!r}; choose {', '.join(known)}."
            )
        if not name.strip():
            raise InvalidArgumentError(f"roles: a speaker must have a name, got {name!r}.")
    return {name.strip().lower(): role for name, role in roles.items()}
