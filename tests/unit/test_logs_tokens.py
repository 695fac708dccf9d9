import pytest

from memorypipe.llm.tokens import estimate_tokens
from memorypipe.logs.tokens import split_text


@pytest.mark.parametrize("unit", ["word ", "字", "é", "😀", "mixed 字 é ", "\n\n", "𠀀"])
@pytest.mark.parametrize("max_tokens", [2, 7, 100])
def test_pieces_join_to_the_text_and_fit(unit: str, max_tokens: int) -> None:
    text = unit * 333
    pieces = split_text(text, max_tokens=max_tokens)
    assert "".join(pieces) == text
    assert all(pieces)
    assert max(map(estimate_tokens, pieces)) <= max_tokens


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("aaaa bb bb.\n\ncc. ee ff gg", "aaaa bb bb.\n\n"),
        ("aaaaaa bb bbb\ncc dd. ee ff gg", "aaaaaa bb bbb\n"),
        ("aaaaaaaa bb bb. cc dd ee ff", "aaaaaaaa bb bb. "),
        ("aaaaaa bb bb cc dd ee ff gg hh", "aaaaaa bb bb cc dd ee ff gg "),
        ("我喜欢茶。我也喜欢咖啡。", "我喜欢茶。"),
    ],
)
def test_a_cut_falls_at_the_best_boundary(text: str, first: str) -> None:
    assert split_text(text, max_tokens=5)[0] == first
