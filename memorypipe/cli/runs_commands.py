"""`runs` and `runs show`: what ran, and what stayed open."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memorypipe.cli.exit_codes import ExitCode
from memorypipe.cli.options import RunsOptions, RunsShowOptions
from memorypipe.cli.output import Output
from memorypipe.cli.render_run import open_window_lines
from memorypipe.cli.render_table import run_lines
from memorypipe.cli.run_report import report_run
from memorypipe.cli.table_commands import open_table
from memorypipe.errors import PlanError
from memorypipe.pipeline.plan import Plan
from memorypipe.table.table import MemoryTable

__all__ = ["list_runs", "merge_runs", "show_run"]


def list_runs(options: RunsOptions) -> int:
    """List what ran: committed runs, and plans that wait to be applied."""
    output = Output(as_json=options.json)
    runs = merge_runs(_committed(options.table), tuple(_recorded(options.table)))
    if not runs:
        open_table(options.table)
    output.result({"runs": runs}, run_lines(runs))
    return ExitCode.DONE


def show_run(options: RunsShowOptions) -> int:
    """Show one run: its numbers, its changes, and the windows that stay open."""
    output = Output(as_json=options.json)
    planned = Plan(options.table, options.run)
    if not (options.failed or options.json):
        report_run(output, planned, planned.summary(), table=options.table)
        return ExitCode.DONE
    opened = planned.open_windows().to_pylist()
    value = {**planned.summary().to_dict(), "open_windows": opened}
    output.result(value, open_window_lines(opened))
    return ExitCode.DONE


def merge_runs(
    committed: Sequence[Mapping[str, Any]], recorded: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Put what the table knows of its runs together with what the run folders say.

    Args:
        committed: The table's runs.
        recorded: The summaries in the run folders, which may be gone for old runs.

    Returns:
        One entry per run, oldest first; the table's word counts for what was committed.
    """
    found = {run["run_id"]: dict(run) for run in recorded}
    for run in committed:
        known = found.get(run["run_id"], {})
        status = known.get("status", "done")
        status = "done" if status in {"planned", "held"} else status
        found[run["run_id"]] = {**known, **run, "status": status}
    return sorted(found.values(), key=lambda run: (run["at"], run["run_id"]))


def _committed(table_uri: str) -> list[dict[str, Any]]:
    if not MemoryTable.exists(table_uri):
        return []
    names = ["run_id", "added", "updated", "deleted", "none"]
    rows = MemoryTable.open(table_uri, create=False).runs().to_pylist()
    return [
        {
            **{name: row[name] for name in names},
            "at": row["committed_at"],
            "windows_failed": json.loads(row["info"]).get("windows_failed", 0),
            "model": row["model"] or json.loads(row["info"]).get("model"),
        }
        for row in rows
    ]


def _recorded(table_uri: str) -> Iterator[dict[str, Any]]:
    """Read the summaries of the run folders; one that was never planned to its end has none."""
    for folder in sorted((Path(table_uri) / "runs").glob("[!.]*")):
        try:
            planned = Plan(table_uri, folder.name)
        except PlanError:
            continue
        at = datetime.fromisoformat(planned.manifest["planned_at"]).astimezone(UTC)
        yield {**planned.summary().to_dict(), "at": at}
