"""The windows of a scope, handed over as they are extracted and taken in the order of deciding."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.pipeline.scopes.consolidate import ScopeResult, WindowFacts
from memorypipe.pipeline.stretches import EARLIEST, Stretch, Stretches, as_window, by_window

__all__ = ["OUTLINE", "ScopeFeed", "earliest_times", "in_time"]

_LATEST = datetime.max.replace(tzinfo=UTC)

OUTLINE = ("scope", "scope_key", "conversation_id", "window_id", "window_index", "event_time")
"""What of a window is known before it is extracted, apart from its messages."""


class ScopeFeed:
    """The windows of one scope; put in by one thread in any order, taken on a loop in theirs.

    Args:
        rows: What is known of all of them; rows with the columns `OUTLINE`, in any order.
        earliest: Window id to the time before which no fact of it was said. None: nothing is
            known, and nothing is decided before all windows are there.

    Attributes:
        rows: In order of time.
        key: Of the scope.
    """

    def __init__(
        self, rows: Sequence[Mapping[str, Any]], earliest: Mapping[str, datetime] | None = None
    ) -> None:
        self.rows = sorted(rows, key=in_time)
        self.key: str = self.rows[0]["scope_key"]
        bounds = [(earliest or {}).get(row["window_id"], EARLIEST) for row in self.rows]
        # By place, the time before which no later window has anything.
        self._not_before = [_LATEST] * len(bounds)
        for place in range(len(bounds) - 1, 0, -1):
            self._not_before[place - 1] = min(self._not_before[place], bounds[place])
        # What came and was not taken yet, by window id; who waits for one has a future for it.
        self._there: dict[str, WindowFacts] = {}
        self._awaited: dict[str, Future[WindowFacts]] = {}
        self._is_over = False
        self._turn = threading.Lock()
        self._place = 0
        self._open = Stretches()
        self._ready: list[Stretch] = []
        self._given: list[Stretch] = []

    def put(self, window: WindowFacts) -> None:
        """Hand a window over; once."""
        with self._turn:
            awaited = self._awaited.pop(window.window_id, None)
            if awaited is None:
                self._there[window.window_id] = window
        if awaited is not None:
            with suppress(InvalidStateError):  # who waited for it was cancelled
                awaited.set_result(window)

    def give_up(self) -> None:
        """Say that no more will come; whoever waits is cancelled."""
        with self._turn:
            self._is_over = True
            awaited = list(self._awaited.values())
        for each in awaited:
            each.cancel()

    async def next_window(self) -> WindowFacts | None:
        """Wait for the next stretch, as a window; None after the last one."""
        while not self._ready and self._place < len(self.rows):
            self._open.add(await self._window(self.rows[self._place]["window_id"]))
            self._ready = list(self._open.settled(self._not_before[self._place]))[::-1]
            self._place += 1
        if not self._ready:
            return None
        self._given.append(self._ready.pop())
        return as_window(len(self._given) - 1, self._given[-1])

    async def _window(self, window_id: str) -> WindowFacts:
        with self._turn:
            if (window := self._there.pop(window_id, None)) is not None:
                return window
            if self._is_over:
                raise asyncio.CancelledError
            awaited = self._awaited[window_id] = Future()
        return await asyncio.wrap_future(awaited)

    def by_window(self, result: ScopeResult) -> ScopeResult:
        """Say of windows what a result says of stretches, once all were taken."""
        return by_window(result, self._given)


def in_time(row: Mapping[str, Any]) -> tuple[datetime, str, int]:
    """Give the place of a window in its scope's time order, as a sorting key."""
    # A scope is never older than what nothing dates.
    return (row["event_time"] or EARLIEST, row["conversation_id"], row["window_index"])


def earliest_times(windows: pa.Table) -> dict[str, datetime]:
    """Tell of windows when the first of what is new in them was said.

    Args:
        windows: With the columns `window_id`, `messages` and `event_time` of
            `memorypipe.schema.WINDOWS`.

    Returns:
        By window id; `EARLIEST` for a window that nothing dates.
    """
    messages = windows["messages"].combine_chunks()
    said = pc.list_flatten(messages)
    new = pa.table(
        {
            "window": pc.list_parent_indices(messages),
            "time": pc.struct_field(said, "timestamp"),
        }
    ).filter(pc.invert(pc.struct_field(said, "background")))
    first = new.group_by("window").aggregate([("time", "min")]).to_pydict()
    times = dict(zip(first["window"], first["time_min"], strict=True))
    return {
        window_id: min([at for at in (times.get(place), event_time) if at], default=EARLIEST)
        for place, (window_id, event_time) in enumerate(
            zip(windows["window_id"].to_pylist(), windows["event_time"].to_pylist(), strict=True)
        )
    }
