"""Checks of what the model decided, before it counts. Pure.

A memory is changed or deleted only by a fact that is about it, that a speaker states and that is no
order; and a text says only what the fact and the memory before say, and of whom they say it. A
decision that fails is not thrown away: the fact becomes a memory of its own, so that nothing is
lost and nothing is overwritten. And a fact that would delete a memory and states something itself
takes its place: of a contradiction the later side stays known.
"""

from collections.abc import Sequence
from dataclasses import replace

from memorypipe.evidence.claims import unfounded
from memorypipe.evidence.instructions import is_imperative
from memorypipe.evidence.likeness import (
    content_words,
    near_key,
    only_retracts,
    share_words,
    tells_change,
)
from memorypipe.evidence.subjects import (
    leaves_out_subject,
    other_subjects,
    turns_to_other_person,
)
from memorypipe.pipeline.scopes.decided import Decided, PipelineFact
from memorypipe.pipeline.scopes.fact_checks import HEARSAY
from memorypipe.rank.memory import Memory

__all__ = ["UNVERIFIED", "verified"]

UNVERIFIED = "unverified"
"""The flag of an action that is not what the model decided, as that did not stand the checks."""

_SHOWN = 3

# A text with this much of the words of another holds it all.
_WHOLE_SHARE = 0.8

# Merges end here, so that no memory grows into a list of everything that touches it.
_MERGED_CHARS = 600


def verified(decided: Decided, target: Memory | None) -> Decided:
    """Give a decision that stands the checks: this one, or the fact as a memory of its own.

    Args:
        decided: The decision.
        target: The memory that it would change or delete, as it is; None for an ADD.
    """
    if decided.event == "NONE" or (target is None and decided.event != "ADD"):
        return decided
    if target is not None and decided.event == "DELETE" and _same(decided.fact, target):
        reason = "already covered: no fact takes back what it says itself"
        return _instead(decided, "NONE", reason)
    wrong = None if target is None else _wrong_target(decided, target)
    if wrong is None and decided.event != "DELETE":
        wrong = _wrong_text(decided, target)
    if wrong is None:
        return decided if decided.event != "DELETE" else _not_lost(decided)
    rationale = f"{UNVERIFIED} {decided.event}: {wrong}; the fact stands on its own"
    return _instead(decided, "ADD", rationale)


def _instead(decided: Decided, event: str, rationale: str) -> Decided:
    return replace(
        decided,
        event=event,
        memory_id=None,
        text=decided.fact.text,
        old_memory=None,
        rationale=rationale,
        flag=UNVERIFIED,
    )


def _not_lost(decided: Decided) -> Decided:
    """A DELETE, or what it comes to where its fact states something itself: that stays known."""
    if only_retracts(decided.fact.text):
        return decided
    rationale = f"{UNVERIFIED} DELETE: the fact states something itself and takes the place"
    return replace(
        decided, event="UPDATE", text=decided.fact.text, rationale=rationale, flag=UNVERIFIED
    )


def _same(fact: PipelineFact, target: Memory) -> bool:
    return near_key(fact.text) == near_key(target.text)


def _wrong_target(decided: Decided, target: Memory) -> str | None:
    """Say why a fact may not change the memory that it would change."""
    fact = decided.fact.text
    if HEARSAY in decided.fact.flags:
        return "only an assistant, a pasted text or a sentence about another says so"
    if is_imperative(fact):
        return "an order is no evidence"
    if other_subjects(fact, target.text):
        return "fact and memory are about two different ones"
    if turns_to_other_person(fact, target.text):
        return "the fact is about a person whom the memory does not name"
    told, known = _shown(decided.fact), _shown(target)
    if decided.event == "DELETE":
        related = share_words(told, known, verbs=False)
    else:
        # A changed value may share nothing with the old one; then the text still does.
        related = share_words(told, known) or (
            share_words(decided.text, known) and not _strung_together(decided, target)
        )
    return None if related else "fact and memory share no word"


def _strung_together(decided: Decided, target: Memory) -> bool:
    """Whether a text is just the memory and the fact, one after the other."""
    text = content_words(decided.text)
    parts = (content_words(target.text), content_words(decided.fact.text))
    whole = all(len(part & text) >= _WHOLE_SHARE * len(part) for part in parts)
    return whole and not tells_change(decided.fact.text)


def _wrong_text(decided: Decided, target: Memory | None) -> str | None:
    """Say what is wrong with the text of an ADD or UPDATE."""
    fact, text = decided.fact, decided.text
    if text == fact.text:
        return None
    if target is None and not share_words(text, _shown(fact)):
        return "the text shares no word with the fact"
    if target is not None and len(text) > max(_MERGED_CHARS, len(target.text), len(fact.text)):
        return f"the merged text is longer than {_MERGED_CHARS} characters"
    made_up = _made_up(text, [fact] if target is None else [fact, target])
    if made_up is None and leaves_out_subject(fact.text, text):
        return "the text leaves out whom the fact is about"
    return made_up


def _made_up(text: str, records: Sequence[PipelineFact | Memory]) -> str | None:
    """Say what a text claims that none of its sources does."""
    times = [record.event_time for record in records if record.event_time is not None]
    claims = unfounded(text, [_shown(record) for record in records], times=times)
    if not claims:
        return None
    more = ", …" if len(claims) > _SHOWN else ""
    return f"neither fact nor memory says {', '.join(map(repr, claims[:_SHOWN]))}{more}"


def _shown(record: PipelineFact | Memory) -> str:
    return f"{record.text}\n{record.context or ''}"
