"""The options of `report`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from memorypipe.cli.options import DEFAULT_TABLE, JsonOption, TableOption

__all__ = ["ReportOptions"]


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """Options of `report`."""

    run: Annotated[str, typer.Argument(metavar="RUN", help="Id of the run.")]
    html: Annotated[str, typer.Option("--html", metavar="FILE", help="Where the page is written.")]
    changes: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Changes that are shown with their texts; 0: no text at all."
        ),
    ] = 500
    table: TableOption = DEFAULT_TABLE
    json: JsonOption = False
