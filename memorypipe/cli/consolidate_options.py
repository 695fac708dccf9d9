"""The options of `consolidate`: those of a run that have to do with decisions."""

from typing import Annotated, Any

import typer

from memorypipe.cli.part_options import options_with_part, run_of
from memorypipe.cli.run_options import RunOptions

__all__ = ["ConsolidateOptions", "run_options"]

_SHARED = (
    *("table", "json"),
    *("model", "base_url", "endpoint", "decide_endpoint", "config", "offline", "local_model"),
    *("key_env", "key_file", "key_command", "param"),
    *("max_qps", "max_concurrency", "max_tokens_per_minute", "max_retries"),
    *("price_in", "price_out", "max_cost", "max_total_tokens", "max_calls", "budget"),
    *("hint", "lookup", "embedder", "facts_per_call"),
    *("journal", "run_id", "ray_address", "max_failed"),
)
_SCOPE = Annotated[
    list[str] | None,
    typer.Option(
        "--scope",
        metavar="NAME=VALUE",
        help="Only this scope, e.g. user_id=u1. Repeatable, all pairs.",
    ),
]
_AGAIN = Annotated[
    bool,
    typer.Option("--again", help="Compare again what earlier consolidations have compared."),
]
_YES = Annotated[bool, typer.Option("--yes", help="Commit the plan at once.")]

ConsolidateOptions: Any = options_with_part(
    "ConsolidateOptions",
    "Options of `consolidate`.",
    [("scope", _SCOPE, None), ("again", _AGAIN, False), ("yes", _YES, False)],
    _SHARED,
)


def run_options(options: Any) -> RunOptions:
    """Give the options of a run without a log, for what runs share."""
    return run_of(options, _SHARED)
