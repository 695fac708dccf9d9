"""What the scores are that memories are ranked by."""

import math

import numpy as np
import pyarrow as pa
import pytest

from memorypipe.rank.fusion import fused, fused_scores
from memorypipe.rank.keyword import keyword_scores
from memorypipe.rank.vector import MISSING, VectorIndex, cosines, unit_rows


def test_words_score_by_bm25_with_the_statistics_of_their_scope() -> None:
    texts = pa.chunked_array([["tea tea", "green tea pot"], ["cat", "a cat and a dog"]])
    starts, scope = np.array([0, 3, 4]), np.array([0])
    scores = keyword_scores(texts, starts, ["Tea"], scope)[0]
    rarity = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))

    def bm25(count: int, length: int) -> float:
        return rarity * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / 2))

    assert scores.tolist() == pytest.approx([bm25(2, 2), bm25(1, 3), 0.0], rel=1e-12)


def test_a_word_that_most_of_many_memories_share_tells_nothing() -> None:
    said = [*(f"tea {n}" for n in range(8)), *(f"pot {n}" for n in range(4))]
    texts = pa.chunked_array([said])
    scores = keyword_scores(texts, np.array([0, 12]), ["tea", "pot"], np.array([0, 0]))
    assert not scores[0].any()
    assert scores[1].astype(bool).tolist() == [False] * 8 + [True] * 4


def test_a_cosine_is_the_same_whatever_is_computed_beside_it() -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((300, 256)).astype(np.float32)
    asked = unit_rows(rng.standard_normal((40, 256)))
    together = cosines(asked, rows)
    one_by_one = [cosines(each[None, :], row[None, :])[0, 0] for each in asked for row in rows]
    assert together.ravel().tolist() == one_by_one
    assert np.array_equal(together, np.round(together, 9))
    exact = rows @ asked[0] / np.linalg.norm(rows, axis=1)
    assert np.allclose(together[0], exact, atol=1e-6)


def test_what_has_no_vector_scores_below_everything() -> None:
    rows = np.array([[1.0, 0.0], [np.nan, np.nan], [-1.0, 0.0], [0.0, 0.0]])
    assert cosines(unit_rows([[2.0, 0.0]]), rows).tolist() == [[1.0, MISSING, -1.0, 0.0]]


def test_equal_vectors_tie_and_come_by_id() -> None:
    index = VectorIndex(2)
    index.add({name: [0.1, 0.3] for name in ("m3", "m1", "m2")})
    index.remove("m2")
    index.add({"m0": [1.0, 0.0]})
    assert index.best(unit_rows([[0.2, 0.6]]), 3) == [["m1", "m3", "m0"]]


def test_only_the_upper_part_of_a_ranking_is_fused() -> None:
    ranking = list(range(80))
    assert len(fused([ranking], 10)) == 10
    assert len(fused([ranking], 70)) == 70
    rest = [79, *range(79)]
    best = dict(fused([ranking, rest], 50))
    assert 79 in best
    assert best[79] == 1 / 61  # its place 80 in the first ranking adds nothing
    scores = -np.arange(80.0)[None, :]
    assert np.count_nonzero(fused_scores(np.zeros((1, 80)), scores, 10)) == 50
