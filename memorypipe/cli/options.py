"""The options of the commands: each class is at once the declaration and the values."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, TypeVar

import typer

from memorypipe.cli.table_options import BackendOption, IdKeyOption, MirrorOption, RecordTypeOption

__all__ = [
    "DEFAULT_TABLE",
    "ApplyOptions",
    "ConfigOption",
    "EmbedderOption",
    "HistoryOptions",
    "JsonOption",
    "MaxFailedOption",
    "MaxRejectedOption",
    "RunsOptions",
    "RunsShowOptions",
    "ShowOptions",
    "TableOption",
    "as_command",
]

DEFAULT_TABLE = "./memories"

OptionsT = TypeVar("OptionsT")

TableOption = Annotated[
    str,
    typer.Option(
        "--table", metavar="URI", envvar="MEMORYPIPE_TABLE", help="Where the memory table is."
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on standard output, nothing else.")
]
EmbedderOption = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        metavar="NAME",
        help="What makes the memories' vectors: wordllama, none, or an endpoint of "
        "memorypipe.toml (the table's own; for a new one wordllama where it is installed).",
        rich_help_panel="Memories",
    ),
]
ConfigOption = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="File of endpoints; else what MEMORYPIPE_CONFIG names, else ./memorypipe.toml "
        "where there is one.",
    ),
]
MaxRejectedOption = Annotated[
    str,
    typer.Option(
        metavar="N|SHARE",
        help="Unreadable log lines that still end with exit code 0: a count, or 0.01, or 1%.",
        rich_help_panel="Outcome",
    ),
]
MaxFailedOption = Annotated[
    str,
    typer.Option(
        metavar="N|SHARE",
        help="Windows left open that still end with exit code 0.",
        rich_help_panel="Outcome",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ApplyOptions:
    """Options of `apply`."""

    run: Annotated[str, typer.Argument(metavar="RUN", help="Id of the planned run.")]
    table: TableOption = DEFAULT_TABLE
    backend: BackendOption = None
    id_key: IdKeyOption = None
    mirror: MirrorOption = None
    json: JsonOption = False
    embedder: EmbedderOption = None
    config: ConfigOption = None
    max_rejected: MaxRejectedOption = "0"
    max_failed: MaxFailedOption = "0"


@dataclass(frozen=True, kw_only=True)
class ShowOptions:
    """Options of `show`."""

    table: TableOption = DEFAULT_TABLE
    json: JsonOption = False
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Only this scope, e.g. user_id=u1. Repeatable, all pairs."
        ),
    ] = None
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of", metavar="TIME|VERSION", help="As the table stood then; 0 is its beginning."
        ),
    ] = None
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATES", help="Also show: history, deleted, invalid, expired (commas)."
        ),
    ] = None
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="At most N memories (50 on a terminal, else all)."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class HistoryOptions:
    """Options of `history`."""

    memory_id: Annotated[str, typer.Argument(metavar="ID", help="Id of a memory, from `show`.")]
    record_type: RecordTypeOption = None
    table: TableOption = DEFAULT_TABLE
    json: JsonOption = False


@dataclass(frozen=True, kw_only=True)
class RunsOptions:
    """Options of `runs list`."""

    table: TableOption = DEFAULT_TABLE
    json: JsonOption = False


@dataclass(frozen=True, kw_only=True)
class RunsShowOptions:
    """Options of `runs show`."""

    run: Annotated[str, typer.Argument(metavar="RUN", help="Id of the run.")]
    failed: Annotated[
        bool, typer.Option("--failed", help="Only the windows that stay open, with the reasons.")
    ] = False
    table: TableOption = DEFAULT_TABLE
    json: JsonOption = False


def as_command(run: Callable[[OptionsT], int], options: type[OptionsT]) -> Callable[..., int]:
    """Make the function that the command line calls with one argument per option.

    Args:
        run: Does the work; gives the exit code.
        options: A dataclass whose fields are annotated with their command-line options.
    """

    def command(**values: Any) -> int:
        return run(options(**values))

    declared = fields(options)  # type: ignore[arg-type]  # no bound says "a dataclass type"
    signature = inspect.Signature(
        [
            inspect.Parameter(
                each.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if each.default is MISSING else each.default,
                annotation=each.type,
            )
            for each in declared
        ]
    )
    command.__signature__ = signature  # type: ignore[attr-defined]  # what `inspect` looks for
    command.__annotations__ = {each.name: each.type for each in declared}
    command.__doc__ = run.__doc__
    return command
