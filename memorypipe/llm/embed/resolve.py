"""From what a caller says to the embedder that is meant."""

from collections.abc import Mapping
from inspect import getattr_static
from typing import Any

from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.embed.types import Embedder
from memorypipe.llm.embed.wordllama import WORDLLAMA_NAME, WordLlamaEmbedder, has_wordllama
from memorypipe.llm.endpoints import Endpoint

__all__ = ["NO_EMBEDDER", "default_embedder", "find_local", "resolve_embedder"]

NO_EMBEDDER = "none"
"""Says that there shall be no vectors."""

_WORDLLAMA = "wordllama"
_PARTS = ("name", "dim", "embed")


def resolve_embedder(
    value: Any, endpoints: Mapping[str, Endpoint] | None = None
) -> Embedder | None:
    """Give the embedder that a value means.

    Args:
        value: ``"wordllama"``, ``"none"``, the name of an endpoint, or an embedder.
        endpoints: As from `memorypipe.llm.endpoints.load_endpoints`; None: there are none.

    Returns:
        The embedder; None for ``"none"``.

    Raises:
        InvalidArgumentError: For anything else, and for ``"wordllama"`` where the extra
            ``embed`` is not installed.

    Example:
        >>> resolve_embedder("wordllama").name, resolve_embedder("none")
        ('wordllama/l2_supercat/256', None)
    """
    if not isinstance(value, str):
        # Not looked up but seen to be there: an endpoint would be asked for its width.
        if all(getattr_static(value, name, None) is not None for name in _PARTS):
            embedder: Embedder = value
            return embedder
        raise InvalidArgumentError(
            "embedder must be 'wordllama', 'none', or an object with `name`, `dim`, `max_chars` "
            f"and `embed` as memorypipe.llm.embed.types.Embedder has them, got "
            f"{type(value).__name__}."
        )
    if value == NO_EMBEDDER:
        return None
    if value == _WORDLLAMA:
        if not has_wordllama():
            raise InvalidArgumentError(
                "embedder 'wordllama' needs the package wordllama: install memorypipe[embed], or "
                "choose another embedder, or 'none'."
            )
        return WordLlamaEmbedder()
    names = tuple(endpoints or ())
    if endpoints is not None and value in names:
        # Sending is slow to import, and mostly nobody asks for it.
        from memorypipe.llm.embed.endpoint import EndpointEmbedder  # noqa: PLC0415  # see above

        return EndpointEmbedder(endpoints[value].spec())
    choices = (_WORDLLAMA, NO_EMBEDDER, *names)
    raise InvalidArgumentError(f"Unknown embedder {value!r}; choices: {choices!r}.")


def default_embedder() -> Embedder | None:
    """Give the embedder of a new table where nobody chose one."""
    return WordLlamaEmbedder() if has_wordllama() else None


def find_local(name: str) -> Embedder | None:
    """Give the embedder of a name where it needs no address and no key; else None."""
    return WordLlamaEmbedder() if name == WORDLLAMA_NAME else None
