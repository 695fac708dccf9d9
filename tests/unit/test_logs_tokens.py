import pytest

from memorypipe.logs.tokens import estimate_tokens, split_text


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("four", 1),
        ("fours", 2),
        ("привет", 3),
        ("喜欢", 2),
        ("안녕", 2),
        ("😀", 1),
    ],
)
def test_the_estimate_follows_its_rule(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@pytest.mark.parametrize("unit", ["word ", "字", "é", "😀", "mixed 字 é ", "\n\n", "𠀀"])
@pytest.mark.parametrize("max_tokens", [1, 7, 100])
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
        ("aaaa bb bb\ncc dd. ee ff", "aaaa bb bb\n"),
        ("aaaa bb bb. cc dd ee ff", "aaaa bb bb. "),
        ("aaaa bb bb cc dd ee ff gg", "aaaa bb bb cc dd ee "),
        ("我喜欢茶。我也喜欢咖啡。", "我喜欢茶。"),
    ],
)
def test_a_cut_falls_at_the_best_boundary(text: str, first: str) -> None:
    assert split_text(text, max_tokens=5)[0] == first
