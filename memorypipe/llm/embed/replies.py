"""Read what an `/embeddings` endpoint answers: as many vectors as texts, in their order."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from memorypipe.errors import RejectedRequestError
from memorypipe.llm.embed.types import Matrix
from memorypipe.llm.tokens import estimate_tokens
from memorypipe.llm.types import Reply

__all__ = ["EmbeddingReply", "read_embeddings"]

_LITTLE_ENDIAN = np.dtype("<f4")


@dataclass(frozen=True, kw_only=True)
class EmbeddingReply(Reply):
    """A reply with vectors; it has no content.

    Attributes:
        vectors: One per text, in the order of the texts; finite and not 0.
    """

    vectors: Matrix = field(repr=False)


def read_embeddings(
    body: Mapping[str, Any], texts: Sequence[str], *, who: str, latency_ms: float
) -> EmbeddingReply | None:
    """Read a reply.

    Args:
        body: Its JSON.
        texts: That were asked for.
        who: Endpoint and model, for errors.
        latency_ms: For the reply.

    Returns:
        The reply; None where the body is of quite another kind. Tokens that the endpoint does not
        count are estimated.

    Raises:
        RejectedRequestError: For too few or too many vectors, an `index` that is twice there, and
            a vector that is no list of numbers, of another width than the others, or NaN,
            infinite or zero: asked again the endpoint would say the same.
    """
    items = body.get("data")
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        return None
    if len(items) != len(texts):
        raise RejectedRequestError(f"{who} gave {len(items)} vectors for {len(texts)} texts.")
    ordered = _in_order(items, who)
    rows = [_vector(item.get("embedding"), number, who) for number, item in enumerate(ordered)]
    if len(widths := sorted({len(row) for row in rows})) > 1:
        raise RejectedRequestError(
            f"{who} gave vectors of several dimensions in one reply: {widths}."
        )
    vectors = np.stack(rows)
    wrong = np.flatnonzero(~np.isfinite(vectors).all(axis=1) | ~vectors.any(axis=1))
    if len(wrong):
        raise RejectedRequestError(
            f"{who} gave a vector that is NaN, infinite or zero for text {wrong[0] + 1} of "
            f"{len(texts)}: nothing can be compared with it."
        )
    return EmbeddingReply(
        content=None,
        prompt_tokens=_tokens(body.get("usage"), texts),
        latency_ms=latency_ms,
        model=body["model"] if isinstance(body.get("model"), str) else None,
        vectors=vectors,
    )


def _in_order(items: Sequence[Mapping[str, Any]], who: str) -> Sequence[Mapping[str, Any]]:
    indexes = [item.get("index") for item in items]
    if all(index is None for index in indexes):
        return items
    if not all(isinstance(index, int) for index in indexes) or sorted(
        indexes  # type: ignore[type-var]  # all are integers here
    ) != list(range(len(items))):
        raise RejectedRequestError(
            f"{who} does not tell which vector belongs to which text: the indexes are not 0 to "
            f"{len(items) - 1}, each once."
        )
    places = dict(zip(indexes, items, strict=True))
    return [places[number] for number in range(len(items))]


def _vector(value: object, number: int, who: str) -> Matrix:
    """Read one vector: a list of numbers, or little-endian floats in base64."""
    try:
        if isinstance(value, str):
            read = np.frombuffer(base64.b64decode(value, validate=True), _LITTLE_ENDIAN)
        else:
            # What is too great for the type becomes infinite, and is told so later.
            with np.errstate(over="ignore"):
                read = np.array(value, np.float64).astype(np.float32)
    except (binascii.Error, ValueError, TypeError):
        read = np.empty(0, np.float32)
    if read.ndim != 1 or not len(read):
        raise RejectedRequestError(f"{who} gave no vector for text {number + 1}.")
    return read


def _tokens(usage: object, texts: Sequence[str]) -> int:
    if isinstance(usage, Mapping):
        for name in ("prompt_tokens", "total_tokens"):
            if isinstance(count := usage.get(name), int) and count > 0:
                return count
    return sum(map(estimate_tokens, texts))
