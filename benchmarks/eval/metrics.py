"""From counts to the numbers of the tables. Pure."""

from collections import Counter
from collections.abc import Mapping

from memorypipe.llm.spec import Prices

__all__ = ["cost_numbers", "decision_numbers", "extraction_numbers", "ratio"]

_PER = 1000


def ratio(part: float, whole: float) -> float | None:
    """Give a share, three digits; None where there is nothing to share.

    Example:
        >>> ratio(2, 3), ratio(0, 0)
        (0.667, None)
    """
    return round(part / whole, 3) if whole else None


def extraction_numbers(counts: Mapping[str, int]) -> dict[str, float | None]:
    """Give the numbers of extraction counts, as `score_extraction` makes them.

    Returns:
        `precision` (right items of those that were not merely allowed), `recall` (gold facts
        found), `dates` (asked dates that are right), and the counts of what went wrong.

    Example:
        >>> numbers = extraction_numbers(Counter(gold=4, found=3, items=5, right=3, extra=1,
        ...     allowed=1))
        >>> numbers["precision"], numbers["recall"]
        (0.75, 0.75)
    """
    judged = counts["items"] - counts["allowed"]
    return {
        "precision": ratio(counts["right"], judged),
        "recall": ratio(counts["found"], counts["gold"]),
        "dates": ratio(counts["dated"], counts["dates"]),
        **{name: counts[name] for name in ("invented", "extra", "repeated", "failed")},
    }


def decision_numbers(counts: Mapping[str, int]) -> dict[str, float | None]:
    """Give the numbers of decision counts, as `score_decision` makes them.

    Returns:
        `accuracy` (facts decided rightly), `precision` and `recall` of changes to memories,
        `updates` (facts that must update a memory and rightly did, text and all), and the counts
        of what went wrong.

    Example:
        >>> decision_numbers(Counter(facts=10, right=9, updates=4, right_updates=3))["updates"]
        0.75
    """
    return {
        "accuracy": ratio(counts["right"], counts["facts"]),
        "precision": ratio(counts["right_changes"], counts["said_changes"]),
        "recall": ratio(counts["right_changes"], counts["changes"]),
        "updates": ratio(counts["right_updates"], counts["updates"]),
        **{name: counts[name] for name in ("damaged", "lost", "repeated", "invented", "failed")},
    }


def cost_numbers(
    extracting: Counter[str],
    deciding: Counter[str],
    *,
    facts: int,
    prices: tuple[Prices | None, Prices | None],
) -> dict[str, float | None]:
    """Give what a thousand turns cost: their extraction, and the decisions about their facts.

    Short transcripts pay for the fixed part of the prompt with few turns each, so that long ones
    cost less per turn.

    Args:
        extracting: `calls`, `tokens_in`, `tokens_out` and `turns`.
        deciding: `calls`, `tokens_in`, `tokens_out` and `decided` facts.
        facts: What the extraction found, so that decisions follow from turns.
        prices: Of extraction and decision; None where they are not known.

    Returns:
        `calls`, `tokens_in`, `tokens_out` and `cost` per 1,000 turns; None where a stage or a
        price is missing.
    """
    turns, decided = extracting["turns"], deciding["decided"]
    if not turns or not decided:
        return dict.fromkeys(("calls", "tokens_in", "tokens_out", "cost"))
    shares = (_PER / turns, _PER * facts / turns / decided)
    stages = tuple(zip((extracting, deciding), shares, prices, strict=True))
    numbers: dict[str, float | None] = {
        name: round(sum(stage[name] * share for stage, share, _ in stages), 1)
        for name in ("calls", "tokens_in", "tokens_out")
    }
    costs = [
        price.cost(stage["tokens_in"] * share, stage["tokens_out"] * share)
        for stage, share, price in stages
        if price is not None
    ]
    numbers["cost"] = round(sum(costs), 4) if len(costs) == len(stages) else None
    return numbers
