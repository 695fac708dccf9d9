"""The options of the journal commands."""

from dataclasses import dataclass
from typing import Annotated

import typer

from memorypipe.cli.options import DEFAULT_TABLE, JsonOption, TableOption

__all__ = ["JournalCompactOptions", "JournalShowOptions"]

_Uri = Annotated[
    str | None,
    typer.Argument(
        metavar="[URI]",
        help="A folder, or s3://, gs://, az://; without it, the folder 'journal' of --table.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class JournalShowOptions:
    """Options of `journal show`."""

    uri: _Uri = None
    table: TableOption = DEFAULT_TABLE
    json: JsonOption = False


@dataclass(frozen=True, kw_only=True)
class JournalCompactOptions:
    """Options of `journal compact`."""

    uri: _Uri = None
    table: TableOption = DEFAULT_TABLE
    drop_unusable: Annotated[
        bool,
        typer.Option(
            "--drop-unusable",
            help="Leave out replies that could not be used: they are evidence, and runs repeated "
            "from the journal alone need them.",
        ),
    ] = False
    json: JsonOption = False
