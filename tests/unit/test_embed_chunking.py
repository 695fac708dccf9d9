from hypothesis import given
from hypothesis import strategies as st

from memorypipe.llm.embed.chunking import split_text


def test_a_text_that_fits_stays_whole() -> None:
    assert split_text(" I like tea. ", 11) == ["I like tea."]
    assert split_text("  ", 5) == []


def test_cuts_come_after_sentences_before_words_before_anywhere() -> None:
    assert split_text("I run a lot. I like green tea very much.", 20) == [
        "I run a lot.",
        "I like green tea",
        "very much.",
    ]
    assert split_text("abcdefghij", 4) == ["abcd", "efgh", "ij"]
    assert split_text("我喜欢绿茶。我每天跑步。", 7) == ["我喜欢绿茶。", "我每天跑步。"]


def test_a_sentence_that_ends_early_does_not_make_a_tiny_piece() -> None:
    assert split_text("Hi. This is a rather long sentence", 20) == [
        "Hi. This is a rather",
        "long sentence",
    ]


@given(st.text(), st.integers(min_value=1, max_value=30))
def test_pieces_are_short_and_hold_all_that_is_no_space(text: str, max_chars: int) -> None:
    pieces = split_text(text, max_chars)
    assert all(piece.strip() and len(piece) <= max_chars for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())
