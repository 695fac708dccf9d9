"""Vectors that follow from a text's letters: an embedder for tests, and an endpoint's replies."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from memorypipe.llm.embed.types import Matrix

__all__ = ["HashEmbedder", "embeddings", "hash_vector"]


def hash_vector(text: str, dim: int, seed: str = "") -> Matrix:
    """Give a vector that is the same everywhere, and another for every other text."""
    digest = hashlib.shake_128(f"{seed}|{text}".encode(errors="surrogatepass")).digest(dim)
    vector: Matrix = np.frombuffer(digest, np.uint8).astype(np.float32) - 127.5
    return vector


@dataclass
class HashEmbedder:
    """An embedder without meaning, that notes what it was asked.

    Attributes:
        dim: Width of its vectors.
        seed: Another one makes another embedder.
        max_chars: As of every embedder.
        asked: The texts of each call.
    """

    dim: int = 4
    seed: str = "a"
    max_chars: int | None = None
    asked: list[list[str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"hash-{self.seed}/{self.dim}"

    def embed(self, texts: Sequence[str]) -> Matrix:
        self.asked.append(list(texts))
        return np.stack([hash_vector(text, self.dim, self.seed) for text in texts])


def embeddings(body: Mapping[str, Any], how: str = "") -> str:
    """Answer an embeddings request as a server does, or spoilt.

    Args:
        body: The request; `dimensions` is obeyed, and 8 without it.
        how: ``"few"``, ``"many"``, ``"backwards"`` (right, but the last text first),
            ``"twice"`` (an index), ``"unnumbered"``, ``"nan"``, ``"zero"``, ``"infinite"``,
            ``"width"``, ``"uneven"``, ``"words"``.
    """
    dim = body.get("dimensions", 8) + (how == "width")
    vectors = [hash_vector(text, dim) for text in body["input"]]
    spoilt = {"nan": np.nan, "infinite": np.inf, "zero": 0.0}
    if how in spoilt:
        vectors[-1] = vectors[-1] * 0 + spoilt[how]
    if how == "uneven":
        vectors[-1] = vectors[-1][:-1]
    items: list[dict[str, Any]] = [
        {"object": "embedding", "index": number, "embedding": _coded(vector, body)}
        for number, vector in enumerate(vectors)
    ]
    if how == "words":
        items[-1]["embedding"] = ["many", "words"]
    if how == "few":
        del items[-1]
    if how == "many":
        items.append(dict(items[-1], index=len(items)))
    if how == "backwards":
        items.reverse()
    if how == "twice":
        items[-1]["index"] = 0
    if how == "unnumbered":
        items = [{"embedding": item["embedding"]} for item in items]
    tokens = sum(len(text.split()) for text in body["input"])
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    # The standard library writes NaN and Infinity, as some servers do.
    return json.dumps({"object": "list", "data": items, "model": body["model"], "usage": usage})


def _coded(vector: Matrix, body: Mapping[str, Any]) -> list[float] | str:
    if body.get("encoding_format") == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    numbers: list[float] = vector.tolist()
    return numbers
