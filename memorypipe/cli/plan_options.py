"""The options of the commands that look at plans: diff, filter and compare."""

from dataclasses import dataclass
from typing import Annotated

import typer

from memorypipe.cli.options import DEFAULT_TABLE, JsonOption, TableOption

__all__ = ["CommitEveryOption", "CompareOptions", "DiffOptions", "FilterOptions"]

CommitEveryOption = Annotated[
    int | None,
    typer.Option(
        "--commit-every",
        metavar="N",
        min=1,
        help="Commit N scopes at a time; undo takes all commits of the run back together.",
        rich_help_panel="Commit",
    ),
]
_Limit = Annotated[
    int | None,
    typer.Option(
        "--limit",
        metavar="N",
        min=1,
        help="Show at most N changes (100 on a terminal, else 1,000).",
    ),
]


@dataclass(frozen=True, kw_only=True)
class DiffOptions:
    """Options of `diff`."""

    run: Annotated[str, typer.Argument(metavar="RUN", help="Id of the planned run.")]
    table: TableOption = DEFAULT_TABLE
    json: JsonOption = False
    limit: _Limit = None


@dataclass(frozen=True, kw_only=True)
class FilterOptions:
    """Options of `filter`."""

    run: Annotated[str, typer.Argument(metavar="RUN", help="Id of the planned run.")]
    where: Annotated[
        str,
        typer.Option(
            "--where",
            metavar="CONDITION",
            help="The actions to keep, as SQL over the columns of a plan's actions: event (ADD, "
            "UPDATE, DELETE, NONE), text, old_memory, rationale, memory_id, scope.NAME, "
            "event_time, conversation_id, window_id, source_ids, topics, context. E.g. "
            "\"event = 'DELETE' and scope.user_id = 'u1'\", \"text like '%tea%'\", "
            "\"event_time < timestamp '2024-05-01T00:00:00Z'\".",
        ),
    ]
    leave_open: Annotated[
        bool,
        typer.Option(
            "--leave-open",
            help="Let the next run take the windows of dropped actions up again; else they count "
            "as done.",
        ),
    ] = False
    table: TableOption = DEFAULT_TABLE
    json: JsonOption = False


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Options of `compare`."""

    run_a: Annotated[str, typer.Argument(metavar="A", help="Id of a planned run.")]
    run_b: Annotated[str, typer.Argument(metavar="B", help="Id of another one.")]
    table: TableOption = DEFAULT_TABLE
    json: JsonOption = False
    limit: _Limit = None
