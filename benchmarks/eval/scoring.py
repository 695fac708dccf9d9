"""What an answer is worth: counts of one case, to be added up. Pure.

Extraction
    Each item of an answer is judged once: *invented* where it says what the case forbids, *right*
    where it says a gold fact (or several), *allowed* where it says what may be said, else *extra*.
    A right item is *repeated* where every gold fact in it was found before.
Decision
    A fact is *right* where event, target and text are those of one gold action. What is wrong is
    counted by its kind: a memory changed that must not be (*damaged*), a new fact dropped
    (*lost*), a known one added again (*repeated*), numbers or names in a text that no fact or
    memory has (*invented*), no valid action at all (*failed*).
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from benchmarks.eval.cases import DecideCase, ExtractCase, GoldAction
from benchmarks.eval.matching import Pattern, plain, spread_not
from memorypipe.cells.actions import Action

__all__ = ["decision_problems", "score_decision", "score_extraction"]

_CHANGES = frozenset({"UPDATE", "DELETE"})
_WORD = re.compile(r"\w+(?:[.,:]\d+)*")


def score_extraction(case: ExtractCase, items: Sequence[Mapping[str, Any]] | None) -> Counter[str]:
    """Count what an extraction found, missed and made up.

    Args:
        case: What was asked.
        items: The facts, each with `text` and perhaps `event_time`; None where it failed.

    Returns:
        `gold`, `found`, `items`, `right`, `allowed`, `extra`, `invented`, `repeated`, `dates`
        (asked for), `dated` (right ones) and `failed`.
    """
    counts: Counter[str] = Counter(gold=len(case.facts), failed=int(items is None))
    counts["dates"] = sum(bool(fact.when) for fact in case.facts)
    found: dict[int, bool] = {}
    for item in items or ():
        counts["items"] += 1
        said = _said(case, str(item["text"]))
        counts[_verdict(case, said, str(item["text"]))] += 1
        counts["repeated"] += bool(said) and said <= found.keys()
        for place in said:
            dated = case.facts[place].is_dated(str(item["text"]), item.get("event_time"))
            found[place] = found.get(place, False) or dated
    counts["found"], counts["dated"] = len(found), sum(found.values())
    return counts


def _said(case: ExtractCase, text: str) -> set[int]:
    """Give the places of the gold facts that a text says; none where it says what is forbidden."""
    if _fits_any(case.never, text):
        return set()
    return {place for place, fact in enumerate(case.facts) if fact.fits(text)}


def _verdict(case: ExtractCase, said: Collection[int], text: str) -> str:
    if said:
        return "right"
    if _fits_any(case.never, text):
        return "invented"
    return "allowed" if _fits_any(case.also, text) else "extra"


def _fits_any(patterns: Sequence[Pattern], text: str) -> bool:
    return any(pattern.fits(text) for pattern in patterns)


def score_decision(
    case: DecideCase, actions: Sequence[Action], *, failed: Collection[int] = ()
) -> Counter[str]:
    """Count what a decision did right, and how it failed.

    Args:
        case: What was asked.
        actions: One per fact.
        failed: Places of facts to which the model gave no valid action.

    Returns:
        `facts`, `right`, `changes` (facts that must change a memory), `said_changes` and
        `right_changes`, `updates` and `right_updates`, and of what is wrong `damaged`, `lost`,
        `repeated`, `invented` and `failed`.
    """
    counts: Counter[str] = Counter()
    known = _words(" ".join([*(f.text for f in case.facts), *(m["text"] for m in case.existing)]))
    for place, (gold, action) in enumerate(zip(case.gold, actions, strict=True)):
        right = place not in failed and any(_is_gold(action, one) for one in gold)
        counts.update(_fact_counts(gold, action, right=right))
        counts["failed"] += place in failed
        if action.event in {"ADD", "UPDATE"}:
            counts["invented"] += not _telling(action.text) <= known
    return counts


def _is_gold(action: Action, gold: GoldAction) -> bool:
    if (action.event, action.target_id) != (gold.event, gold.target):
        return False
    return gold.text is None or gold.text.fits(action.text)


def _fact_counts(gold: Sequence[GoldAction], action: Action, *, right: bool) -> Counter[str]:
    events = {one.event for one in gold}
    allowed = {(one.event, one.target) for one in gold}
    says_change = action.event in _CHANGES
    return Counter(
        facts=1,
        right=right,
        changes=events <= _CHANGES,
        said_changes=says_change,
        right_changes=right and says_change,
        updates=gold[0].event == "UPDATE",
        right_updates=right and gold[0].event == "UPDATE",
        damaged=says_change and (action.event, action.target_id) not in allowed,
        lost=action.event == "NONE" and "NONE" not in events,
        repeated=action.event == "ADD" and events == {"NONE"},
    )


def _words(text: str) -> set[str]:
    return set(_WORD.findall(plain(text)))


def _telling(text: str) -> set[str]:
    """Give the numbers of a text and its capitalised words after the first."""
    words = _WORD.findall(spread_not(text))
    names = {plain(word) for place, word in enumerate(words) if place and word[0].isupper()}
    return {word for word in _words(text) if word[0].isdigit()} | names


def decision_problems(case: DecideCase, actions: Sequence[Action]) -> list[str]:
    """Say of each fact that was decided wrongly what was decided.

    Example:
        >>> from memorypipe.llm.types import Fact
        >>> case = DecideCase(id="c", kind="add", language="en", existing=(),
        ...     facts=(Fact(text="Likes tea"),), gold=((GoldAction(event="ADD"),),))
        >>> decision_problems(case, [Action(event="NONE", text="Likes tea")])
        ["'Likes tea': NONE None 'Likes tea'"]
    """
    return [
        f"{fact.text!r}: {action.event} {action.target_id} {action.text!r}"
        for fact, action, gold in zip(case.facts, actions, case.gold, strict=True)
        if not any(_is_gold(action, one) for one in gold)
    ]
