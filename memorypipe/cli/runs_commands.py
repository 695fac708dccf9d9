"""`runs` and `runs show`: what ran, and what stayed open."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.text import Text

from memorypipe.cli.exit_codes import ExitCode
from memorypipe.cli.options import RunsOptions, RunsShowOptions
from memorypipe.cli.output import Output, counted, plain
from memorypipe.cli.render_run import open_window_lines, summary_lines
from memorypipe.cli.render_table import run_lines
from memorypipe.cli.run_report import report_run
from memorypipe.cli.table_commands import open_table
from memorypipe.cli.undone_runs import as_it_stands
from memorypipe.errors import PlanError
from memorypipe.llm.batch.records import BatchRecord
from memorypipe.pipeline.batch_folder import open_batches
from memorypipe.pipeline.plans.plan import Plan
from memorypipe.pipeline.runs.folder import RunFolder
from memorypipe.pipeline.runs.summary import RunSummary
from memorypipe.table.run_status import shown_status
from memorypipe.table.table import MemoryTable
from memorypipe.table.times import now_utc

__all__ = ["list_runs", "merge_runs", "open_batch_lines", "show_run", "unfinished_lines"]

# Statuses of runs that wrote no plan.
_UNFINISHED = frozenset({"running", "crashed", "failed"})


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
    record = RunFolder.of(options.table, options.run).read_json("run")
    status = shown_status(record, now_utc())
    if status in _UNFINISHED or "error" in record:
        return _show_unfinished(output, {**record, "status": status}, options.table)
    planned = Plan(options.table, options.run)
    summary = as_it_stands(planned.summary(), options.table)
    if not (options.failed or options.json):
        report_run(output, planned, summary, table=options.table)
        return ExitCode.DONE
    opened = planned.open_windows().to_pylist()
    value = {**summary.to_dict(), "open_windows": opened}
    output.result(value, open_window_lines(opened))
    return ExitCode.DONE


def _show_unfinished(output: Output, record: Mapping[str, Any], table: str) -> int:
    """Show a run that never came to its end, or has not yet: its numbers so far."""
    summary = RunSummary.from_dict(record)
    lines = summary_lines(summary, (), table=table, next_steps=())
    batches = open_batches(table, summary.run_id)
    value = {**record, "open_batches": [asdict(batch) for batch in batches]}
    told = (*unfinished_lines(record), *open_batch_lines(batches))
    output.result(value, (*lines, Text(""), *told))
    return ExitCode.DONE


def open_batch_lines(batches: Sequence[BatchRecord]) -> Iterator[Text]:
    """Show the batches of a run that a provider is at work on, or that wait to be sent."""
    for batch in batches:
        where = plain(batch.batch_id) if batch.batch_id else f"not sent yet ({batch.state})"
        yield Text(f"      batch of {counted(batch.requests, 'request')}: {where}")


def unfinished_lines(record: Mapping[str, Any]) -> Iterator[Text]:
    """Say how far a run came that has not come to its end, and how to go on.

    Args:
        record: Of its folder, with the status as it is now.
    """
    so_far = f"{record['stage']}, {record['windows_done']:,} of {record['windows']:,} windows"
    if record["status"] == "running":
        yield Text.assemble(("  ! ", "yellow"), f"still running: {so_far}")
        if record.get("paused"):
            yield Text(f"    It is paused. {plain(record['paused'])}")
        return
    why = f": {plain(record['error'])}" if "error" in record else ""
    yield Text.assemble(("  ! ", "yellow"), f"it ended in the middle ({so_far}){why}")
    yield Text("    The same command goes on from there; what was answered is not paid again.")


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
        status = "done" if status in {"planned", "held", *_UNFINISHED} else status
        status = "undone" if run.get("undone") else status
        found[run["run_id"]] = {**known, **run, "status": status}
    return sorted(found.values(), key=lambda run: (run["at"], run["run_id"]))


def _committed(table_uri: str) -> list[dict[str, Any]]:
    if not MemoryTable.exists(table_uri):
        return []
    rows = MemoryTable.open(table_uri, create=False).runs().to_pylist()
    runs: dict[str, dict[str, Any]] = {}
    for row in rows:
        part = _committed_part(row)
        earlier = runs.get(row["run_id"])
        runs[row["run_id"]] = part if earlier is None else _joined(earlier, part)
    return list(runs.values())


_COUNTS = ("added", "updated", "deleted", "none")


def _committed_part(row: Mapping[str, Any]) -> dict[str, Any]:
    info = json.loads(row["info"])
    return {
        **{name: row[name] for name in ("run_id", "kind", "undone", *_COUNTS)},
        "at": row["committed_at"],
        "windows_failed": info.get("windows_failed", 0),
        "model": row["model"] or info.get("model"),
    }


def _joined(earlier: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """Make one of two parts of a run."""
    counts = {name: earlier[name] + part[name] for name in _COUNTS}
    undone = earlier["undone"] and part["undone"]
    return {**earlier, **counts, "undone": undone, "at": part["at"]}


def _recorded(table_uri: str) -> Iterator[dict[str, Any]]:
    """Read the summaries of the run folders; one of which nothing was written yet has none."""
    for path in sorted((Path(table_uri) / "runs").glob("[!.]*")):
        folder = RunFolder(path)
        try:
            record = folder.read_json("run")
            # A version that wrote no record before the end wrote no start either.
            at = record.get("started_at") or folder.read_json("manifest")["planned_at"]
        except PlanError:
            continue
        yield {
            **RunSummary.from_dict(record).to_dict(),
            "status": shown_status(record, now_utc()),
            "at": datetime.fromisoformat(at).astimezone(UTC),
        }
