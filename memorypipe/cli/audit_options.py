"""The options of `audit`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from memorypipe.cli.options import DEFAULT_TABLE, JsonOption, TableOption

__all__ = ["AuditOptions"]


def _most(what: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        metavar="N|SHARE",
        help=f"More {what} than this end with exit code 3: a count, or 0.01, or 1%.",
        rich_help_panel="Outcome",
    )
    return option


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """Options of `audit`."""

    table: TableOption = DEFAULT_TABLE
    json: JsonOption = False
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Only this scope, e.g. user_id=u1. Repeatable, all pairs."
        ),
    ] = None
    examples: Annotated[
        int, typer.Option(metavar="N", min=0, help="Memories that each check shows.")
    ] = 3
    large_scope: Annotated[
        int,
        typer.Option(
            "--large-scope", metavar="N", min=1, help="A scope with more memories is told of."
        ),
    ] = 1000
    max_duplicates: Annotated[str | None, _most("duplicates")] = None
    max_near_duplicates: Annotated[str | None, _most("near duplicates")] = None
    max_contradictions: Annotated[str | None, _most("contradictions")] = None
    max_orphans: Annotated[str | None, _most("orphans")] = None
    max_junk: Annotated[str | None, _most("junk memories")] = None
