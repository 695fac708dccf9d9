"""The facts of a scope in the order in which they were said, whichever window they stand in. Pure.

Windows of conversations that go on at the same time say things in turn. Decided one window after
the other, an older statement would come after a newer one, and what comes out would depend on
where windows were cut: nightly runs cut them elsewhere than one run over the whole log. So
windows that overlap in time are one stretch, whose facts are decided in their order of time. A
stretch stays open as a whole where one of its decisions fails, since the facts that come after it
are in all of its windows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise

from memorypipe.pipeline.scopes.consolidate import ScopeResult, WindowFacts
from memorypipe.pipeline.scopes.decided import PipelineFact

__all__ = ["Stretch", "by_window", "in_stretches", "in_turn"]

# Nothing was said before what nothing dates.
_UNDATED = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Windows of one scope, of which each begins before one before it ends.

    Attributes:
        windows: In time order.
    """

    windows: Sequence[WindowFacts]


def in_stretches(windows: Sequence[WindowFacts]) -> list[Stretch]:
    """Put windows together that overlap in time.

    Args:
        windows: Of one scope, by the time of their newest messages.

    Returns:
        The stretches, in time order: no fact of one is older than any of the one before it.
    """
    # Where each begins, and when the last fact was said of it and of those before it.
    begun: list[tuple[int, datetime]] = []
    for place, window in enumerate(windows):
        times = [_said_at(fact) for fact in window.facts]
        start, end = place, max([begun[-1][1] if begun else _UNDATED, *times])
        while begun and times and min(times) < begun[-1][1]:
            start, _ = begun.pop()
        begun.append((start, end))
    bounds = pairwise([*(start for start, _ in begun), len(windows)])
    return [Stretch(windows=windows[start:end]) for start, end in bounds]


def in_turn(stretches: Sequence[Stretch]) -> list[WindowFacts]:
    """Give the stretches of a scope as windows of it: their facts in the order of deciding."""
    return [_as_window(place, stretch) for place, stretch in enumerate(stretches)]


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


def _as_window(place: int, stretch: Stretch) -> WindowFacts:
    facts = [replace(fact, window=place) for window in stretch.windows for fact in window.facts]
    return WindowFacts(window_id=_name(stretch), facts=sorted(facts, key=_said_at))


def _name(stretch: Stretch) -> str:
    return stretch.windows[0].window_id


def _said_at(fact: PipelineFact) -> datetime:
    return fact.event_time or _UNDATED
