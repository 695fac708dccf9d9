"""Windows: the turns of a conversation that one extraction call reads. Pure.

A window holds new turns up to a token budget, after a few turns of background: the ones right
before them, whether an earlier window of this run or an earlier run has paid for those. What is
in a window depends only on its conversation and on which messages are new, and its id only on
what its new turns say: a window that is taken up again later is the same window.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa

from memorypipe.errors import InvalidArgumentError
from memorypipe.ids import digest, ledger_key
from memorypipe.llm.tokens import estimate_tokens
from memorypipe.logs.known import KeyArray, contains
from memorypipe.logs.messages import Message
from memorypipe.logs.tokens import split_text
from memorypipe.schema import CONVERSATIONS, WINDOWS

__all__ = [
    "MIN_WINDOW_TOKENS",
    "TURN_TOKENS",
    "Window",
    "check_window_options",
    "conversation_windows",
    "new_message_ids",
    "windows_batch",
]

# What speaker, date and marks of a turn cost in the prompt, beside its text.
TURN_TOKENS = 16

# Below this, the marks of a turn leave hardly any room for its text.
MIN_WINDOW_TOKENS = 64

# Background takes at most this share of a window.
_BACKGROUND_SHARE = 0.25


@dataclass(frozen=True, kw_only=True)
class Window:
    """The messages of one window.

    Attributes:
        messages: Background first (`background` is True), then the new ones. All pieces of a
            turn that had to be split carry its role, name, timestamp and id.
        content_key: What the new messages say, as hex digits; equal for equal content.
    """

    messages: tuple[Message, ...]
    content_key: str


class _Turn(NamedTuple):
    """A message, or a piece of one that is too long for a window."""

    message: Message
    piece: int  # from 0, within its message
    tokens: int
    known: bool


def check_window_options(*, window_tokens: int, overlap_messages: int) -> None:
    """Refuse options that no window can be cut with.

    Raises:
        InvalidArgumentError: `window_tokens` is below 64, or `overlap_messages` negative.
    """
    if window_tokens < MIN_WINDOW_TOKENS:
        raise InvalidArgumentError(
            f"window_tokens must be at least {MIN_WINDOW_TOKENS}, got {window_tokens!r}."
        )
    if overlap_messages < 0:
        raise InvalidArgumentError(f"overlap_messages must be 0 or more, got {overlap_messages!r}.")


def conversation_windows(
    messages: Sequence[Message],
    *,
    window_tokens: int = 2000,
    overlap_messages: int = 2,
    known: Container[str] = frozenset(),
) -> list[Window]:
    """Cut one conversation into windows.

    A turn is split only where it alone is longer than a window. A window never reaches across
    messages that are already known, so that one taken up again has the extent that it had.
    Background is the nearest preceding turns, each whole, up to a quarter of the budget.

    Args:
        messages: In the order of the conversation, with unique ids; those that are background
            already stay so.
        window_tokens: Budget of a window with its background, in tokens as
            `memorypipe.llm.tokens.estimate_tokens` counts, plus 16 for each turn.
        overlap_messages: At most this many preceding turns as background.
        known: Ids of messages that are already paid for.

    Returns:
        Windows in order; every message that is neither known nor background is in them as a new
        one, none where there is no such message.

    Raises:
        InvalidArgumentError: As `check_window_options`.
    """
    check_window_options(window_tokens=window_tokens, overlap_messages=overlap_messages)
    turns = [
        turn
        for message in messages
        for turn in _turns(
            message, window_tokens, known=bool(message["background"]) or message["id"] in known
        )
    ]
    return [
        _window(turns[first:start], turns[start:stop])
        for first, start, stop in _extents(turns, window_tokens, overlap_messages)
    ]


def _turns(message: Message, window_tokens: int, *, known: bool) -> Iterator[_Turn]:
    tokens = TURN_TOKENS + estimate_tokens(message["content"])
    if tokens <= window_tokens:
        yield _Turn(message, 0, tokens, known)
        return
    pieces = split_text(message["content"], max_tokens=window_tokens - TURN_TOKENS)
    for number, content in enumerate(pieces):
        piece: Message = {**message, "content": content}
        yield _Turn(piece, number, TURN_TOKENS + estimate_tokens(content), known)


def _extents(
    turns: Sequence[_Turn], window_tokens: int, overlap_messages: int
) -> Iterator[tuple[int, int, int]]:
    """Yield where background, new turns and the rest begin, for each window."""
    start = 0
    while start < len(turns):
        if turns[start].known:
            start += 1
            continue
        first = _background_start(turns, start, window_tokens, overlap_messages)
        stop, used = start, sum(turn.tokens for turn in turns[first:start])
        while stop < len(turns) and not turns[stop].known:
            used += turns[stop].tokens
            if used > window_tokens:
                break
            stop += 1
        yield first, start, stop
        start = stop


def _background_start(
    turns: Sequence[_Turn], start: int, window_tokens: int, overlap_messages: int
) -> int:
    # The first new turn always fits: a window without one would never end.
    room = min(int(window_tokens * _BACKGROUND_SHARE), window_tokens - turns[start].tokens)
    first = start
    while first > max(0, start - overlap_messages):
        room -= turns[first - 1].tokens
        if room < 0:
            break
        first -= 1
    return first


def _window(background: Sequence[_Turn], new: Sequence[_Turn]) -> Window:
    marked = [*((turn, True) for turn in background), *((turn, False) for turn in new)]
    # The piece number tells equal pieces of one long turn apart.
    said = [(turn.message["id"], turn.message["content"], turn.piece) for turn in new]
    return Window(
        messages=tuple({**turn.message, "background": flag} for turn, flag in marked),
        content_key=digest("window", said).hex(),
    )


def new_message_ids(window: Mapping[str, Any]) -> list[str]:
    """List the ids of the messages that a window pays for, in order.

    A turn that was split stands in several windows: it is dealt with when all of them are.

    Args:
        window: A row of `memorypipe.schema.WINDOWS`.

    Example:
        >>> new_message_ids({"messages": [{"id": "a", "background": True},
        ...                               {"id": "b", "background": False}]})
        ['b']
    """
    return list(dict.fromkeys(m["id"] for m in window["messages"] if not m["background"]))


def windows_batch(
    conversations: pa.Table,
    *,
    window_tokens: int = 2000,
    overlap_messages: int = 2,
    known_keys: KeyArray | None = None,
) -> pa.Table:
    """Cut a batch of conversations into windows.

    Args:
        conversations: With the columns of `memorypipe.schema.CONVERSATIONS`; others are dropped.
        window_tokens: As `conversation_windows`.
        overlap_messages: As `conversation_windows`.
        known_keys: Ledger keys of the messages that are already paid for, as from
            `memorypipe.logs.known.pack_keys`; None: all messages are new.

    Returns:
        One row per window, as `memorypipe.schema.WINDOWS`, in the order of the conversations.
        `window_index` counts from 0 within a conversation. `event_time` is the newest timestamp
        of the new messages, else that of the conversation. `context` has a line per pair of the
        scope and, where the event time is known, a line ``Date: YYYY-MM-DD`` (UTC).

    Raises:
        InvalidArgumentError: As `check_window_options`.
    """
    check_window_options(window_tokens=window_tokens, overlap_messages=overlap_messages)
    rows = conversations.select(CONVERSATIONS.names).to_pylist()
    windows = [
        _row(conversation, index, window)
        for conversation, known in zip(rows, _known_ids(rows, known_keys), strict=True)
        for index, window in enumerate(
            conversation_windows(
                conversation["messages"],
                window_tokens=window_tokens,
                overlap_messages=overlap_messages,
                known=known,
            )
        )
    ]
    return pa.Table.from_pylist(windows, schema=WINDOWS)


def _known_ids(rows: Sequence[Mapping[str, Any]], known_keys: KeyArray | None) -> list[set[str]]:
    known: list[set[str]] = [set() for _ in rows]
    if known_keys is None or not len(known_keys):
        return known
    places = [(at, message["id"]) for at, row in enumerate(rows) for message in row["messages"]]
    keys = [
        ledger_key(rows[at]["scope_key"], rows[at]["conversation_id"], identity)
        for at, identity in places
    ]
    for (at, identity), is_known in zip(places, contains(known_keys, keys), strict=True):
        if is_known:
            known[at].add(identity)
    return known


def _row(conversation: Mapping[str, Any], index: int, window: Window) -> dict[str, Any]:
    times = [m["timestamp"] for m in window.messages if m["timestamp"] and not m["background"]]
    event_time = max(times, default=conversation["event_time"])
    place = (conversation["scope_key"], conversation["conversation_id"])
    return {
        "scope": conversation["scope"],
        "scope_key": conversation["scope_key"],
        "conversation_id": conversation["conversation_id"],
        "window_id": "win_" + digest(*place, window.content_key).hex(),
        "window_index": index,
        "messages": window.messages,
        "context": _context(dict(conversation["scope"]), event_time),
        "event_time": event_time,
    }


def _context(scope: Mapping[str, str], event_time: datetime | None) -> str | None:
    lines = [f"{_label(key)}: {' '.join(value.split())}" for key, value in sorted(scope.items())]
    if event_time is not None:
        lines.append(f"Date: {event_time.date().isoformat()}")
    return "\n".join(lines) or None


def _label(scope_name: str) -> str:
    label = " ".join(scope_name.removesuffix("_id").replace("_", " ").split()).capitalize()
    # A pair named `date` must not pass for the day that relative dates are resolved against.
    return "Scope date" if label == "Date" else label or scope_name
