"""The options of `ingest` and `flush`."""

from dataclasses import dataclass, fields
from typing import Annotated, Any

import typer

from memorypipe.cli.log_options import LogOptions
from memorypipe.cli.options import DEFAULT_TABLE, JsonOption, TableOption
from memorypipe.cli.part_options import options_with_part, run_of
from memorypipe.cli.run_options import RunOptions

__all__ = ["FlushOptions", "IngestOptions", "run_options"]

# What a run takes of a log: a flush takes what is pending instead.
_OF_A_LOG = {
    *(each.name for each in fields(LogOptions)),
    *("since", "until", "sample", "seed", "reprocess", "where", "label", "run_id"),
    *("max_rejected", "max_failed"),
}


@dataclass(frozen=True, kw_only=True)
class IngestOptions:
    """Options of `ingest`."""

    requests: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="JSON lines, one request each, with the fields of ingest_events: scope, "
            "stream_id, direct_contents_source, generation_trigger_config, config. "
            "- is standard input.",
        ),
    ]
    table: TableOption = DEFAULT_TABLE
    batch: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="Requests that are stored together, all of them or none."
        ),
    ] = 100
    json: JsonOption = False


def _flush(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Flush", **settings)


_OWN: list[tuple[str, Any, Any]] = [
    (
        "dry_run",
        Annotated[
            bool, _flush("--dry-run", help="Show what is due and why; make no memories of it.")
        ],
        False,
    ),
    (
        "watch",
        Annotated[
            bool,
            _flush(
                "--watch",
                help="Go on until interrupted, for machines without a scheduler; with --json a "
                "line per flush that found something.",
            ),
        ],
        False,
    ),
    (
        "every",
        Annotated[
            float,
            _flush("--every", metavar="SECONDS", min=1, help="With --watch: from one to the next."),
        ],
        60.0,
    ),
]

_SHARED = [each.name for each in fields(RunOptions) if each.name not in _OF_A_LOG]

FlushOptions: Any = options_with_part(
    "FlushOptions",
    "Options of `flush`: its own, and those of a run but for its log.",
    _OWN,
    _SHARED,
)


def run_options(options: Any) -> RunOptions:
    """Give the options of a flush as those of a run without a log."""
    return run_of(options, _SHARED)
