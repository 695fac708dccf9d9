"""What an embedder is: the seam that every source of vectors stands behind."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Embedder", "Matrix"]

Matrix = npt.NDArray[np.float32]
"""Vectors, one per row."""


class Embedder(Protocol):
    """Anything that turns texts into vectors; it can be pickled and shared by threads.

    Vectors of two embedders cannot be compared: a table remembers the name of its own.
    """

    @property
    def name(self) -> str:
        """Model, version and dimension: equal names mean equal vectors."""
        ...

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        ...

    @property
    def max_chars(self) -> int | None:
        """The longest text that it takes whole, in characters; None for any."""
        ...

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Embed texts, none of them blank and none longer than `max_chars`.

        Returns:
            ``float32[len(texts), dim]``, in the order of the texts; of any length, never 0.

        Raises:
            ModelError: Where no vectors can be had.
        """
        ...
