"""The options of `reembed`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from memorypipe.cli.options import DEFAULT_TABLE, ConfigOption, JsonOption, TableOption
from memorypipe.cli.table_options import MirrorOption

__all__ = ["ReembedOptions"]


@dataclass(frozen=True, kw_only=True)
class ReembedOptions:
    """Options of `reembed`."""

    embedder: Annotated[
        str,
        typer.Option(
            "--embedder",
            metavar="NAME",
            help="What makes the vectors from now on: wordllama, none, or an endpoint of "
            "memorypipe.toml.",
        ),
    ]
    table: TableOption = DEFAULT_TABLE
    mirror: MirrorOption = None
    config: ConfigOption = None
    json: JsonOption = False
