"""What an undo, a forgetting or a restoring changed, as text for people. Pure."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from memorypipe.cli.options import DEFAULT_TABLE
from memorypipe.cli.output import plain, shown_scope, shown_time
from memorypipe.table.transaction import CommitResult

__all__ = [
    "change_value",
    "changed_lines",
    "found_lines",
    "some_runs_lines",
    "table_option",
    "undone_lines",
]

_SHOWN_RUNS = 10


def table_option(table: str) -> str:
    """Write the option that names a table, with a blank before it; "" for the default one.

    Example:
        >>> table_option("my table")
        " --table 'my table'"
    """
    return "" if table == DEFAULT_TABLE else f" --table {shlex.quote(table)}"


def change_value(result: CommitResult, *, run_id: str | None, table: str) -> dict[str, Any]:
    """Give what was changed as JSON values.

    Args:
        result: Of the commit.
        run_id: Its name; None where nothing was committed.
        table: The table's place.
    """
    return {
        "run_id": run_id,
        "status": "done" if result.outcome == "landed" else "unchanged",
        "version": result.version,
        "added": result.added,
        "updated": result.updated,
        "deleted": result.deleted,
        "table": table,
    }


def changed_lines(  # noqa: PLR0913  # one keyword per part of the sentence
    result: CommitResult,
    *,
    what: str,
    nothing: str,
    run_id: str | None,
    table: str,
    note: str | None = None,
) -> Iterator[Text]:
    """Show what was changed, and how to take it back.

    Args:
        result: Of the commit.
        what: What was done, e.g. ``"forgot"``.
        nothing: What to say where nothing was changed.
        run_id: Name of the commit; None where nothing was committed.
        table: The table's place.
        note: What else holds; None: nothing.
    """
    if result.outcome != "landed" or run_id is None:
        yield Text.assemble(("unchanged", "bold yellow"), f"  {nothing}")
        return
    counts = {"back": result.added, "changed": result.updated, "gone": result.deleted}
    told = ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)
    yield Text.assemble((what, "bold green"), f"  {told or 'no memory'}  ", (run_id, "cyan"))
    if note is not None:
        yield Text(f"  {note}")
    yield Text("")
    place = table_option(table)
    yield Text.assemble(
        "  ", (f"memorypipe undo {run_id}{place}", "cyan"), ("  take it back", "dim")
    )


def undone_lines(run_id: str, next_steps: Sequence[tuple[str, str]]) -> Iterator[Text]:
    """Show that an undo took a run back.

    Args:
        run_id: The run.
        next_steps: Commands to try, each with what it does.
    """
    yield Text.assemble(
        ("undone", "bold yellow"),
        f"  {run_id}  an undo took it back: nothing of it is in the table",
    )
    yield Text("")
    width = max(len(command) for command, _ in next_steps)
    for command, what in next_steps:
        yield Text.assemble("  ", (f"{command:<{width}}", "cyan"), (f"  {what}", "dim"))


def found_lines(rows: Sequence[Mapping[str, Any]], *, table: str) -> Iterator[Text]:
    """Show what a search found, the best first, and how to see where it came from.

    Args:
        rows: Rows of the table with `score`.
        table: The table's place.
    """
    if not rows:
        yield Text("nothing found", style="dim")
        return
    for row in rows:
        line = Text(f"  {row['score']:6.3f}  ").append(row["memory_id"], style="cyan")
        line.append(f"  {shown_time(row['event_time'] or row['updated_at']):<16}  ", style="dim")
        line.append(plain(row["text"]))
        yield line.append(f"  {shown_scope(row['scope'])}", style="dim")
    yield Text("")
    history = f"memorypipe history {rows[0]['memory_id']}{table_option(table)}"
    yield Text.assemble("  ", (history, "cyan"), ("  how the best one came about", "dim"))


def some_runs_lines(runs: Sequence[Mapping[str, Any]], *, table: str) -> Iterator[Text]:
    """Show the newest runs, and how to undo one.

    Args:
        runs: Rows of `memorypipe.table.records.RUNS`, newest last.
        table: The table's place.
    """
    if not runs:
        yield Text("no runs", style="dim")
        return
    for run in runs[-_SHOWN_RUNS:]:
        line = Text.assemble((run["run_id"], "cyan"), f"  {shown_time(run['committed_at']):<16}  ")
        line.append(f"{plain(run['kind']):<8}", style="dim")
        yield line.append(f"  +{run['added']:,} ~{run['updated']:,} -{run['deleted']:,}")
    yield Text("")
    newest = f"memorypipe undo {runs[-1]['run_id']}{table_option(table)}"
    yield Text.assemble("  ", (newest, "cyan"), ("  undo the newest", "dim"))
