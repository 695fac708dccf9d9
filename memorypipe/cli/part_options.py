"""Commands that take a part of the options of a run, beside their own."""

from collections.abc import Collection, Sequence
from dataclasses import fields, make_dataclass
from typing import Any

from memorypipe.cli.run_options import RunOptions

__all__ = ["options_with_part", "run_of"]


def options_with_part(
    name: str, doc: str, own: Sequence[tuple[str, Any, Any]], shared: Collection[str]
) -> Any:
    """Make the class of a command's options.

    Args:
        name: Of the class.
        doc: Its docstring.
        own: Name, annotation and default of each option of the command's own.
        shared: Names of the options of `RunOptions` that it takes too.
    """
    part = [(each.name, each.type, each.default) for each in fields(RunOptions)]
    return make_dataclass(
        name,
        [*own, *(option for option in part if option[0] in shared)],
        frozen=True,
        kw_only=True,
        namespace={"__doc__": doc},
    )


def run_of(options: Any, shared: Collection[str]) -> RunOptions:
    """Give the options of a run without a log, for what a command shares with runs."""
    return RunOptions(logs=[], **{name: getattr(options, name) for name in shared})
