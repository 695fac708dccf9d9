"""LoCoMo: dated sessions of two people. Pure."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from memorypipe.errors import LogFormatError
from memorypipe.logs.conversations import Draft
from memorypipe.logs.records import describe

__all__ = ["is_locomo", "locomo_drafts"]

_SESSION = re.compile(r"session_(\d+)")
_SESSION_DATE = re.compile(
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})\s*(?P<half>am|pm) on "
    r"(?P<day>\d{1,2}) (?P<month>[a-z]+),? (?P<year>\d{4})",
    re.IGNORECASE,
)
# Not strptime: its month names change with the locale of the process.
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)


def is_locomo(value: Any) -> bool:
    """Recognise one sample: an object with `conversation` and its sessions."""
    conversation = value.get("conversation") if isinstance(value, Mapping) else None
    return isinstance(conversation, Mapping) and any(map(_session_number, conversation))


def locomo_drafts(value: Any) -> Iterator[Draft]:
    """Read one conversation per session, named ``<sample_id>/session_<n>``.

    Scope `user_id` is the `sample_id`; both speakers are user turns with their names; a shared
    image is told by its caption. A session's date is UTC unless a zone is given.

    Raises:
        LogFormatError: The record has another shape.
    """
    if not is_locomo(value):
        raise LogFormatError(
            f"Expected an object with 'conversation' and its sessions, found {describe(value)}."
        )
    sample, conversation = value.get("sample_id"), value["conversation"]
    for number in sorted(filter(None, map(_session_number, conversation))):
        session = f"session_{number}"
        yield Draft(
            messages=_session_messages(
                conversation[session], conversation.get(f"{session}_date_time")
            ),
            fields=value,
            default_scope=None if sample is None else {"user_id": sample},
            conversation_id=None if sample is None else f"{sample}/{session}",
            zone=UTC,
        )


def _session_number(key: str) -> int | None:
    found = _SESSION.fullmatch(key)
    return int(found[1]) if found else None


def _session_messages(turns: Any, date: Any) -> Any:
    if not isinstance(turns, list):
        return turns
    timestamp = _session_time(date)
    return [_session_message(turn, timestamp) for turn in turns]


def _session_message(turn: Any, timestamp: Any) -> Any:
    if not isinstance(turn, Mapping):
        return turn
    caption = turn.get("blip_caption")
    image = f"[shares an image: {caption}]" if caption else ""
    return {
        "role": "user",
        "name": turn.get("speaker"),
        "content": f"{turn.get('text') or ''} {image}".strip(),
        "timestamp": timestamp,
        "id": turn.get("dia_id"),
    }


def _session_time(date: Any) -> Any:
    """Read ``"1:56 pm on 8 May, 2023"``, without a zone; anything else comes back as it is."""
    found = _SESSION_DATE.fullmatch(date.strip()) if isinstance(date, str) else None
    if found is None or found["month"].lower() not in _MONTHS:
        return date
    hour = int(found["hour"]) % 12 + (12 if found["half"].lower() == "pm" else 0)
    month = _MONTHS.index(found["month"].lower()) + 1
    try:
        day = datetime(int(found["year"]), month, int(found["day"]))  # noqa: DTZ001  # the draft names the zone
        return day.replace(hour=hour, minute=int(found["minute"]))
    except ValueError:
        return date
