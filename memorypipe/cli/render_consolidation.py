"""A consolidation as text for people. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from memorypipe.cli.render_run import summary_lines
from memorypipe.pipeline.runs.summary import RunSummary

__all__ = ["consolidation_lines"]


def consolidation_lines(
    summary: RunSummary,
    changes: Sequence[Mapping[str, Any]],
    *,
    table: str,
    next_steps: Sequence[tuple[str, str]],
    open_reasons: Sequence[str] = (),
) -> Iterator[Text]:
    """Show what a consolidation did.

    Args:
        summary: Its numbers.
        changes: Changes to show, of all that there are.
        table: Where the memories are.
        next_steps: Commands to try, each with what it does.
        open_reasons: Why memories have to be compared by the next run, one reason each.
    """
    lines = summary_lines(
        summary, changes, table=table, next_steps=next_steps, open_reasons=open_reasons
    )
    yield next(lines)
    next(lines)  # of the log: there is none
    if summary.windows:
        alike = (
            f"{summary.windows:,} memories that are alike · {summary.facts:,} of them asked about"
        )
    else:
        alike = "nothing that is alike and was not compared before"
    yield Text.assemble(("  compared  ", "dim"), alike)
    yield from lines
