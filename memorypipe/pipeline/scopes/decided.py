"""A fact on its way to a decision, and the decision about it."""

from dataclasses import dataclass
from datetime import datetime

from memorypipe.pipeline.scopes.carrying import NOTHING_CARRIED, Carry
from memorypipe.rank.memory import Memory

__all__ = ["Decided", "PipelineFact"]


@dataclass(frozen=True, kw_only=True)
class PipelineFact:
    """One extracted fact on its way to a decision.

    Attributes:
        text: What it says.
        window: Place of its window in the scope's time order, from 0.
        window_id: The window's id.
        conversation_id: Where it was said.
        event_time: When it was said (UTC): the time of its newest source. None where nothing
            tells. When it happened is another matter, on which the model's word is all there is:
            that stays in the facts of the run and decides nothing.
        source_ids: Messages that support it.
        context: Free text that goes with it.
        topics: Subject words.
        flags: What is wrong with it, as of `memorypipe.pipeline.scopes.fact_checks`.
        carry: What goes with the memory that it makes or changes.
    """

    text: str
    window: int
    window_id: str
    conversation_id: str
    event_time: datetime | None = None
    source_ids: tuple[str, ...] = ()
    context: str | None = None
    topics: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    carry: Carry = NOTHING_CARRIED


@dataclass(frozen=True, kw_only=True)
class Decided:
    """One decided action, with the fact that it came from.

    Attributes:
        fact: The fact.
        event: ``ADD``, ``UPDATE``, ``DELETE`` or ``NONE``.
        memory_id: The memory that it makes or changes; None for NONE.
        text: The new text; of a DELETE or NONE the fact's own.
        old_memory: The memory's text before, verbatim.
        rationale: Why.
        flag: Why it is not what the model decided, where users have to know: counted in the
            summary. None for most.
        rests_on: The memory, as it was, without which it would have come out otherwise though
            the action does not name it: the one that says so already, or that rests on something
            newer. None for most.
    """

    fact: PipelineFact
    event: str
    memory_id: str | None
    text: str
    old_memory: str | None
    rationale: str | None
    flag: str | None = None
    rests_on: Memory | None = None
