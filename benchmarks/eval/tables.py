"""Results as plain-text tables. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

__all__ = ["comparison", "render", "table"]

_NOTHING = "-"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Line up rows under their heads; the first column left, the others right.

    Example:
        >>> print(table(["kind", "recall"], [["update", 0.5], ["all", None]]))
        kind    recall
        update    0.50
        all          -
    """
    lines = [[*head], *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _cell(value: Any) -> str:
    if value is None:
        return _NOTHING
    if isinstance(value, float):
        return f"{value:.2f}" if value <= 1 else f"{value:,.0f}"
    return str(value)


def render(result: Mapping[str, Any]) -> str:
    """Give the tables of one model: extraction and decision by kind, LoCoMo, cost.

    Args:
        result: As `benchmarks.eval.run` makes it.
    """
    return "\n\n".join(_sections(result))


def _sections(result: Mapping[str, Any]) -> Iterator[str]:
    for stage in ("extract", "decide"):
        if groups := result.get(stage):
            first = next(iter(groups.values()))
            rows = [[name, *numbers.values()] for name, numbers in groups.items()]
            yield f"{result['model']}, {stage}\n" + table(["", *first], rows)
    for part in ("locomo", "per_1000_turns"):
        if numbers := result.get(part):
            yield f"{result['model']}, {part}\n" + table(["", *numbers], [["", *numbers.values()]])


def comparison(results: Sequence[Mapping[str, Any]]) -> str:
    """Give one line per model, of all results together.

    Args:
        results: As `benchmarks.eval.run` makes them.
    """
    columns = (
        *(("extract", name) for name in ("precision", "recall", "invented", "repeated")),
        *(("decide", name) for name in ("accuracy", "updates", "damaged", "lost", "repeated")),
    )
    rows = [
        [
            result["model"],
            *((result.get(stage) or {}).get("all", {}).get(name) for stage, name in columns),
            *((result.get("per_1000_turns") or {}).get(name) for name in ("calls", "cost")),
        ]
        for result in results
    ]
    head = ["model", *(f"{stage[:3]}.{name}" for stage, name in columns), "calls/1k", "cost/1k"]
    return table(head, rows)
