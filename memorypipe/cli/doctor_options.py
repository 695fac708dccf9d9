"""The options of `doctor`."""

from dataclasses import fields, make_dataclass
from typing import Annotated, Any

import typer

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

DoctorOptions: Any = make_dataclass(
    "DoctorOptions",
    [
        ("ask", _ASK, False),
        *(
            (each.name, each.type, each.default)
            for each in fields(RunOptions)
            if each.name in _SHARED
        ),
    ],
    frozen=True,
    kw_only=True,
)
DoctorOptions.__doc__ = """Options of `doctor`."""


def names_model(options: Any) -> bool:
    """Tell whether the options name a model."""
    return options.offline or any(getattr(options, name) is not None for name in _MODEL)


def run_options(options: Any) -> RunOptions:
    """Give the options of a run that would ask the same model, without a log."""
    return RunOptions(logs=[], **{name: getattr(options, name) for name in _SHARED})
