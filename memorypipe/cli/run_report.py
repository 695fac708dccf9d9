"""The closing report of a run: which of its changes are shown, and what to do next."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.cli.options import DEFAULT_TABLE
from memorypipe.cli.output import Output
from memorypipe.cli.render_run import choose_changes, summary_lines
from memorypipe.errors import ConflictError
from memorypipe.pipeline.plan import Plan
from memorypipe.pipeline.summary import RunSummary
from memorypipe.table.table import MemoryTable

__all__ = ["conflict_message", "next_steps", "report_run", "some_changes"]

_EXAMPLES = 10
_NAMED_MEMORIES = 3
_PLANNED_CHANGES = 100
_CHANGES = ("ADD", "UPDATE", "DELETE")


def report_run(
    output: Output, planned: Plan, summary: RunSummary, *, conflict: ConflictError | None = None
) -> None:
    """Tell how a run ended.

    Args:
        output: Where to.
        planned: The run's plan.
        summary: Its numbers.
        conflict: What held its commit back.
    """
    is_planned = summary.status == "planned"
    value = {**summary.to_dict(), "table": planned.table_uri}
    if conflict is not None:
        value["error"] = conflict_message(summary.run_id, conflict)
        output.error(value["error"])
    if output.as_json:
        output.result(value, ())
        return
    changes = some_changes(planned.actions(), _PLANNED_CHANGES if is_planned else _EXAMPLES)
    reasons = planned.open_windows()["reason"].to_pylist() if summary.windows_failed else []
    steps = next_steps(
        summary,
        changes,
        table=planned.table_uri,
        memory_id=None if is_planned else _some_memory(planned.table_uri, changes),
        has_table=MemoryTable.exists(planned.table_uri),
    )
    lines = summary_lines(
        summary, changes, table=planned.table_uri, next_steps=steps, open_reasons=reasons
    )
    output.result(value, lines)


def conflict_message(run_id: str, conflict: ConflictError) -> str:
    """Say what held a commit back, and what to do."""
    named = ", ".join(conflict.memory_ids[:_NAMED_MEMORIES])
    more = len(conflict.memory_ids) - _NAMED_MEMORIES
    return (
        f"Run {run_id!r} was held back, nothing of it is committed: memories that it changes have "
        f"changed since it was planned ({named}{f' and {more} more' if more > 0 else ''}). Run "
        "`memorypipe plan` or `backfill` again; what was answered is not paid again."
    )


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
    place = "" if table == DEFAULT_TABLE else f" --table {shlex.quote(table)}"
    if summary.status == "planned":
        return [(f"memorypipe apply {summary.run_id}{place}", "commit this plan")]
    if summary.status == "held":
        return []
    scope = dict(changes[0]["scope"]) if changes else {}
    pairs = "".join(f" --scope {shlex.quote(f'{k}={v}')}" for k, v in sorted(scope.items()))
    steps = [(f"memorypipe show{pairs}{place}", "what is remembered")] if has_table else []
    if memory_id is not None:
        steps.append((f"memorypipe history {memory_id}{place}", "how a memory came about"))
    if summary.windows_failed:
        steps.append((f"memorypipe runs show {summary.run_id} --failed{place}", "what stays open"))
    return steps


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
