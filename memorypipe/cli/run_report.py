"""The closing report of a run: which of its changes are shown, and what to do next."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.cli.options import DEFAULT_TABLE
from memorypipe.cli.output import Output, counted
from memorypipe.cli.render_change import table_option, undone_lines
from memorypipe.cli.render_consolidation import consolidation_lines
from memorypipe.cli.render_import import import_lines, import_steps
from memorypipe.cli.render_run import choose_changes, summary_lines
from memorypipe.cli.undone_runs import closed_runs, runs_of, undo_of
from memorypipe.pipeline.committing import left_to_commit
from memorypipe.pipeline.imports.importing import is_import
from memorypipe.pipeline.plans.plan import Plan
from memorypipe.pipeline.reconsolidate_rows import is_consolidation
from memorypipe.pipeline.runs.summary import RunSummary
from memorypipe.table.guards import GUARD_PREFIX
from memorypipe.table.table import MemoryTable

__all__ = ["held_message", "next_steps", "report_run", "some_changes"]

_EXAMPLES = 10
_NAMED_SCOPES = 3
_NAMED_RUNS = 3
_PLANNED_CHANGES = 100
_CHANGES = ("ADD", "UPDATE", "DELETE")


def report_run(
    output: Output, planned: Plan, summary: RunSummary, *, table: str, is_new: bool = True
) -> None:
    """Tell how a run ended.

    Args:
        output: Where to.
        planned: The run's plan.
        summary: Its numbers.
        table: The table's place, as the user gave it.
        is_new: Whether anything was done now, and not before.
    """
    if summary.status == "undone":
        _report_undone(output, summary, table=table)
        return
    if not is_new:
        output.note(f"{summary.run_id} was committed before; nothing was committed now.")
    if is_import(planned):
        _report_import(output, planned, summary, table=table)
        return
    value = {**summary.to_dict(), "table": table}
    if summary.held_back:
        again = _CONSOLIDATE_AGAIN if is_consolidation(planned.manifest) else _PLAN_AGAIN
        value["error"] = held_message(summary, table=table, again=again)
        output.error(value["error"])
    if output.as_json:
        output.result(value, ())
        return
    actions = _taken_up(planned, summary)
    changes = some_changes(actions, _PLANNED_CHANGES if summary.is_plan else _EXAMPLES)
    reasons = planned.open_windows()["reason"].to_pylist() if summary.windows_failed else []
    steps = next_steps(
        summary,
        changes,
        table=table,
        memory_id=None if summary.is_plan else _some_memory(table, changes),
        has_table=MemoryTable.exists(table),
    )
    shown = consolidation_lines if is_consolidation(planned.manifest) else summary_lines
    lines = shown(summary, changes, table=table, next_steps=steps, open_reasons=reasons)
    output.result(value, lines)
    if not (summary.windows or is_consolidation(planned.manifest)):
        _warn_of_closed(output, table)


def _report_undone(output: Output, summary: RunSummary, *, table: str) -> None:
    """Tell that an undo took a run back, and what can be done."""
    runs, place = runs_of(table), table_option(table)
    steps = [
        (f"memorypipe undo {undo_of(runs, summary.run_id)}{place}", "take the undo back"),
        (f"memorypipe undo {summary.run_id} --reopen{place}", "let the next run read it again"),
    ]
    is_closed = summary.run_id in closed_runs(runs)
    lines = undone_lines(summary.run_id, steps if is_closed else steps[:1])
    output.result({**summary.to_dict(), "table": table}, lines)


def _warn_of_closed(output: Output, table: str) -> None:
    """Say what may be why there is nothing new in a log."""
    for run_id in closed_runs(runs_of(table))[-_NAMED_RUNS:]:
        output.warn(
            f"{run_id} is undone, and what it has read counts as read: `memorypipe undo {run_id} "
            f"--reopen{table_option(table)}` lets the next run read it again."
        )


def _taken_up(planned: Plan, summary: RunSummary) -> pa.Table:
    """Give the actions of the scopes that were taken up, where only a sample was applied."""
    actions = planned.actions()
    if not (summary.committed and summary.scopes_left):
        return actions
    keys = pc.unique(actions["scope_key"]).to_pylist()
    table = MemoryTable.open(planned.table_uri, create=False)
    left = left_to_commit(table, planned.run_id, keys)
    return actions.filter(pc.invert(pc.is_in(actions["scope_key"], pa.array(left, pa.string()))))


def _report_import(output: Output, planned: Plan, summary: RunSummary, *, table: str) -> None:
    """Tell how an import ended."""
    manifest = planned.manifest
    names = ("kind", "source", "records", "skipped", "vectors_left_out")
    told = {name: manifest[name] for name in names if name in manifest}
    value = {**summary.to_dict(), "table": table, **told}
    if summary.held_back:
        value["error"] = held_message(summary, table=table, again="Run `memorypipe import` again.")
        output.error(value["error"])
    limit = _PLANNED_CHANGES if summary.is_plan else _EXAMPLES
    changes = () if output.as_json else some_changes(planned.actions(), limit)
    steps = import_steps(summary, manifest["source"], table=table)
    lines = import_lines(summary, changes, manifest, table=table, next_steps=steps)
    output.result(value, lines)


_CONSOLIDATE_AGAIN = "Run `memorypipe consolidate` again; what was answered is not paid again."
_PLAN_AGAIN = "Run `memorypipe plan` or `backfill` again; what was answered is not paid again."


def held_message(
    summary: RunSummary, *, table: str = DEFAULT_TABLE, again: str = _PLAN_AGAIN
) -> str:
    """Say what a commit held back, and what to do."""
    scopes = sorted(summary.held_back)
    named = ", ".join(scopes[:_NAMED_SCOPES])
    more = f" and {len(scopes) - _NAMED_SCOPES} more" if len(scopes) > _NAMED_SCOPES else ""
    reason = summary.held_back[scopes[0]]
    return (
        f"Run {summary.run_id!r} held back {counted(len(scopes), 'scope')}, of which nothing is "
        f"committed ({named}{more}): {reason}. "
        f"{_way_out(summary.run_id, scopes[0], reason, table) or again}"
    )


def _way_out(run_id: str, scope_key: str, reason: str, table: str) -> str | None:
    if reason.startswith(GUARD_PREFIX):
        accepted = f"--accept-guard {shlex.quote(scope_key)}{table_option(table)}"
        return f"`memorypipe apply {run_id} {accepted}` commits it all the same."
    return None


def some_changes(actions: pa.Table, limit: int) -> list[Mapping[str, Any]]:
    """Take at most `limit` changes out of a plan's actions, in their order.

    Args:
        actions: Schema `memorypipe.schema.ACTIONS`; only the rows that may be shown become
            Python values.
        limit: At most this many.
    """
    places: list[int] = []
    for event in _CHANGES:
        found = pc.indices_nonzero(pc.equal(actions["event"], event))
        places += found.slice(0, limit).to_pylist()
    return choose_changes(actions.take(pa.array(sorted(places), pa.int64())).to_pylist(), limit)


def next_steps(
    summary: RunSummary,
    changes: Sequence[Mapping[str, Any]],
    *,
    table: str,
    memory_id: str | None,
    has_table: bool = True,
) -> list[tuple[str, str]]:
    """Give the commands to try after a run, each with what it does.

    Args:
        summary: The run.
        changes: Its changes, or some of them.
        table: The table's place.
        memory_id: A memory that it changed and that the table has.
        has_table: Whether there is a table yet.
    """
    place = table_option(table)
    if summary.is_plan:
        if summary.status == "planned" and not (summary.windows or changes):
            return []
        what = "commit this plan" if summary.status == "planned" else "commit what was decided"
        return [
            (f"memorypipe apply {summary.run_id}{place}", what),
            (f"memorypipe diff {summary.run_id}{place}", "look at it scope by scope"),
        ]
    rest = [(f"memorypipe apply {summary.run_id}{place}", "commit the rest")]
    scope = dict(changes[0]["scope"]) if changes else {}
    pairs = "".join(f" --scope {shlex.quote(f'{k}={v}')}" for k, v in sorted(scope.items()))
    steps = [(f"memorypipe show{pairs}{place}", "what is remembered")] if has_table else []
    if memory_id is not None:
        steps.append((f"memorypipe history {memory_id}{place}", "how a memory came about"))
    if summary.windows_failed:
        steps.append((f"memorypipe runs show {summary.run_id} --failed{place}", "what stays open"))
    return [*steps, *(rest if summary.scopes_left else [])]


def _some_memory(table: str, changes: Sequence[Mapping[str, Any]]) -> str | None:
    """Find a changed memory that the table has: one with a past before one without."""
    if not changes or not MemoryTable.exists(table):
        return None
    opened = MemoryTable.open(table, create=False)
    for change in sorted(changes, key=lambda c: c["event"] == "ADD"):
        memory_id = str(change["memory_id"])
        if opened.get(memory_id, include=("live", "deleted")) is not None:
            return memory_id
    return None
