"""Hashing many texts at once gives what hashing each of them gives."""

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from memorypipe import ids
from memorypipe.table.text_hashes import text_hashes
from memorypipe.text import clean

TEXTS = st.one_of(
    st.text(),
    st.text(st.characters(codec="ascii")),
    st.text(st.sampled_from(' aB"\\\t\x7f'), max_size=6),
)


@given(st.lists(st.none() | TEXTS.map(lambda text: clean(text)[0]), max_size=8))
@example(["Likes  tea ", " likes tea", None, "\u0345", ""])
def test_a_text_has_the_same_hash_alone_and_among_others(texts: list[str | None]) -> None:
    expected = [None if text is None else ids.text_hash(text) for text in texts]
    assert text_hashes(pa.array(texts, pa.string())).to_pylist() == expected
    # A slice looks at the bytes of its neighbours, too.
    whole = pa.array([*texts, 'say "x"  y', *texts], pa.string())
    assert text_hashes(whole[: len(texts)]).to_pylist() == expected
    assert text_hashes(whole[len(texts) + 1 :]).to_pylist() == expected
