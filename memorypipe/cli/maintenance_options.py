"""The options of the commands that look after a table."""

from dataclasses import dataclass
from typing import Annotated

import typer

from memorypipe.cli.options import DEFAULT_TABLE, JsonOption, TableOption
from memorypipe.cli.table_options import MirrorOption

__all__ = ["ConfigureOptions", "EraseOptions", "OptimizeOptions", "UnblockOptions", "VacuumOptions"]


@dataclass(frozen=True, kw_only=True)
class OptimizeOptions:
    """Options of `optimize`."""

    table: TableOption = DEFAULT_TABLE
    json: JsonOption = False


@dataclass(frozen=True, kw_only=True)
class VacuumOptions:
    """Options of `vacuum`."""

    table: TableOption = DEFAULT_TABLE
    older_than: Annotated[
        float,
        typer.Option(
            metavar="DAYS",
            min=0,
            help="Age from which old versions and files that nothing names go; a commit under way "
            "must not take longer.",
        ),
    ] = 1.0
    json: JsonOption = False


@dataclass(frozen=True, kw_only=True)
class ConfigureOptions:
    """Options of `configure`."""

    table: TableOption = DEFAULT_TABLE
    revision_ttl_days: Annotated[
        str | None,
        typer.Option(
            "--revision-ttl-days",
            metavar="N|never",
            help="How long a revision is kept after it was superseded; for what is superseded "
            "from now on.",
        ),
    ] = None
    artifact_ttl_days: Annotated[
        str | None,
        typer.Option(
            "--artifact-ttl-days",
            metavar="N|never",
            help="How long journal, plans, rejects and reports are kept after the commit of "
            "their run.",
        ),
    ] = None
    json: JsonOption = False


@dataclass(frozen=True, kw_only=True)
class EraseOptions:
    """Options of `erase`."""

    requests: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help='JSON lines: {"scope": {"user_id": "u1"}}, {"source_id": "…"} or '
            '{"memory_id": "…"}, each with "id" and "reason" if you like.',
        ),
    ]
    receipt: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Where the receipt is written: what went, what was searched, what is out of "
            "reach. Outside the table's folder.",
        ),
    ] = None
    table: TableOption = DEFAULT_TABLE
    mirror: MirrorOption = None
    journal: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URI",
            help="A reply journal elsewhere whose replies go too; may be given several times.",
        ),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would go, and change nothing.")
    ] = False
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask. What is erased cannot be brought back.")
    ] = False
    json: JsonOption = False


@dataclass(frozen=True, kw_only=True)
class UnblockOptions:
    """Options of `unblock`."""

    scope: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=VALUE", help="A pair of the scope, as user_id=u1; once for each pair."
        ),
    ]
    table: TableOption = DEFAULT_TABLE
    json: JsonOption = False
