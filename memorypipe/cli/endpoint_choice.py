"""Which endpoint of `memorypipe.toml` serves each stage: option, then environment, then file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from memorypipe.cli.model_choice import NamedEndpoints
from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.endpoints import STAGES, EndpointFile, load_endpoints

__all__ = [
    "CONFIG_FILE",
    "EndpointOptions",
    "endpoint_options",
    "find_endpoints",
    "find_file",
]

CONFIG_FILE = "memorypipe.toml"
"""The file of endpoints that is read from the current folder where no other is named."""

_CONFIG_VARIABLE = "MEMORYPIPE_CONFIG"


class EndpointOptions(Protocol):
    """The options that these functions look at."""

    @property
    def endpoint(self) -> str | None:
        """Endpoint of both stages."""

    @property
    def extract_endpoint(self) -> str | None:
        """Endpoint of the extraction."""

    @property
    def decide_endpoint(self) -> str | None:
        """Endpoint of the decisions."""

    @property
    def config(self) -> str | None:
        """The file."""


def endpoint_options(options: EndpointOptions) -> list[str]:
    """Give the options that name an endpoint and were given.

    Args:
        options: Of the command line.
    """
    names = ("endpoint", *(f"{stage}_endpoint" for stage in STAGES))
    given = [name for name in names if getattr(options, name) is not None]
    return ["--" + name.replace("_", "-") for name in given]


def find_endpoints(
    options: EndpointOptions, environ: Mapping[str, str], folder: Path
) -> NamedEndpoints | None:
    """Find the endpoint of each stage.

    Args:
        options: Of the command line.
        environ: With `MEMORYPIPE_CONFIG`, `MEMORYPIPE_ENDPOINT`, `MEMORYPIPE_EXTRACT_ENDPOINT`
            and `MEMORYPIPE_DECIDE_ENDPOINT`.
        folder: Where `CONFIG_FILE` is looked for.

    Returns:
        One endpoint per stage; None where nothing names one and there is no file.

    Raises:
        InvalidArgumentError: For a file that cannot work, a name that it does not have, and a
            stage without an endpoint.
    """
    asked = {stage: _asked(stage, options, environ) for stage in STAGES}
    file = find_file(options.config, environ, folder)
    if file is None:
        if any(asked.values()):
            name = next(filter(None, asked.values()))
            raise InvalidArgumentError(
                f"Endpoint {name!r} is asked for, but there is no file of endpoints: write "
                f"{CONFIG_FILE} into this folder, or name one by --config or {_CONFIG_VARIABLE}."
            )
        return None
    names = {stage: asked[stage] or file.stages.get(stage) for stage in STAGES}
    for stage in STAGES:
        if names[stage] is None:
            raise InvalidArgumentError(
                f"{file.path} gives stage {stage!r} no endpoint: add it under [stages], or name "
                f"one by --endpoint or --{stage}-endpoint. "
                f"Endpoints: {', '.join(sorted(file)) or 'none'}."
            )
    extract, decide = (file[str(names[stage])] for stage in STAGES)
    return NamedEndpoints(extract=extract, decide=decide)


def _asked(stage: str, options: EndpointOptions, environ: Mapping[str, str]) -> str | None:
    """Give what options or environment say about a stage; what is said of it alone goes first."""
    return (
        getattr(options, f"{stage}_endpoint")
        or options.endpoint
        or environ.get(f"MEMORYPIPE_{stage.upper()}_ENDPOINT")
        or environ.get("MEMORYPIPE_ENDPOINT")
        or None
    )


def find_file(config: str | None, environ: Mapping[str, str], folder: Path) -> EndpointFile | None:
    """Find and read the file of endpoints; None where there is none.

    Args:
        config: The file that an option names.
        environ: With `MEMORYPIPE_CONFIG`.
        folder: Where `CONFIG_FILE` is looked for.

    Raises:
        InvalidArgumentError: For a file that cannot work.
    """
    if named := config or environ.get(_CONFIG_VARIABLE):
        return load_endpoints(named)
    path = folder / CONFIG_FILE
    return load_endpoints(path) if path.is_file() else None
