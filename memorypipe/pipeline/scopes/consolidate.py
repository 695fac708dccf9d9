"""Consolidation of one scope: its windows in time order, each seeing what those before it left.

Pure but for the calls that `decide` makes; what they say decides, nothing else does.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from memorypipe.cells.actions import fallback_actions
from memorypipe.expressions.build_action import DecideWork, resolved_actions
from memorypipe.id_key import NO_ID_KEY
from memorypipe.llm.replies.reply import ReadActions
from memorypipe.llm.stage import Outcome
from memorypipe.llm.types import Fact
from memorypipe.pipeline.scopes.carrying import OVERLAP
from memorypipe.pipeline.scopes.decided import Decided, PipelineFact
from memorypipe.pipeline.scopes.retold import RETOLD
from memorypipe.pipeline.scopes.settings import ConsolidationSettings
from memorypipe.pipeline.scopes.state import ScopeState, Stops
from memorypipe.pipeline.scopes.text_vectors import TextVectors
from memorypipe.rank.memory import Memory
from memorypipe.rank.words import tokens

__all__ = ["Decide", "NextWindow", "ScopeResult", "WindowFacts", "consolidate_scope"]

Decide = Callable[[DecideWork], Awaitable[Outcome[ReadActions]]]
FallbackAction = Literal["ADD", "NONE"]

# Facts of one call that share this part of the words of the shorter one are about one thing.
_RELATED_SHARE = 0.5

_RETOLD = "left out: the table has had it from the same message"
_OVERLAP = "left out: all that it rests on was dealt with before, and stands here as background"
_ORDERS = "left out: it gives the memory system orders, or rests on text that does"


@dataclass(frozen=True, kw_only=True)
class WindowFacts:
    """One window after extraction.

    Attributes:
        window_id: The window's id.
        facts: What was extracted.
        error: Why the window stays open whatever is decided: its extraction failed, or it was cut
            and more was said than `facts` holds. None where it was read whole.
    """

    window_id: str
    facts: Sequence[PipelineFact]
    error: str | None = None


NextWindow = Callable[[], Awaitable[WindowFacts | None]]
"""Waits for the next window of a scope, in time order; gives None after the last one."""


@dataclass(frozen=True, kw_only=True)
class ScopeResult:
    """What came of one scope.

    Attributes:
        actions: In the order in which they hold.
        open_windows: Window id → why the next run has to take it up again.
        outcomes: One per decision call, for the accounts.
        fallback: Facts that became the fallback action.
    """

    actions: Sequence[Decided]
    open_windows: Mapping[str, str]
    outcomes: Sequence[Outcome[Any]]
    fallback: int


async def consolidate_scope(  # noqa: PLR0913  # what is given, and how to decide
    scope_key: str,
    windows: Sequence[WindowFacts] | NextWindow,
    memories: Sequence[Memory],
    *,
    decide: Decide,
    settings: ConsolidationSettings,
    fallback_action: FallbackAction = "ADD",
    stops: Stops | None = None,
    vectors: TextVectors | None = None,
    id_key: bytes = NO_ID_KEY,
) -> ScopeResult:
    """Decide all facts of one scope.

    A decision that failed ends the scope for this run: its window and all later ones stay open,
    and nothing of them is in the result.

    What is asked and what comes out do not depend on when windows come: a call waits until it has
    all the facts that it can take.

    Args:
        scope_key: The scope.
        windows: Its windows in time order, all or as they come; `PipelineFact.window` counts along.
        memories: Its live memories, oldest first.
        decide: Makes one decision call.
        settings: How facts are grouped and memories are looked up.
        fallback_action: What a fact without a valid decision becomes, where
            `settings.commit_fallback` says so.
        stops: As for `ScopeState`.
        vectors: Makes what a lookup by vectors needs; None: the lookup uses none.
        id_key: Of the table: what new ids are made with.
    """
    vectors = vectors or TextVectors(None)
    start_state = partial(
        ScopeState, scope_key, memories, vectors.by_text, id_key=id_key, stops=stops
    )
    run = _ScopeRun(
        state=start_state(),
        vectors=vectors,
        next_window=windows if callable(windows) else _one_by_one(windows),
        decide=decide,
        settings=settings,
        fallback_action=fallback_action,
    )
    await run.decide_all()
    return _close(run, start_state)


def _one_by_one(windows: Sequence[WindowFacts]) -> NextWindow:
    left = iter(windows)

    async def next_window() -> WindowFacts | None:
        return next(left, None)

    return next_window


def _next_call(
    left: deque[PipelineFact], most: int
) -> tuple[list[PipelineFact], list[PipelineFact]]:
    """Take the facts of the next call from those that are left: the first, and what may go along.

    All of one call see the same memories. Facts of one window that ask for different metadata
    change nothing for one another: those that ask for other metadata than the first are passed
    over, so that conversations that go on at the same time need not be decided a fact at a time.

    Returns:
        The facts of the call, and those passed over, which come before all that is left.
    """
    taken: list[PipelineFact] = [left.popleft()]
    passed_over: list[PipelineFact] = []
    first = taken[0]
    while left and len(taken) < most:
        fact = left[0]
        is_same_window = fact.window == first.window
        if fact.carry.match == first.carry.match:
            # Of a window that is passed over in part no later one may be decided before it.
            if passed_over and not is_same_window:
                break
            taken.append(left.popleft())
        elif (
            is_same_window
            and taken[-1].window == first.window
            and None not in (fact.carry.match, first.carry.match)
        ):
            passed_over.append(left.popleft())
        else:
            break
    return taken, passed_over


class _ScopeRun:
    """Carries the state of a scope from call to call."""

    def __init__(  # noqa: PLR0913  # as of `consolidate_scope`
        self,
        *,
        state: ScopeState,
        vectors: TextVectors,
        next_window: NextWindow,
        decide: Decide,
        settings: ConsolidationSettings,
        fallback_action: FallbackAction,
    ) -> None:
        self._state = state
        self._vectors = vectors
        self._next_window: NextWindow | None = next_window  # None after the last one
        self._decide = decide
        self._settings = settings
        self._fallback_action = fallback_action
        # Facts to decide, and the place of each in the scope, by its identity.
        self._left: deque[PipelineFact] = deque()
        self._place: dict[int, int] = {}
        self.windows: list[WindowFacts] = []
        self.actions: list[Decided] = []
        self.outcomes: list[Outcome[Any]] = []
        self.failed: dict[int, str] = {}
        self.fallback = 0

    async def decide_all(self) -> None:
        """Decide facts, so many in a call as go together; those that one call can't settle first.

        They go into the next call, together with what comes then: a call of their own would cost
        as much, and keep the scope waiting.
        """
        while await self._has_facts():
            pending, passed_over = _next_call(self._left, self._settings.facts_per_call)
            lookup = self._settings.lookup
            await self._vectors.need(self._state.unembedded(pending, lookup))
            existing = self._state.lookup(pending, lookup)
            work = DecideWork(facts=[_shown(fact) for fact in pending], existing=existing)
            outcome = await self._decide(work)
            self.outcomes.append(outcome)
            decided, again, problems = self._judge(pending, work, outcome)
            for n, why in problems.items():
                self.failed.setdefault(pending[n].window, why)
            # From the first failure on nothing counts; what stands before it is decided to its end.
            end = min(self.failed, default=len(self.windows))
            again += self._take([d for d in decided if d.fact.window < end])
            first = sorted([*passed_over, *again], key=lambda fact: self._place[id(fact)])
            self._left.extendleft(reversed(first))
            if self.failed:
                self._left = deque(fact for fact in self._left if fact.window < end)
        while await self._take_window():
            pass

    async def _has_facts(self) -> bool:
        """Wait until there is all that the next call can take; tell whether there is anything."""
        while len(self._left) < self._settings.facts_per_call and not self.failed:
            if not await self._take_window():
                break
        return bool(self._left)

    async def _take_window(self) -> bool:
        """Wait for the next window, and take in what of it is to be decided."""
        window = None if self._next_window is None else await self._next_window()
        if window is None:
            self._next_window = None
            return False
        self.windows.append(window)
        if not self.failed:
            facts = self._leave_out(window.facts)
            for fact in facts:
                self._place[id(fact)] = len(self._place)
            self._left.extend(facts)
        return True

    def _leave_out(self, facts: Sequence[PipelineFact]) -> list[PipelineFact]:
        """Give the facts to decide: no model is asked about the others, but all are accounted for.

        Left out is what the commit will not take anyway, and what gives the memory system orders
        or rests on text that does.
        """
        left: list[PipelineFact] = []
        for fact in facts:
            forgotten = _undecided(fact, "ADD", "it was forgotten")
            if "instruction" in fact.flags:
                self.actions.append(_undecided(fact, "NONE", _ORDERS))
            elif OVERLAP in fact.flags:
                self.actions.append(_undecided(fact, "NONE", _OVERLAP))
            elif RETOLD in fact.flags:
                self.actions.append(_undecided(fact, "NONE", _RETOLD))
            elif self._state.stops(forgotten):
                self.actions.append(self._state.settle(forgotten))
            else:
                left.append(fact)
        return left

    def _judge(
        self,
        facts: Sequence[PipelineFact],
        work: DecideWork,
        outcome: Outcome[ReadActions],
    ) -> tuple[list[Decided], list[PipelineFact], Mapping[int, str]]:
        """Give the decisions, the facts to decide again, and the facts without a decision."""
        if outcome.value is None:
            reason = outcome.error or outcome.status
            if not self._settings.commit_fallback:
                return [], [], dict.fromkeys(range(len(facts)), f"decision failed: {reason}")
            actions = fallback_actions(
                work.facts, fallback_action=self._fallback_action, reason=f"fallback: {reason}"
            )
            conflicts: frozenset[int] = frozenset()
            doubtful: frozenset[int] = frozenset()
            covered: Mapping[int, str] = {}
            problems: Mapping[int, str] = {}
            self.fallback += len(facts)
        else:
            resolved = resolved_actions(work, outcome.value, fallback_action=self._fallback_action)
            actions, conflicts = resolved.actions, frozenset(resolved.conflicts)
            doubtful, covered = frozenset(resolved.doubtful), resolved.covered
            problems = {} if self._settings.commit_fallback else resolved.problems
            self.fallback += len(resolved.problems) - len(problems)
        decided = [
            Decided(
                fact=fact,
                # Whether a memory holds the fact itself is known when it is settled.
                event="ADD" if n in doubtful else action.event,
                memory_id=action.target_id,
                text=action.text,
                old_memory=action.old_memory,
                rationale=action.rationale,
                rests_on=self._state.find(covered.get(n)),
            )
            for n, (fact, action) in enumerate(zip(facts, actions, strict=True))
            if n not in conflicts and n not in problems
        ]
        return decided, [facts[n] for n in sorted(conflicts)], problems

    def _take(self, decided: Sequence[Decided]) -> list[PipelineFact]:
        """Accept decisions in order; give back the facts that have to be decided again.

        Two new memories of one call that are about the same thing could not see each other: the
        later one is decided again, against the first.
        """
        added: list[str] = []
        again: list[PipelineFact] = []
        for decision in decided:
            settled = self._state.settle(decision)
            if settled.event == "ADD":
                if any(_related(text, settled.text) for text in added):
                    again.append(settled.fact)
                    continue
                added.append(settled.text)
            self._state.accept(settled)
            self.actions.append(settled)
        return again


def _undecided(fact: PipelineFact, event: str, why: str) -> Decided:
    return Decided(
        fact=fact, event=event, memory_id=None, text=fact.text, old_memory=None, rationale=why
    )


def _shown(fact: PipelineFact) -> Fact:
    said = fact.event_time.isoformat() if fact.event_time else None
    return Fact(text=fact.text, context=fact.context, event_time=said)


def _related(a: str, b: str) -> bool:
    """Whether two texts share enough words to be about one thing."""
    words_a, words_b = set(tokens(a)), set(tokens(b))
    shorter = min(len(words_a), len(words_b))
    return shorter > 0 and len(words_a & words_b) >= _RELATED_SHARE * shorter


def _close(run: _ScopeRun, start_state: Callable[[], ScopeState]) -> ScopeResult:
    """Keep the windows before the first failed decision, as far as they stand without the rest."""
    windows = run.windows
    end = min(run.failed, default=len(windows))
    kept = [action for action in run.actions if action.fact.window < end]
    while (broken := _first_broken(start_state(), kept)) is not None:
        end = broken
        kept = [action for action in kept if action.fact.window < end]
    open_windows = {
        window.window_id: window.error for window in windows[:end] if window.error is not None
    }
    for place, window in enumerate(windows[end:], start=end):
        reason = "an earlier window of the scope has no decision yet"
        open_windows[window.window_id] = window.error or run.failed.get(place, reason)
    return ScopeResult(
        actions=kept, open_windows=open_windows, outcomes=run.outcomes, fallback=run.fallback
    )


def _first_broken(state: ScopeState, actions: Sequence[Decided]) -> int | None:
    """Give the earliest window of which an action rests on one that was not kept."""
    broken: list[int] = []
    for action in actions:
        if state.holds(action):
            state.accept(action)
        else:
            broken.append(action.fact.window)
    return min(broken, default=None)
