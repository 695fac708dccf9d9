"""Rehearsing decisions: the consolidation as it really runs, with a stand-in for the model.

The rehearsal groups facts, looks memories up, renders requests and decides related facts again,
all by the code of the run. The stand-in says ADD for a share of the facts and NONE for the others.
"""

import math
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import orjson

from memorypipe.expressions.build_action import DecideWork, MemoryBuildAction
from memorypipe.ids import digest
from memorypipe.llm.embed.types import Embedder
from memorypipe.llm.replies.reply import ReadActions
from memorypipe.llm.stage import Outcome
from memorypipe.llm.tokens import RequestCounter
from memorypipe.llm.types import Reply
from memorypipe.pipeline.estimates.counting import KnownReplies
from memorypipe.pipeline.scopes.consolidate import WindowFacts, consolidate_scope
from memorypipe.pipeline.scopes.decided import Decided, PipelineFact
from memorypipe.pipeline.scopes.settings import ConsolidationSettings
from memorypipe.pipeline.scopes.text_vectors import TextVectors, settled_settings
from memorypipe.rank.lookup import Lookup
from memorypipe.rank.memory import Memory

__all__ = ["Decisions", "GroupModel", "Rehearsal", "fit_groups"]

T = TypeVar("T")
Column = np.ndarray[tuple[int], np.dtype[np.float64]]

_SHARES = 2**64


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """What the decisions of one scope take.

    Attributes:
        calls: Calls to be paid.
        free: Calls that the journal answers.
        prompt_tokens: Of the calls to be paid.
        decided: Facts in the calls to be paid; a fact that is decided again counts again.
        groups: Per group of facts, of as many as a call takes: memories before it, facts, calls
            whose first fact is in it, their prompt tokens and decided facts.
        cpu_s: CPU time of all that surrounds the calls.
    """

    calls: int
    free: int
    prompt_tokens: int
    decided: int
    groups: Sequence[tuple[int, int, int, int, int]] = ()
    cpu_s: float = 0.0


@dataclass(kw_only=True)
class _Calls:
    """The calls of one scope so far."""

    made: list[tuple[int, int, bool]] = field(default_factory=list)  # prompt, facts, is free
    firsts: list[int] = field(default_factory=list)  # place of the first fact of each call


class Rehearsal:
    """Plays the decisions of scopes.

    Args:
        decide: How decisions are asked.
        settings: How facts are grouped and memories are looked up.
        counter: Counts prompts.
        add_share: Share of the facts that become a memory of their own, from 0 to 1.
        replies: What the journal knows; None asks it nothing.
        embedder: Makes vectors at no cost; without one, a lookup by vectors is rehearsed as one
            by words.
    """

    def __init__(  # noqa: PLR0913  # as documented, each independent
        self,
        decide: MemoryBuildAction,
        settings: ConsolidationSettings,
        counter: RequestCounter,
        *,
        add_share: float,
        replies: KnownReplies | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        self._stage = decide.stage
        if embedder is None and settings.lookup.ranks:
            settings = replace(settings, lookup=replace(settings.lookup, strategy="keyword"))
        self._settings = settled_settings(settings, embedder)
        self._vectors = TextVectors(embedder)
        self._counter = counter
        self._add_share = add_share
        self._replies = replies

    def scope(
        self, scope_key: str, windows: Sequence[WindowFacts], memories: Sequence[Memory]
    ) -> Decisions:
        """Play one scope; arguments as of `consolidate_scope`."""
        facts = [fact for window in windows for fact in window.facts]
        # Each call settles its first fact, so that the first of the next one comes later.
        places = iter(range(len(facts)))
        calls = _Calls()

        async def decide(work: DecideWork) -> Outcome[ReadActions]:
            first = work.facts[0].text
            calls.firsts.append(next(place for place in places if facts[place].text == first))
            return self._answer(work, calls)

        started = time.process_time()
        result = _run(
            consolidate_scope(
                scope_key,
                windows,
                memories,
                decide=decide,
                settings=self._settings,
                vectors=self._vectors,
            )
        )
        cpu_s = time.process_time() - started
        paid = [(prompt, count) for prompt, count, is_free in calls.made if not is_free]
        return Decisions(
            calls=len(paid),
            free=len(calls.made) - len(paid),
            prompt_tokens=sum(prompt for prompt, _ in paid),
            decided=sum(count for _, count in paid),
            groups=_groups(
                facts, self._settings.facts_per_call, calls, result.actions, len(memories)
            ),
            cpu_s=cpu_s,
        )

    def _answer(self, work: DecideWork, calls: _Calls) -> Outcome[ReadActions]:
        request = self._stage.request(work)
        reply = None if self._replies is None else self._replies.reply(self._replies.key(request))
        if reply is not None:
            calls.made.append((0, len(work.facts), True))
        else:
            calls.made.append((self._counter.request(request.messages), len(work.facts), False))
            reply = Reply(content=self._stand_in(work))
        reading = self._stage.read(work, reply)
        return Outcome(value=reading.value, status=reading.status, error=reading.error)

    def _stand_in(self, work: DecideWork) -> str:
        actions = [
            {"fact": n, "event": "ADD", "text": fact.text}
            if _chance(fact.text) < self._add_share
            else {"fact": n, "event": "NONE"}
            for n, fact in enumerate(work.facts)
        ]
        return orjson.dumps({"actions": actions}).decode()


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing, whether or not a loop runs in this thread."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    coroutine.close()
    raise RuntimeError("A rehearsal must not wait.")


def _chance(text: str) -> float:
    """A number from 0 to 1 that only the text decides."""
    return int.from_bytes(digest("chance", text, size=8)) / _SHARES


def _groups(
    facts: Sequence[PipelineFact],
    size: int,
    calls: _Calls,
    actions: Sequence[Decided],
    memories: int,
) -> list[tuple[int, int, int, int, int]]:
    """Sum the calls of each group up; those that the journal answered tell nothing of prompts."""
    if any(is_free for _, _, is_free in calls.made):
        return []
    group_of = {id(fact): place // size for place, fact in enumerate(facts)}
    starts = range(0, len(facts), size)
    added, made, tokens, decided = ([0] * len(starts) for _ in range(4))
    for action in actions:
        added[group_of[id(action.fact)]] += action.event == "ADD"
    for first, (prompt, count, _) in zip(calls.firsts, calls.made, strict=True):
        made[first // size] += 1
        tokens[first // size] += prompt
        decided[first // size] += count
    before = accumulate(added, initial=memories)
    sizes = [min(size, len(facts) - start) for start in starts]
    return list(zip(before, sizes, made, tokens, decided, strict=False))


@dataclass(frozen=True, kw_only=True)
class GroupModel:
    """What the facts of a scope take: calls and decided facts per fact, prompt tokens per call.

    What is decided again goes into the next call, so that calls are full until a scope's facts
    come to their end: what is left by then takes calls of its own. Whether facts are decided
    again depends on the others of their call, not on memories; what a call shows grows with the
    memories that there are, up to the most that are shown.

    Attributes:
        calls: Calls beyond as few as the decided facts fit in: at the end of a scope, and per fact.
        decided: Facts in the calls: more or fewer at the end of a scope, and per fact.
        prompt_tokens: Per call, per memory that it may show, per fact in it.
        facts_per_call: Facts of a whole group.
        most_memories: Memories that a decision sees at most.
        added_share: Memories that a fact adds.
        cpu_s: CPU time per call.
    """

    calls: tuple[float, float]
    decided: tuple[float, float]
    prompt_tokens: tuple[float, float, float]
    facts_per_call: int
    most_memories: float
    added_share: float
    cpu_s: float

    def scopes(self, facts: Column, memories: Column) -> dict[str, Column]:
        """Predict scopes.

        Args:
            facts: Expected facts of each.
            memories: Memories that each has before the run.

        Returns:
            `calls`, `prompt_tokens` and `decided` of each.
        """
        size = self.facts_per_call
        # A few facts are none or some; of many, the last group is half full on average.
        some = -np.expm1(-facts)
        groups = np.where(facts <= size, some, facts / size + 0.5 * (1 - 1 / size))
        # The fewer facts there are, the less is left at their end.
        end = np.minimum(facts / size, 1.0)
        decided = np.maximum(self.decided[0] * end + self.decided[1] * facts, facts)
        fewest = np.maximum(decided / size, some)
        calls = fewest + np.maximum(self.calls[0] * end + self.calls[1] * facts, 0.0)
        shown = np.divide(
            calls * self._memories_seen(groups, memories), groups, where=groups > 0, out=0 * groups
        )
        per_call, per_memory, per_fact = self.prompt_tokens
        prompt_tokens = per_call * calls + per_memory * shown + per_fact * decided
        return {
            "calls": calls,
            "decided": decided,
            "prompt_tokens": np.maximum(prompt_tokens, 0.0),
        }

    def _memories_seen(self, groups: Column, memories: Column) -> Column:
        """Add up, over the groups of each scope, the memories that there are, up to the most."""
        step = self.facts_per_call * self.added_share
        start = np.minimum(memories, self.most_memories)
        room = self.most_memories - start
        growing = np.minimum(groups, room / step if step else np.where(room > 0, math.inf, 0.0))
        climbed = growing * start + step * growing * np.maximum(growing - 1, 0.0) / 2
        rest = groups - growing
        seen: Column = climbed + np.where(rest > 0, rest * (start + step * growing), 0.0)
        return seen


def fit_groups(
    played: Sequence[Decisions], settings: ConsolidationSettings, *, add_share: float
) -> GroupModel:
    """Fit what rehearsed scopes took.

    Where they are all of about one size they do not tell what the end of a scope takes from what
    each fact takes. Calls that are not full are then those of the end, and facts that are decided
    again are so everywhere.

    Args:
        played: Rehearsed scopes, with their groups.
        settings: That they were rehearsed with.
        add_share: That they were rehearsed with; how far it holds is seen in the groups.
    """
    most, size = _most_memories(settings.lookup), settings.facts_per_call
    played = [scope for scope in played if scope.groups]
    groups = np.array([group for scope in played for group in scope.groups], dtype=np.float64)
    before, _, made, tokens, decided = groups.reshape(-1, 5).T
    per_call = _weights([made, made * np.minimum(before, most), decided], tokens, small=2)
    each_calls = np.array([scope.calls for scope in played], dtype=np.float64)
    each_decided = np.array([scope.decided for scope in played], dtype=np.float64)
    facts = np.array([sum(group[1] for group in scope.groups) for scope in played], np.float64)
    end = np.minimum(facts / size, 1.0)
    at_end, per_size = _weights(
        [end, facts / size],
        each_calls - np.maximum(each_decided / size, np.minimum(each_calls, 1.0)),
        small=1,
    )
    more_at_end, more_per_fact = _weights([end, facts], each_decided - facts, small=0)
    calls = each_calls.sum()
    return GroupModel(
        calls=(at_end, per_size / size),
        decided=(more_at_end, 1.0 + more_per_fact),
        prompt_tokens=(per_call[0], per_call[1], per_call[2]),
        facts_per_call=size,
        most_memories=most,
        added_share=add_share,
        cpu_s=sum(scope.cpu_s for scope in played) / calls if calls else 0.0,
    )


def _weights(inputs: Sequence[Column], output: Column, *, small: int) -> list[float]:
    """Fit a sum of inputs to an output; where more than one fits, with one weight near 0.

    Args:
        inputs: One column each.
        output: What they add up to.
        small: The input whose weight has to be small.
    """
    rows = np.vstack([np.column_stack(inputs), np.eye(len(inputs))[small]])
    weights: list[float] = np.linalg.lstsq(rows, np.append(output, 0.0), rcond=None)[0].tolist()
    return weights


def _most_memories(lookup: Lookup) -> float:
    most = math.inf if lookup.max_memories is None else float(lookup.max_memories)
    return min(most, lookup.top_k) if lookup.strategy == "recent" else most
