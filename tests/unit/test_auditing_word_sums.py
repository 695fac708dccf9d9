"""Texts have equal numbers exactly where the slow rules call them alike."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorypipe.evidence.likeness import content_words, near_key
from memorypipe.table.auditing.word_sums import string_numbers, word_sums

_SAID = "the a User user owns Owned deeds cat cats, Cat. café C++ 3 never doesn't 猫 x _ “hi”"
_WORDS = st.sampled_from(_SAID.split())
_TEXTS = st.lists(_WORDS, max_size=6).map(" ".join)


@settings(max_examples=25)
@given(st.lists(_TEXTS, min_size=2, max_size=8))
def test_texts_with_one_near_key_have_one_number(texts: list[str]) -> None:
    numbers = word_sums(pa.array(texts, pa.string())).near.tolist()
    for text, number in zip(texts, numbers, strict=True):
        for other, other_number in zip(texts, numbers, strict=True):
            if near_key(text) == near_key(other):
                assert number == other_number


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Owns a cat", "Owns a dog"),
        ("Al likes Bo", "Bo likes Al"),
        ("Has 2 cats", "Has 3 cats"),
        ("Likes tea", "Likes tea tea"),
        ("Owns a cat", "Doesn't own a cat"),
    ],
)
def test_texts_that_say_something_else_have_other_numbers(one: str, other: str) -> None:
    sums = word_sums(pa.array([one, other]))
    assert sums.near[0] != sums.near[1]


@settings(max_examples=25)
@given(st.lists(st.from_regex(r"[a-z]{1,9}", fullmatch=True), min_size=1, max_size=9))
def test_words_of_one_stem_count_as_one_word(words: list[str]) -> None:
    stems = ["".join(content_words(word)) for word in words]
    sums = word_sums(pa.array(words))
    for stem, content in zip(stems, sums.content, strict=True):
        for other, other_content in zip(stems, sums.content, strict=True):
            if stem and stem == other:
                assert content == other_content


def test_neither_order_nor_figures_nor_negations_count_in_the_content() -> None:
    texts = ["Has 2 cats in Oslo", "In Oslo has 3 cats", "Hasn't cats in Oslo", "Never cats, Oslo"]
    assert len(set(word_sums(pa.array(texts)).content.tolist())) == 1


def test_a_text_without_one_of_its_words_has_the_number_of_that_other_text() -> None:
    long, short = "Likes green tea in the early morning", "Likes green tea in the morning"
    sums = word_sums(pa.array([long, short, "Likes tea"]))
    assert sums.content[1] in sums.without_one[sums.without_rows == 0]
    assert 2 not in sums.without_rows.tolist(), "two words are too few to take one away"


def test_every_text_counts_its_own_words() -> None:
    texts = pa.array(["", "one", "", "two words", "!?", "three short words", ""])
    assert word_sums(texts).words.tolist() == [0, 1, 0, 2, 0, 3, 0]
    assert word_sums(texts.slice(3, 3)).words.tolist() == [2, 0, 3]
    assert word_sums(pa.array([], pa.string())).words.tolist() == []


@settings(max_examples=25)
@given(st.lists(st.text(max_size=5), max_size=20, unique=True))
def test_other_strings_have_other_numbers(strings: list[str]) -> None:
    assert len(set(string_numbers(pa.array(strings, pa.string())).tolist())) == len(strings)
