"""The options of `doctor`."""

from typing import Annotated, Any

import typer

from memorypipe.cli.part_options import options_with_part, run_of
from memorypipe.cli.run_options import RunOptions

__all__ = ["DoctorOptions", "names_model", "run_options"]

_MODEL = ("model", "base_url", "endpoint", "extract_endpoint", "decide_endpoint", "local_model")
_SHARED = (
    *("table", "json", *_MODEL, "config", "offline"),
    *("key_env", "key_file", "key_command", "param", "embedder", "journal"),
)
_ASK = Annotated[
    bool,
    typer.Option(
        "--ask",
        help="Send one short request to each model, of some 800 tokens, and ask the embedder for "
        "one vector.",
    ),
]

DoctorOptions: Any = options_with_part(
    "DoctorOptions", "Options of `doctor`.", [("ask", _ASK, False)], _SHARED
)


def names_model(options: Any) -> bool:
    """Tell whether the options name a model."""
    return options.offline or any(getattr(options, name) is not None for name in _MODEL)


def run_options(options: Any) -> RunOptions:
    """Give the options of a run that would ask the same model, without a log."""
    return run_of(options, _SHARED)
