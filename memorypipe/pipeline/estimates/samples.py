"""Windows to rehearse decisions with: real facts where there are some, else stand-ins. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from memorypipe.ids import digest
from memorypipe.llm.tokens import estimate_tokens
from memorypipe.pipeline.deciding import window_facts
from memorypipe.pipeline.scope_feed import in_time
from memorypipe.pipeline.scopes.consolidate import WindowFacts
from memorypipe.pipeline.scopes.decided import PipelineFact
from memorypipe.pipeline.stretches import in_stretches, in_turn
from memorypipe.rank.memory import Memory

__all__ = ["arrange", "real_windows", "staged", "stand_in_windows"]

Rows = Sequence[Mapping[str, Any]]

_SENTENCE = re.compile(r"[^.!?\n。！？]+")  # noqa: RUF001  # marks of Chinese text
_FACT_WORDS = 14
_FACT_CHARS = 90
_MOST_MEMORIES = 60


def real_windows(rows: Rows) -> list[list[WindowFacts]]:
    """Read rows of schema `memorypipe.schema.FACTS`, scope by scope and in time."""
    return [
        in_turn(in_stretches([window_facts(place, row) for place, row in enumerate(scope)]))
        for scope in _scopes(rows)
    ]


def stand_in_windows(rows: Rows, facts_per_1000_tokens: float) -> list[list[WindowFacts]]:
    """Make up the facts of windows: sentences of their users, as many as are expected.

    Args:
        rows: Of schema `memorypipe.schema.WINDOWS`.
        facts_per_1000_tokens: Facts that 1,000 estimated tokens of new messages give.

    Returns:
        Windows scope by scope and in time.
    """
    rate = facts_per_1000_tokens
    return [
        in_turn(in_stretches([_stand_in(n, row, rate) for n, row in enumerate(scope)]))
        for scope in _scopes(rows)
    ]


def _scopes(rows: Rows) -> Iterator[list[Mapping[str, Any]]]:
    ordered = sorted(rows, key=lambda row: (row["scope_key"], in_time(row)))
    for _, scope in groupby(ordered, key=lambda row: row["scope_key"]):
        yield list(scope)


def _stand_in(place: int, row: Mapping[str, Any], rate: float) -> WindowFacts:
    new = [m for m in row["messages"] if not m["background"]]
    expected = rate * sum(estimate_tokens(m["content"]) for m in new) / 1e3
    dice = int.from_bytes(digest("count", row["window_id"], size=8)) / 2**64
    said = [
        (" ".join(sentence.split()[:_FACT_WORDS])[:_FACT_CHARS], message)
        for message in new
        if message["role"] != "assistant"
        for sentence in _SENTENCE.findall(message["content"])
        if sentence.strip()
    ]
    # The longest say most; in the order in which they were said.
    count = min(int(expected + dice), len(said))
    longest = sorted(range(len(said)), key=lambda n: -len(said[n][0]))[:count]
    facts = [_fact(place, row, *said[n]) for n in sorted(longest)]
    return WindowFacts(window_id=row["window_id"], facts=facts)


def _fact(
    place: int, row: Mapping[str, Any], text: str, message: Mapping[str, Any]
) -> PipelineFact:
    return PipelineFact(
        text=text,
        window=place,
        window_id=row["window_id"],
        conversation_id=row["conversation_id"],
        event_time=message["timestamp"] or row["event_time"],
    )


def arrange(
    scopes: Iterable[Sequence[WindowFacts]],
    facts_per_scope: "np.ndarray[Any, Any]",
    *,
    least_facts: int,
) -> Iterator[list[WindowFacts]]:
    """Put sampled windows together to scopes that have calls as full as those of the run.

    Facts of one scope are about related things, so scopes are mixed only where the sample has too
    little of one.

    Args:
        scopes: Sampled windows, scope by scope.
        facts_per_scope: Facts that are expected of the scopes of the run.
        least_facts: Of a scope, where those of the run have as many.
    """
    if not len(facts_per_scope):
        return
    enough = min(float(least_facts), float(np.median(facts_per_scope)))
    pending: list[WindowFacts] = []
    for scope in scopes:
        pending += scope
        if sum(len(window.facts) for window in pending) >= enough:
            yield _in_order(pending)
            pending = []
    if any(window.facts for window in pending):
        yield _in_order(pending)


def staged(
    scopes: Iterable[Sequence[WindowFacts]],
) -> Iterator[tuple[Sequence[WindowFacts], list[Memory]]]:
    """Give scopes with memories that they find: what these add to a prompt has to show.

    Every second one finds the facts of the one before, and the last one is given again so that
    there is a second one.

    Args:
        scopes: As from `arrange`.
    """
    before: list[Memory] = []
    last: Sequence[WindowFacts] = ()
    for turn, scope in enumerate(scopes):
        yield scope, before if turn % 2 else []
        before, last = _memories(scope), scope
    if last:
        yield last, before


def _memories(scope: Sequence[WindowFacts]) -> list[Memory]:
    facts = [fact for window in scope for fact in window.facts][:_MOST_MEMORIES]
    # No fact may say the very same: it would add nothing.
    return [
        Memory(id=f"m{n}", text=f"{fact.text} {n}", event_time=fact.event_time)
        for n, fact in enumerate(facts)
    ]


def _in_order(windows: Sequence[WindowFacts]) -> list[WindowFacts]:
    """Number windows, and their facts with them, by their places in one scope."""
    return [
        replace(window, facts=[replace(fact, window=place) for fact in window.facts])
        for place, window in enumerate(windows)
    ]
