"""`search`, `undo`, `forget` and `restore`: find memories, and change them by hand."""

import os
from pathlib import Path

from memorypipe.cli.change_options import (
    ForgetOptions,
    RestoreOptions,
    SearchOptions,
    UndoOptions,
)
from memorypipe.cli.embedder_choice import choose_if_named
from memorypipe.cli.exit_codes import ExitCode
from memorypipe.cli.output import Output
from memorypipe.cli.render_change import (
    change_value,
    changed_lines,
    found_lines,
    some_runs_lines,
    table_option,
)
from memorypipe.cli.render_table import MEMORY_COLUMNS, memory_value
from memorypipe.cli.table_commands import no_such_scope, open_table
from memorypipe.cli.undone_runs import closed_runs
from memorypipe.cli.values import parse_scope
from memorypipe.errors import InvalidArgumentError, UndoConflictError
from memorypipe.table.search import ALL
from memorypipe.table.table import MemoryTable
from memorypipe.table.transaction import CommitResult

__all__ = ["forget", "restore", "search", "undo"]


def search(options: SearchOptions) -> int:
    """Find the memories that fit a query best."""
    output = Output(as_json=options.json)
    scope = parse_scope(options.scope or [])
    if (scope is None) != options.all_scopes:
        raise InvalidArgumentError(
            "Say where to search: either --scope user_id=u1 (all pairs of the scope), or "
            "--all-scopes."
        )
    table = _open(options)
    found = table.search(
        scope=ALL if scope is None else scope,
        query=options.query,
        top_k=options.top_k,
        strategy=options.strategy,
    )
    rows = found.select([*MEMORY_COLUMNS, "score"]).to_pylist()
    value = {
        "query": options.query,
        "memories": [{**memory_value(row), "score": row["score"]} for row in rows],
    }
    output.result(value, found_lines(rows, table=options.table))
    if not (rows or scope is None or table.to_arrow(scope, ["memory_id"]).num_rows):
        output.note(no_such_scope(table, scope))
    return ExitCode.DONE


def undo(options: UndoOptions) -> int:
    """Take back what a run did, as a run of its own; without a run, list what could be."""
    output = Output(as_json=options.json)
    table = _open(options)
    if options.run is None:
        if options.reopen or options.cascade:
            raise InvalidArgumentError(
                "--reopen and --cascade need a run to undo; `memorypipe runs` lists them."
            )
        runs = table.runs().to_pylist()
        output.result(
            {"runs": runs, "table": options.table}, some_runs_lines(runs, table=options.table)
        )
        return ExitCode.DONE
    try:
        result = table.undo(options.run, reopen=options.reopen, cascade=options.cascade)
    except UndoConflictError as error:
        output.fail(str(error))
        return ExitCode.HELD
    nothing = f"{options.run} is undone already"
    note = _note_of_messages(table, options)
    return _report(output, table, result, what="undone", nothing=nothing, note=note)


def _note_of_messages(table: MemoryTable, options: UndoOptions) -> str | None:
    """Say whether the next run reads the messages of an undone run again."""
    if options.reopen:
        return f"the messages of {options.run} are open for the next run"
    if options.run not in closed_runs(table.runs().to_pylist()):
        return None
    again = f"memorypipe undo {options.run} --reopen{table_option(options.table)}"
    return f"its messages count as read; `{again}` lets the next run read them again"


def forget(options: ForgetOptions) -> int:
    """Delete memories so that the same evidence does not bring them back."""
    output = Output(as_json=options.json)
    scope = parse_scope(options.scope or [])
    table = open_table(options.table, mirror=options.mirror)
    if options.memory_id is None and scope is None and options.source is None:
        raise InvalidArgumentError(
            "Say what to forget: the ID of a memory, --scope user_id=u1, or --source ID."
        )
    result = table.forget(
        options.memory_id, scope=scope, source_id=options.source, record_type=options.record_type
    )
    return _report(
        output, table, result, what="forgotten", nothing="there is nothing of it, or no more"
    )


def restore(options: RestoreOptions) -> int:
    """Bring a deleted memory back as it was last."""
    output = Output(as_json=options.json)
    table = _open(options)
    result = table.restore(options.memory_id, record_type=options.record_type)
    return _report(output, table, result, what="restored", nothing="it is there already")


def _open(options: SearchOptions | UndoOptions | RestoreOptions) -> MemoryTable:
    """Open the table of a command that may need vectors."""
    embedder = choose_if_named(options.embedder, options.config, os.environ, Path())
    mirror = None if isinstance(options, SearchOptions) else options.mirror
    return open_table(options.table, embedder, mirror=mirror)


def _report(  # noqa: PLR0913  # one keyword per part of the sentence
    output: Output,
    table: MemoryTable,
    result: CommitResult,
    *,
    what: str,
    nothing: str,
    note: str | None = None,
) -> int:
    run_id = _run_of(table, result) if result.outcome == "landed" else None
    output.result(
        change_value(result, run_id=run_id, table=table.uri),
        changed_lines(
            result, what=what, nothing=nothing, run_id=run_id, table=table.uri, note=note
        ),
    )
    return ExitCode.DONE


def _run_of(table: MemoryTable, result: CommitResult) -> str | None:
    """Find the name that a commit was given."""
    runs = table.runs().select(["run_id", "commit_number"]).to_pylist()
    return next((run["run_id"] for run in runs if run["commit_number"] == result.version), None)
