"""The options of the commands that move memories in and out: `export`, `import`, `verify`."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from memorypipe.cli.options import (
    DEFAULT_TABLE,
    ConfigOption,
    EmbedderOption,
    JsonOption,
    TableOption,
)
from memorypipe.cli.table_options import BackendOption, IdKeyOption, MirrorOption

__all__ = ["ExportOptions", "ImportOptions", "MappingOptions", "VerifyOptions"]


def _mapping(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="What is what in the export", **settings)


_From = Annotated[
    Literal["jsonl", "parquet", "mem0"],
    _mapping(
        "--from",
        help="jsonl: JSON lines or a JSON list, also an export of ours; parquet; mem0: what its "
        "get_all gives.",
    ),
]
_Map = Annotated[
    list[str] | None,
    _mapping(
        "--map",
        metavar="WHAT=FIELD",
        help="text=note takes the text from the field 'note'; likewise memory_id, external_id, "
        "event_time, created_at, updated_at, expires_at, topics, metadata, context, vector and "
        "others. Repeatable; by default the field of the same name.",
    ),
]
_Scope = Annotated[
    list[str] | None,
    _mapping(
        "--scope",
        metavar="NAME=FIELD",
        help="Whose memories: user_id=uid takes the field 'uid', user_id==u1 is the constant "
        "'u1'. Repeatable; by default the field 'scope', or mem0's ids.",
    ),
]
_ScopeKeys = Annotated[
    list[str] | None,
    _mapping(
        "--scope-keys",
        metavar="K1,K2",
        help="The parts that make the scope, e.g. user_id; the others go to the metadata.",
    ),
]
_Store = Annotated[
    str | None,
    _mapping(
        "--store",
        metavar="NAME",
        help="The store that the export comes from, by any name that you keep to: its ids mean "
        "the same within it (mem0).",
    ),
]
_Keep = Annotated[
    list[str] | None,
    _mapping("--keep", metavar="F1,F2", help="Further fields to keep, in the metadata."),
]


@dataclass(frozen=True, kw_only=True)
class MappingOptions:
    """Options that say which field of an export is what."""

    source: _From
    map: _Map = None
    scope: _Scope = None
    scope_keys: _ScopeKeys = None
    keep: _Keep = None
    store: _Store = None


@dataclass(frozen=True, kw_only=True)
class ImportOptions(MappingOptions):
    """Options of `import`."""

    path: Annotated[
        str, typer.Argument(metavar="PATH", help="The export: a file, a folder or a pattern.")
    ]
    table: TableOption = DEFAULT_TABLE
    json: JsonOption = False
    yes: Annotated[
        bool,
        typer.Option("--yes", "-y", help="Commit at once; else the plan waits for `apply`."),
    ] = False
    backend: BackendOption = None
    id_key: IdKeyOption = None
    mirror: MirrorOption = None
    update: Annotated[
        bool,
        typer.Option(
            "--update",
            help="Update what has the id of a record also where no --store tells that both come "
            "from the same; else such records are rejected.",
        ),
    ] = False
    vectors_by: Annotated[
        str | None,
        _mapping(
            "--vectors-by",
            metavar="NAME",
            help="The embedder that made the vectors of the export, none where they are your own: "
            "they are taken over where it is the table's; else the table makes them anew.",
        ),
    ] = None
    embedder: EmbedderOption = None
    config: ConfigOption = None
    run_id: Annotated[
        str | None,
        typer.Option("--run-id", metavar="NAME", help="Names the run (derived from the export)."),
    ] = None
    max_rejected: Annotated[
        str,
        typer.Option(
            metavar="N|SHARE",
            help="Unreadable records that still end with exit code 0: a count, or 0.01, or 1%.",
        ),
    ] = "0"


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(MappingOptions):
    """Options of `verify`."""

    against: Annotated[
        str,
        typer.Option("--against", metavar="PATH", help="The export that was imported."),
    ]
    table: TableOption = DEFAULT_TABLE
    json: JsonOption = False


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Options of `export`."""

    out: Annotated[
        str, typer.Option("--out", metavar="PATH", help="The file to write; it is replaced.")
    ]
    table: TableOption = DEFAULT_TABLE
    json: JsonOption = False
    format: Annotated[
        Literal["parquet", "jsonl"] | None,
        typer.Option("--format", help="By default what the name of the file ends in."),
    ] = None
    history: Annotated[
        bool,
        typer.Option(
            "--history/--live",
            help="All revisions, deleted memories too; or what is live now (the default).",
        ),
    ] = False
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Only this scope, e.g. user_id=u1. Repeatable, all pairs."
        ),
    ] = None
