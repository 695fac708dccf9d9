"""Vectors of any texts through any embedder: cut, asked, checked, put together, of length 1."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from memorypipe.errors import InvalidArgumentError, ModelError
from memorypipe.llm.embed.chunking import split_text
from memorypipe.llm.embed.types import Embedder, Matrix

__all__ = ["embed_texts"]


def embed_texts(embedder: Embedder, texts: Sequence[str]) -> Matrix:
    """Embed texts of any length.

    A text longer than the embedder takes is cut, and gets the mean of its pieces' directions,
    weighted by their lengths.

    Args:
        embedder: What to ask.
        texts: None of them blank: a blank text has no direction.

    Returns:
        ``float32[len(texts), embedder.dim]``, in the order of the texts, each of length 1.

    Raises:
        InvalidArgumentError: For a blank text.
        ModelError: Where the embedder gives none, too few, too many, of another dimension, or
            one that is NaN, infinite or zero.
    """
    pieces = [_pieces(text, number, embedder.max_chars) for number, text in enumerate(texts)]
    flat = [piece for each in pieces for piece in each]
    if not flat:
        return np.empty((0, embedder.dim), np.float32)
    given: Any = np.asarray(embedder.embed(flat), np.float32)
    vectors = _directions(embedder, given, len(flat))
    if len(flat) == len(texts):
        return vectors
    weights = np.fromiter(map(len, flat), np.float32, len(flat))[:, np.newaxis]
    starts = np.cumsum([0, *map(len, pieces)])[:-1]
    means = np.add.reduceat(vectors * weights, starts, axis=0)
    return _directions(embedder, means, len(texts))


def _pieces(text: str, number: int, max_chars: int | None) -> list[str]:
    if not text.strip():
        raise InvalidArgumentError(
            f"Text {number + 1} to embed is blank, {text!r}; leave it out, it has no direction."
        )
    whole = max_chars is None or len(text) <= max_chars
    return [text] if whole else split_text(text, max_chars or 1)


def _directions(embedder: Embedder, vectors: Any, texts: int) -> Matrix:
    """Check vectors, and bring them to length 1."""
    if vectors.shape != (texts, embedder.dim):
        raise ModelError(
            f"Embedder {embedder.name!r} gave an array of shape {vectors.shape!r} for {texts} "
            f"texts; it must be {(texts, embedder.dim)!r}, one vector per text."
        )
    # In double precision: squares of what is very long or short leave the range of float32.
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    if wrong := np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0))).tolist():
        raise ModelError(
            f"Embedder {embedder.name!r} gave a vector of length {lengths[wrong[0]]!r} for text "
            f"{wrong[0] + 1} of {texts}, and {len(wrong) - 1} more like it; nothing can be "
            "compared with that. Check the model, or use another embedder."
        )
    unit: Matrix = (vectors / lengths[:, np.newaxis]).astype(np.float32)
    return unit
