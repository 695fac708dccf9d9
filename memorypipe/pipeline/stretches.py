"""The facts of a scope in the order in which they were said, whichever window they stand in. Pure.

Windows of conversations that go on at the same time say things in turn. Decided one window after
the other, an older statement would come after a newer one, and what comes out would depend on
where windows were cut: nightly runs cut them elsewhere than one run over the whole log. So
windows that overlap in time are one stretch, whose facts are decided in their order of time. A
stretch stays open as a whole where one of its decisions fails, since the facts that come after it
are in all of its windows.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from memorypipe.pipeline.scopes.consolidate import ScopeResult, WindowFacts
from memorypipe.pipeline.scopes.decided import PipelineFact

__all__ = ["EARLIEST", "Stretch", "Stretches", "as_window", "by_window", "in_stretches", "in_turn"]

EARLIEST = datetime.min.replace(tzinfo=UTC)
"""Nothing was said before this; what nothing dates counts as said then."""

_LATEST = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Windows of one scope, of which each begins before one before it ends.

    Attributes:
        windows: In time order.
    """

    windows: Sequence[WindowFacts]


class Stretches:
    """Puts windows together as they come, in the order of time of their newest messages."""

    def __init__(self) -> None:
        self._windows: deque[WindowFacts] = deque()
        # How many of them each stretch has, and when the last fact of it or before it was said.
        self._begun: deque[tuple[int, datetime]] = deque()
        self._end = EARLIEST

    def add(self, window: WindowFacts) -> None:
        """Take the next window in."""
        self._windows.append(window)
        size, times = 1, [_said_at(fact) for fact in window.facts]
        while self._begun and times and min(times) < self._begun[-1][1]:
            size += self._begun.pop()[0]
        self._end = max([self._end, *times])
        self._begun.append((size, self._end))

    def settled(self, not_before: datetime) -> Iterator[Stretch]:
        """Give the stretches that no later window can join, and forget them.

        Args:
            not_before: No fact of a later window was said before that.
        """
        while self._begun and self._begun[0][1] <= not_before:
            size, _ = self._begun.popleft()
            yield Stretch(windows=[self._windows.popleft() for _ in range(size)])


def in_stretches(windows: Sequence[WindowFacts]) -> list[Stretch]:
    """Put windows together that overlap in time.

    Args:
        windows: Of one scope, by the time of their newest messages.

    Returns:
        The stretches, in time order: no fact of one is older than any of the one before it.
    """
    stretches = Stretches()
    for window in windows:
        stretches.add(window)
    return list(stretches.settled(_LATEST))


def in_turn(stretches: Sequence[Stretch]) -> list[WindowFacts]:
    """Give the stretches of a scope as windows of it: their facts in the order of deciding."""
    return [as_window(place, stretch) for place, stretch in enumerate(stretches)]


def by_window(result: ScopeResult, stretches: Sequence[Stretch]) -> ScopeResult:
    """Say of windows what a result says of stretches.

    Args:
        result: Of the stretches.
        stretches: All of the scope.

    Returns:
        The same, with each window that has to be taken up again: all those of a stretch that is
        open, and those that were not read whole.
    """
    opened: dict[str, str] = {}
    for stretch in stretches:
        why = result.open_windows.get(_name(stretch))
        for window in stretch.windows:
            if reason := window.error or why:
                opened[window.window_id] = reason
    return replace(result, open_windows=opened)


def as_window(place: int, stretch: Stretch) -> WindowFacts:
    """Give a stretch as a window: its facts in the order of deciding."""
    facts = [replace(fact, window=place) for window in stretch.windows for fact in window.facts]
    return WindowFacts(window_id=_name(stretch), facts=sorted(facts, key=_said_at))


def _name(stretch: Stretch) -> str:
    return stretch.windows[0].window_id


def _said_at(fact: PipelineFact) -> datetime:
    return fact.event_time or EARLIEST
