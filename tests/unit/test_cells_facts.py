"""The facts cell and its three shapes."""

import pytest

from memorypipe.cells.facts import encode_facts, parse_facts
from memorypipe.errors import InvalidCellError
from memorypipe.llm.types import Fact


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ('{"memories":[]}', []),
        (
            '{"memories":[{"text":"a","context":"c","rank":1},{"text":"b"}]}',
            [("a", "c"), ("b", None)],
        ),
        ('{"memories":[{"text":"a","context":5}]}', [("a", None)]),
        ('["a","b"]', [("a", None), ("b", None)]),
        ("[]", []),
        ("", []),
        (" \n", []),
        ("Likes tea", [("Likes tea", None)]),
        (" Likes tea ", [(" Likes tea ", None)]),
        ('["a",5]', [('["a",5]', None)]),
        ('[{"text":"a"}]', [('[{"text":"a"}]', None)]),
        ('{"facts":["a"]}', [('{"facts":["a"]}', None)]),
        ('"a"', [('"a"', None)]),
        ("5", [("5", None)]),
        ('{"memories":', [('{"memories":', None)]),
    ],
)
def test_the_shapes_are_tried_in_order(cell: str, expected: list[tuple[str, str | None]]) -> None:
    assert parse_facts(cell, 0) == tuple(Fact(text=t, context=c) for t, c in expected)


def test_a_failed_extraction_has_no_facts_to_decide() -> None:
    assert parse_facts(None, 0) is None


@pytest.mark.parametrize(
    "cell",
    [
        '{"memories":"a"}',
        '{"memories":null}',
        '{"memories":["a"]}',
        '{"memories":[{"note":"a"}]}',
        '{"memories":[{"text":5}]}',
        '{"memories":[{"text":"a"},{"text":" "}]}',
    ],
)
def test_memories_without_text_are_invalid(cell: str) -> None:
    with pytest.raises(InvalidCellError, match="Row 3: the facts cell"):
        parse_facts(cell, 3)


def test_only_known_keys_are_written() -> None:
    item = {"text": "é", "context": None, "sources": [], "topics": ["x"], "score": 1}
    assert encode_facts([item]) == '{"memories":[{"text":"é","topics":["x"]}]}'
    assert encode_facts([item], ensure_ascii=True).isascii()
    assert encode_facts([]) == '{"memories":[]}'
