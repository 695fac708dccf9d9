from typing import Any

import numpy as np
import pytest

from memorypipe.errors import InvalidArgumentError, ModelError
from memorypipe.llm.embed.types import Matrix
from memorypipe.llm.embed.unit_vectors import embed_texts
from tests.support.embeddings import HashEmbedder, hash_vector


class Says:
    """An embedder that says what it was told to."""

    name, dim, max_chars = "says/2", 2, None

    def __init__(self, vectors: Any) -> None:
        self._vectors = vectors

    def embed(self, texts: Any) -> Any:
        del texts
        return self._vectors


def _unit(vector: Matrix) -> Matrix:
    unit: Matrix = vector / np.linalg.norm(vector)
    return unit


def test_vectors_come_in_the_order_of_the_texts_with_length_one() -> None:
    vectors = embed_texts(HashEmbedder(), ["a", "b", "a"])
    assert vectors.dtype == np.float32
    assert np.allclose(vectors, [_unit(hash_vector(text, 4, "a")) for text in "aba"])
    assert embed_texts(HashEmbedder(), []).shape == (0, 4)


def test_a_long_text_gets_the_mean_of_its_pieces_weighted_by_length() -> None:
    embedder = HashEmbedder(max_chars=6)
    long, short = embed_texts(embedder, ["abcdef xyz", "b"])
    assert embedder.asked == [["abcdef", "xyz", "b"]]
    first, second = (_unit(hash_vector(text, 4, "a")) for text in ("abcdef", "xyz"))
    assert np.allclose(long, _unit(first * 6 + second * 3))
    assert np.allclose(short, _unit(hash_vector("b", 4, "a")))


def test_a_blank_text_is_refused_before_anything_is_asked() -> None:
    embedder = HashEmbedder()
    with pytest.raises(InvalidArgumentError, match=r"Text 2 to embed is blank, ' \\n'"):
        embed_texts(embedder, ["a", " \n"])
    assert not embedder.asked


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([[1, 0]], r"shape \(1, 2\) for 2 texts; it must be \(2, 2\)"),
        ([[1, 0, 0], [0, 1, 0]], r"shape \(2, 3\)"),
        ([[1, 0], [np.nan, 1]], r"length .*nan.* for text 2 of 2, and 0 more"),
        ([[np.inf, 0], [0, 0]], r"length .*inf.* for text 1 of 2, and 1 more"),
        ([[1, 0], [0, 0]], r"length .*0\.0.* for text 2"),
    ],
)
def test_what_cannot_be_compared_is_an_error(vectors: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        embed_texts(Says(vectors), ["a", "b"])


def test_lengths_beyond_the_range_of_single_precision_are_no_problem() -> None:
    vectors = embed_texts(Says([[3e30, 4e30], [3e-30, 4e-30]]), ["a", "b"])
    assert np.allclose(vectors, [[0.6, 0.8], [0.6, 0.8]])
