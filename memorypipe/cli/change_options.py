"""The options of the commands that find and change memories: search, undo, forget, restore."""

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from memorypipe.cli.options import (
    DEFAULT_TABLE,
    ConfigOption,
    EmbedderOption,
    JsonOption,
    TableOption,
)
from memorypipe.cli.table_options import MirrorOption, RecordTypeOption

__all__ = ["ForgetOptions", "RestoreOptions", "SearchOptions", "UndoOptions"]


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Options of `search`."""

    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for, in any words.")]
    table: TableOption = DEFAULT_TABLE
    json: JsonOption = False
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="In this scope, e.g. user_id=u1. Repeatable, all pairs."
        ),
    ] = None
    all_scopes: Annotated[
        bool, typer.Option("--all-scopes", help="In the memories of everybody.")
    ] = False
    strategy: Annotated[
        Literal["auto", "keyword", "vector", "hybrid"],
        typer.Option(
            "--strategy", help="By words, by meaning, by both; auto: both where there are vectors."
        ),
    ] = "auto"
    embedder: EmbedderOption = None
    config: ConfigOption = None
    top_k: Annotated[
        int, typer.Option("--top-k", metavar="N", min=1, help="At most so many memories.")
    ] = 10


@dataclass(frozen=True, kw_only=True)
class UndoOptions:
    """Options of `undo`."""

    run: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="Id of the run; without it, what could be undone."),
    ] = None
    reopen: Annotated[
        bool,
        typer.Option("--reopen", help="Let the next run take the messages of the run up again."),
    ] = False
    cascade: Annotated[
        bool, typer.Option("--cascade", help="Undo later runs that built on it, too.")
    ] = False
    table: TableOption = DEFAULT_TABLE
    mirror: MirrorOption = None
    embedder: EmbedderOption = None
    config: ConfigOption = None
    json: JsonOption = False


@dataclass(frozen=True, kw_only=True)
class ForgetOptions:
    """Options of `forget`."""

    memory_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="One memory, by its id from `show`.")
    ] = None
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="All memories of this scope, e.g. user_id=u1. Repeatable, all pairs.",
        ),
    ] = None
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="ID", help="All memories that came from this message."),
    ] = None
    record_type: RecordTypeOption = None
    table: TableOption = DEFAULT_TABLE
    mirror: MirrorOption = None
    json: JsonOption = False


@dataclass(frozen=True, kw_only=True)
class RestoreOptions:
    """Options of `restore`."""

    memory_id: Annotated[str, typer.Argument(metavar="ID", help="Id of a deleted memory.")]
    record_type: RecordTypeOption = None
    table: TableOption = DEFAULT_TABLE
    mirror: MirrorOption = None
    embedder: EmbedderOption = None
    config: ConfigOption = None
    json: JsonOption = False
