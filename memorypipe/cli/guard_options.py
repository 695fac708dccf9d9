"""The options of the commands that commit: how much of a scope a run may delete."""

from dataclasses import dataclass
from typing import Annotated

import typer

from memorypipe.cli.options import ApplyOptions, RunOptions
from memorypipe.cli.table_options import MirrorOption

__all__ = ["BackfillOptions", "CommitOptions"]

_MaxRetired = Annotated[
    str,
    typer.Option(
        "--max-retired",
        metavar="N|none",
        help="Memories of one scope that the run may delete; a scope with more is held back "
        "(auto: 10, or half of its memories).",
        rich_help_panel="Outcome",
    ),
]
_AcceptGuard = Annotated[
    list[str] | None,
    typer.Option(
        "--accept-guard",
        metavar="SCOPE",
        help="Let this scope through, e.g. user_id=u1, or user_id=u1,agent_id=a1. Repeatable.",
        rich_help_panel="Outcome",
    ),
]


@dataclass(frozen=True, kw_only=True)
class BackfillOptions(RunOptions):
    """Options of `backfill`: those of `plan`, what may be deleted, and a mirror."""

    mirror: MirrorOption = None
    max_retired: _MaxRetired = "auto"
    accept_guard: _AcceptGuard = None


@dataclass(frozen=True, kw_only=True)
class CommitOptions(ApplyOptions):
    """Options of `apply`."""

    max_retired: _MaxRetired = "auto"
    accept_guard: _AcceptGuard = None
