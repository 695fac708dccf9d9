"""`reembed`: move a table to another embedder."""

import os
from pathlib import Path
from typing import Any

from rich.text import Text

from memorypipe.cli.embedder_choice import choose_embedder
from memorypipe.cli.exit_codes import ExitCode
from memorypipe.cli.output import Output
from memorypipe.cli.reembed_options import ReembedOptions
from memorypipe.cli.table_commands import open_table

__all__ = ["reembed"]


def reembed(options: ReembedOptions) -> int:
    """Give all memories the vectors of another embedder, in one commit."""
    output = Output(as_json=options.json)
    chosen = choose_embedder(options.embedder, options.config, os.environ, Path())
    table = open_table(options.table, mirror=options.mirror)
    before = table.embedder
    result = table.reembed(chosen)
    value: dict[str, Any] = {
        "outcome": result.outcome,
        "version": result.version,
        "memories": table.count(),
        "embedder": table.embedder,
        "embedder_before": before,
        "vector_dim": table.vector_dim,
    }
    output.result(value, [Text(_told(value))])
    return ExitCode.DONE


def _told(value: dict[str, Any]) -> str:
    after, before = value["embedder"] or "none", value["embedder_before"] or "none"
    if value["outcome"] == "nothing":
        return f"The table has the vectors of {after} already; nothing was changed."
    return (
        f"{value['memories']} memories moved from embedder {before} to {after} "
        f"({value['vector_dim']} dimensions); version {value['version']}."
    )
