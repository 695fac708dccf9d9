"""Names of streams, events and operations: the same for the same, whoever makes them. Pure."""

from collections.abc import Callable
from datetime import datetime

from memorypipe.errors import InvalidArgumentError
from memorypipe.ids import digest, message_id
from memorypipe.streams.request import Event

__all__ = [
    "SEQ_BITS",
    "event_key",
    "free_occurrence",
    "operation_name",
    "read_operation_name",
    "said_key",
    "said_message_id",
    "stream_key",
]

SEQ_BITS = 20
"""Bits of an event's number that count within its commit."""

_PREFIX = "op_"
_KEY_HEX = 32


def stream_key(scope_key: str, stream_id: str) -> bytes:
    """Key of a stream, 16 bytes: of exactly this scope and name."""
    return digest("stream", scope_key, stream_id)


def event_key(stream: bytes, event_id: str) -> bytes:
    """Key of an event that has an id, 16 bytes: it is taken once."""
    return digest("event", stream.hex(), event_id)


def said_key(stream: bytes, event: Event, occurrence: int) -> bytes:
    """Key of an event without an id, 16 bytes.

    Args:
        stream: As from `stream_key`.
        event: What was said.
        occurrence: 0 for the first of several equal ones in the stream, then 1, 2, …
    """
    said = (event.role, _time(event.event_time), event.content)
    return digest("said", stream.hex(), *said, occurrence)


def said_message_id(event: Event, occurrence: int) -> str:
    """Name an event without an id as the reader of logs names a message without one."""
    return message_id(event.role, _time(event.event_time), event.content, occurrence)


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def free_occurrence(is_taken: Callable[[int], bool]) -> int:
    """Find the first number that is not taken, where none is that follows a free one.

    Args:
        is_taken: Whether a number is; asked about as many as the result has binary digits.

    Example:
        >>> free_occurrence(lambda number: number < 1000)
        1000
    """
    above = 1
    if not is_taken(0):
        return 0
    while is_taken(above):
        above *= 2
    low, high = above // 2, above  # low is taken, high is not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_taken(middle) else (low, middle)
    return high


def operation_name(stream: bytes, number: int) -> str:
    """Name an operation: the `number`-th of its stream, from 1."""
    return f"{_PREFIX}{stream.hex()}_{number}"


def read_operation_name(name: str) -> tuple[bytes, int]:
    """Read what `operation_name` gave: stream and number.

    Raises:
        InvalidArgumentError: For another string.

    Example:
        >>> read_operation_name(operation_name(bytes(16), 3))[1]
        3
    """
    key, _, number = name.removeprefix(_PREFIX).partition("_")
    is_name = name.startswith(_PREFIX) and len(key) == _KEY_HEX and number.isdecimal()
    try:
        if is_name and number.isascii():
            return bytes.fromhex(key), int(number)
    except ValueError:
        pass
    raise InvalidArgumentError(f"name {name!r} is the name of no operation.")
