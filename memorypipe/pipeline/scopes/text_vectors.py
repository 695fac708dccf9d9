"""The vectors that lookups of a run rank by: those of the table, and those made on the way."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memorypipe.errors import ModelError
from memorypipe.llm.embed.resolve import default_embedder, find_local, resolve_embedder
from memorypipe.llm.embed.types import Embedder
from memorypipe.llm.embed.unit_vectors import embed_texts
from memorypipe.pipeline.scopes.settings import ConsolidationSettings
from memorypipe.table.table import MemoryTable

__all__ = ["TextVectors", "local_embedder", "settled_settings", "warm_up"]


class TextVectors:
    """Vectors by text; made when they are first needed, a batch at a time.

    Args:
        embedder: What makes them; None: nothing needs any.
        known: Vectors that are there already.

    Attributes:
        by_text: Those that there are so far.
    """

    def __init__(
        self, embedder: Embedder | None, known: Mapping[str, NDArray[np.float32]] | None = None
    ) -> None:
        self._embedder = embedder
        self.by_text: dict[str, NDArray[np.float32]] = dict(known or {})

    async def need(self, texts: Sequence[str]) -> None:
        """Make the vectors of texts that have none; blank ones have none ever.

        Raises:
            ModelError: Where the embedder fails.
        """
        new = [t for t in dict.fromkeys(texts) if t.strip() and t not in self.by_text]
        if self._embedder is None or not new:
            return
        if find_local(self._embedder.name) is not None:
            # A few milliseconds of work: no other thread would have it done sooner.
            vectors = embed_texts(self._embedder, new)
        else:
            vectors = await asyncio.to_thread(embed_texts, self._embedder, new)
        self.by_text |= zip(new, vectors, strict=True)


def warm_up(embedder: Embedder) -> None:
    """Load what an embedder of this process needs; what it fails with shows when it is used."""
    with contextlib.suppress(ModelError):
        if find_local(embedder.name) is not None:
            embedder.embed(["warm"])


def settled_settings(
    settings: ConsolidationSettings, embedder: Embedder | None
) -> ConsolidationSettings:
    """Decide what a lookup of strategy ``"auto"`` does with this embedder, or without one.

    Raises:
        InvalidArgumentError: For a strategy that needs an embedder where there is none.
    """
    lookup = settings.lookup.settled(has_embedder=embedder is not None)
    return replace(settings, lookup=lookup)


def local_embedder(chosen: Any, table: MemoryTable | None) -> Embedder | None:
    """Find the embedder of a run's memories where asking it costs nothing; else None.

    Args:
        chosen: As for `MemoryTable.open`.
        table: None where it is yet to be made.
    """
    if table is not None:
        name = table.embedder
    else:
        embedder = default_embedder() if chosen is None else resolve_embedder(chosen)
        name = None if embedder is None else embedder.name
    return None if name is None else find_local(name)
