"""Which embedder the options name: a built-in one, or an endpoint of `memorypipe.toml`."""

from collections.abc import Mapping
from pathlib import Path

from memorypipe.cli.endpoint_choice import find_file
from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.embed.resolve import NO_EMBEDDER, resolve_embedder
from memorypipe.llm.embed.types import Embedder

__all__ = ["choose_embedder", "choose_if_named"]


def choose_if_named(
    name: str | None, config: str | None, environ: Mapping[str, str], folder: Path
) -> Embedder | str | None:
    """Find the embedder of a name; None where there is no name. As `choose_embedder`."""
    return None if name is None else choose_embedder(name, config, environ, folder)


def choose_embedder(
    name: str, config: str | None, environ: Mapping[str, str], folder: Path
) -> Embedder | str:
    """Find the embedder of a name, as `MemoryTable.open` takes it.

    Args:
        name: Of ``--embedder``.
        config: Of ``--config``.
        environ: Where the file of endpoints may be named.
        folder: Where the file of endpoints is looked for.

    Raises:
        InvalidArgumentError: For an unknown name, with the choices; or a file that cannot work.
    """
    endpoints = find_file(config, environ, folder)
    try:
        return resolve_embedder(name, endpoints) or NO_EMBEDDER
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"--embedder: {error}") from error
