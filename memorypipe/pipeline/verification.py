"""Checks of what the model decided, before it counts. Pure.

A memory is changed or deleted only by a fact that is about it, and a text says only what the fact
and the memory before say. A decision that fails is not thrown away: the fact becomes a memory of
its own, so that nothing is lost and nothing is overwritten.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from memorypipe.evidence.claims import unfounded
from memorypipe.evidence.likeness import other_subjects, share_words, tells_change
from memorypipe.pipeline.decided import Decided, PipelineFact
from memorypipe.rank.memory import Memory

__all__ = ["UNVERIFIED", "verified"]

UNVERIFIED = "unverified"
"""The flag of an action that is not what the model decided, as that did not stand the checks."""

_SHOWN = 3


def verified(decided: Decided, target: Memory | None) -> Decided:
    """Give a decision that stands the checks: this one, or the fact as a memory of its own.

    Args:
        decided: The decision.
        target: The memory that it would change or delete, as it is; None for an ADD.
    """
    if decided.event == "ADD":
        reason = _wrong_text(decided, None)
    elif target is None:
        return decided
    else:
        reason = _wrong_target(decided, target)
        if reason is None and decided.event == "UPDATE":
            reason = _wrong_text(decided, target)
    if reason is None:
        return decided
    return replace(
        decided,
        event="ADD",
        memory_id=None,
        text=decided.fact.text,
        old_memory=None,
        rationale=f"{UNVERIFIED} {decided.event}: {reason}; the fact stands on its own",
        flag=UNVERIFIED,
    )


def _wrong_target(decided: Decided, target: Memory) -> str | None:
    """Say why a fact has nothing to do with the memory that it would change."""
    fact = decided.fact.text
    if other_subjects(fact, target.text):
        return "fact and memory are about two different ones"
    about = [fact, decided.fact.context or ""]
    # The text of a DELETE is the fact's.
    about += [decided.text] if decided.event == "UPDATE" else []
    known = f"{target.text} {target.context or ''}"
    if tells_change(fact) or any(share_words(text, known) for text in about if text.strip()):
        return None
    return "fact and memory share no word"


def _wrong_text(decided: Decided, target: Memory | None) -> str | None:
    """Say what a text claims that neither the fact nor the memory before does."""
    fact, text = decided.fact, decided.text
    if text == fact.text:
        return None
    sources = list(_said(fact.text, fact.context, fact.event_time))
    if target is None and not share_words(text, " ".join(sources)):
        return "the text shares no word with the fact"
    if target is not None:
        sources += _said(target.text, target.context, target.event_time)
    made_up = unfounded(text, sources)
    if not made_up:
        return None
    more = ", …" if len(made_up) > _SHOWN else ""
    return f"neither fact nor memory says {', '.join(map(repr, made_up[:_SHOWN]))}{more}"


def _said(text: str, context: str | None, time: datetime | None) -> Iterator[str]:
    """All that a prompt shows of a fact or memory; of a time also its weekday and month."""
    yield (
        f"{text} {context or ''} {time:%Y-%m-%d %H:%M %A %B}" if time else f"{text} {context or ''}"
    )
