"""The options of the commands that commit: how much of a scope a run may delete."""

from dataclasses import dataclass
from typing import Annotated

import typer

from memorypipe.cli.options import ApplyOptions
from memorypipe.cli.plan_options import CommitEveryOption
from memorypipe.cli.run_options import RunOptions
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
    """Options of `backfill`: those of `plan`, how it is committed, and a mirror."""

    mirror: MirrorOption = None
    commit_every: CommitEveryOption = None
    max_retired: _MaxRetired = "auto"
    accept_guard: _AcceptGuard = None


@dataclass(frozen=True, kw_only=True)
class CommitOptions(ApplyOptions):
    """Options of `apply`."""

    sample: Annotated[
        str | None,
        typer.Option(
            "--sample",
            metavar="SHARE",
            help="Only this share of the scopes, whole ones: 0.5%. A smaller sample lies within a "
            "larger one; apply without it commits the rest.",
            rich_help_panel="Commit",
        ),
    ] = None
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            metavar="S",
            help="Another seed takes other scopes (0).",
            rich_help_panel="Commit",
        ),
    ] = None
    commit_every: CommitEveryOption = None
    max_retired: _MaxRetired = "auto"
    accept_guard: _AcceptGuard = None
