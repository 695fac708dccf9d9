import pickle

import numpy as np
import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.embed.resolve import find_local, resolve_embedder
from memorypipe.llm.embed.unit_vectors import embed_texts
from memorypipe.llm.embed.wordllama import WORDLLAMA_NAME, WordLlamaEmbedder
from tests.support.embeddings import HashEmbedder

TEXTS = ["I like green tea.", "Green tea is what I drink.", "The car needs new tyres."]


def test_texts_that_mean_the_same_are_near_and_others_far() -> None:
    first, alike, other = embed_texts(WordLlamaEmbedder(), TEXTS)
    assert first @ alike > 0.6
    assert abs(first @ other) < 0.2


def test_the_vectors_are_those_that_the_name_stands_for() -> None:
    """Other weights under the same name would make tables that lie."""
    (vector,) = embed_texts(WordLlamaEmbedder(), ["I like green tea."])
    assert np.allclose(vector[:4], [0.0296009, 0.1383061, 0.0090687, -0.0564543], atol=1e-6)


def test_a_vector_does_not_depend_on_the_texts_beside_it() -> None:
    embedder = WordLlamaEmbedder()
    many = [f"{text} {number}" for number in range(400) for text in TEXTS]
    together = embed_texts(embedder, many)
    alone = [embed_texts(embedder, [text])[0] for text in many[500:530]]
    assert np.array_equal(together[500:530], alone)


@pytest.mark.parametrize("text", ["\u200b", "\U0001f600", "\ud83d half", "\x00", "日本", "<s>"])
def test_odd_texts_have_vectors_too(text: str) -> None:
    assert np.isclose(np.linalg.norm(embed_texts(WordLlamaEmbedder(), [text])), 1)


def test_it_travels_and_is_found_by_its_name() -> None:
    embedder = WordLlamaEmbedder()
    assert pickle.loads(pickle.dumps(embedder)) == embedder  # noqa: S301  # our own bytes
    assert (embedder.name, embedder.dim) == (WORDLLAMA_NAME, 256)
    assert resolve_embedder("wordllama") == find_local(WORDLLAMA_NAME) == embedder


def test_what_is_no_embedder_is_told_with_the_choices() -> None:
    assert resolve_embedder("none") is None
    own = HashEmbedder()
    assert resolve_embedder(own) is own
    assert find_local(own.name) is None
    with pytest.raises(InvalidArgumentError, match=r"'glove'; choices: \('wordllama', 'none'\)"):
        resolve_embedder("glove")
    with pytest.raises(InvalidArgumentError, match=r"'wordllama', 'none', or an object.*got int"):
        resolve_embedder(7)
