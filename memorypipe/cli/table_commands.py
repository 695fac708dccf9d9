"""`show` and `history`: look into a memory table."""

from pathlib import Path
from typing import Any

from memorypipe.cli.exit_codes import ExitCode
from memorypipe.cli.options import HistoryOptions, ShowOptions
from memorypipe.cli.output import Output, shown_scope
from memorypipe.cli.render_change import table_option
from memorypipe.cli.render_table import (
    MEMORY_COLUMNS,
    history_lines,
    memory_lines,
    memory_value,
)
from memorypipe.cli.values import parse_moment, parse_names, parse_scope
from memorypipe.errors import PlanError, TableError, TableNotFoundError
from memorypipe.llm.embed.types import Embedder
from memorypipe.pipeline.runs.folder import RunFolder
from memorypipe.pipeline.runs.summary import RunSummary
from memorypipe.table.reading import Reader
from memorypipe.table.table import MemoryTable

__all__ = ["history", "no_such_scope", "open_table", "show"]

_TERMINAL_LIMIT = 50
_NAMED_SCOPES = 5


def open_table(
    uri: str, embedder: Embedder | str | None = None, *, mirror: str | None = None
) -> MemoryTable:
    """Open a table that is there.

    Args:
        uri: Its place.
        embedder: As for `MemoryTable.open`.
        mirror: As for `MemoryTable.open`.

    Raises:
        TableNotFoundError: If there is none.
    """
    if not MemoryTable.exists(uri):
        if planned := _planned_run(uri):
            raise TableNotFoundError(
                f"There is no memory table at {uri!r} yet, as nothing is committed; "
                f"`memorypipe apply {planned}{table_option(uri)}` commits what is planned there."
            )
        raise TableNotFoundError(
            f"There is no memory table at {uri!r}; pass --table, or make one with "
            "`memorypipe backfill`."
        )
    return MemoryTable.open(uri, create=False, embedder=embedder, mirror=mirror)


def _planned_run(uri: str) -> str | None:
    """Name a run beside a table that waits to be applied; of several, the one that is newest."""
    planned = []
    for path in (Path(uri) / "runs").glob("[!.]*"):
        try:
            record = RunFolder(path).read_json("run")
            RunFolder(path).read_json("manifest")
        except PlanError:  # it is being made, or was interrupted
            continue
        if RunSummary.from_dict(record).is_plan:
            planned.append((str(record.get("started_at")), path.name))
    return max(planned)[1] if planned else None


# People read a life in its order; what nothing dates comes last.
_SHOWN_ORDER = ("scope_key", "event_time", "memory_id", "revision")


def show(options: ShowOptions) -> int:
    """Show the memories of a table, those of one scope together."""
    output = Output(as_json=options.json)
    scope = parse_scope(options.scope or [])
    states = parse_names("--include", options.include or [])
    table: Reader = open_table(options.table)
    past = {}
    if options.as_of is not None:
        table = view = open_table(options.table).as_of(parse_moment("--as-of", options.as_of))
        past = {"version": view.version, "commit_time": view.commit_time}
    rows = table.to_arrow(scope, [*MEMORY_COLUMNS, "scope_key"], include={"live", *states})
    rows = rows.sort_by([(name, "ascending") for name in _SHOWN_ORDER])
    if scope is not None and not rows.num_rows:
        output.note(no_such_scope(table, scope))
    limit = options.limit or (_TERMINAL_LIMIT if output.is_terminal else None)
    shown = rows.slice(0, limit).to_pylist()
    value = {"memories": [memory_value(row) for row in shown], "total": rows.num_rows, **past}
    output.result(value, memory_lines(shown, total=rows.num_rows))
    return ExitCode.DONE


def no_such_scope(table: Reader, scope: dict[str, str]) -> str:
    """Say that a scope has no memories, and which ones have."""
    scopes = table.to_arrow(columns=["scope", "scope_key"]).to_pylist()
    known = {row["scope_key"]: shown_scope(row["scope"]) for row in scopes}
    named = ", ".join(list(known.values())[:_NAMED_SCOPES]) or "none"
    more = ", …" if len(known) > _NAMED_SCOPES else ""
    return (
        f"No memories in the scope {shown_scope(scope)}; scopes are matched whole: {named}{more}."
    )


def history(options: HistoryOptions) -> int:
    """Show all revisions of one memory, oldest first: what happened, when, why."""
    output = Output(as_json=options.json)
    table = open_table(options.table)
    found = table.history(options.memory_id, record_type=options.record_type)
    revisions: list[dict[str, Any]] = found.to_pylist()
    if not revisions:
        raise TableError(
            f"There is no memory {options.memory_id!r} in the table {options.table!r}; "
            "`memorypipe show` lists the ids."
        )
    value = {
        "memory_id": options.memory_id,
        "revisions": [memory_value(row) for row in revisions],
    }
    output.result(value, history_lines(revisions))
    return ExitCode.DONE
