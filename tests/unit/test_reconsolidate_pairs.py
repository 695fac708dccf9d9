"""A model is asked about memories that may have to do with each other, and about no others."""

import numpy as np
import pytest

from memorypipe.pipeline.scopes.pairs import choose, related, same_groups


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("Lives in Rome", "Moved to Oslo", True),
        ("Owns a red car", "Sold the car", True),
        ("Works at Acme", "Quit Acme", True),
        ("Eats meat", "No longer eats meat", True),
        ("Likes tea", "Likes hiking", False),
        ("Lives with a sister", "Works in a bank", False),
        ("Owns a red car", "Plays the red piano in a band on Sundays", False),
    ],
)
def test_texts_are_related_by_what_they_speak_of(one: str, other: str, expected: bool) -> None:  # noqa: FBT001  # a table of cases
    assert (related([one, other])[1] == {0}) is expected


def test_texts_without_a_common_word_are_related_by_their_vectors() -> None:
    texts = ["Owns a cat", "Feeds a kitten", "Paints ships"]
    vectors = np.array([[1, 0], [0.9, 0.436], [np.nan, np.nan]], np.float32)
    assert related(texts, vectors) == [set(), {0}, set()]


def test_a_word_that_very_many_memories_have_relates_none() -> None:
    texts = [f"Berlin {name}" for name in map(str, range(1000, 1101))]
    assert not any(related(texts))


def test_the_same_in_other_form_is_one_group() -> None:
    texts = ["Owns a cat", "Likes C++", "The user owns the cat.", "Likes C#"]
    assert same_groups(texts) == [[0, 2]]


def test_the_later_of_a_pair_is_decided_and_the_earlier_is_shown() -> None:
    chosen = choose([(), (0,), (), (0, 1)], compared=())
    assert (chosen.facts, chosen.memories) == ([1, 3], [0])


def test_a_pair_that_was_compared_is_not_decided_again() -> None:
    assert choose([(), (0,)], compared={0, 1}).facts == []


def test_what_is_new_is_compared_with_earlier_and_later_ones() -> None:
    chosen = choose([(), (0,), (0, 1), (0,)], compared={0, 2, 3})
    assert (chosen.facts, chosen.memories) == ([1, 2], [0])
