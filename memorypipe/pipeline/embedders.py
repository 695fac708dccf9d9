"""Which embedder a run's memories get, made sure of before anything is paid for."""

from typing import Any

from memorypipe.errors import PlanError
from memorypipe.llm.embed.resolve import (
    NO_EMBEDDER,
    default_embedder,
    find_local,
    resolve_embedder,
)
from memorypipe.llm.embed.types import Embedder
from memorypipe.llm.embed.unit_vectors import embed_texts
from memorypipe.table.table import MemoryTable

__all__ = ["embedder_to_apply", "embedder_to_plan"]

_PROBE = "Likes tea."


def embedder_to_plan(chosen: Any, table: MemoryTable | None) -> Embedder | None:
    """Find the embedder of the memories that are going to be planned.

    One behind an endpoint is asked for a vector: a key that does not work shows now, and not
    when everything else is paid for.

    Args:
        chosen: As for `MemoryTable.open`.
        table: Opened with it; None where it is yet to be made.

    Returns:
        The embedder; None where there shall be no vectors.

    Raises:
        TableError: Where the table's embedder is not given.
        ModelError: Where the embedder gives no vector.
    """
    if table is not None:
        embedder = table.find_embedder()
    else:
        embedder = default_embedder() if chosen is None else resolve_embedder(chosen)
    if embedder is not None and find_local(embedder.name) is None:
        embed_texts(embedder, [_PROBE])
    return embedder


def embedder_to_apply(chosen: Any, planned: str | None, uri: str) -> Any:
    """Find what to open a table with when a plan is committed.

    Args:
        chosen: As for `MemoryTable.open`.
        planned: The name of the embedder that the plan was made for, ``"none"`` for no vectors;
            None where the plan does not say.
        uri: Of the table.

    Raises:
        PlanError: Where a new table needs an embedder that was not given.
    """
    if chosen is not None or planned is None or MemoryTable.exists(uri):
        return chosen
    if planned == NO_EMBEDDER:
        return planned
    if (local := find_local(planned)) is not None:
        return local
    raise PlanError(
        f"The plan was made for a new table with the vectors of embedder {planned!r}: give that "
        "embedder, on the command line with --embedder."
    )
