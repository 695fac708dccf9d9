"""The existing cell."""

import pytest

from memorypipe.cells.memories import encode_existing, parse_existing
from memorypipe.errors import InvalidCellError


@pytest.mark.parametrize("cell", [None, "", "  ", "[]"])
def test_no_memories(cell: str | None) -> None:
    assert parse_existing(cell, 0) == ()


def test_memories_keep_their_keys_and_order() -> None:
    cell = '[{"rank":1.5,"id":"b","text":"x","tags":["t"]},{"id":"a","text":""}]'
    assert encode_existing(parse_existing(cell, 0)) == cell


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ('["a"]', "item 0 must be an object"),
        ('{"memories":[]}', "JSON array"),
        ("{}", "JSON array"),
        ("a", "no JSON"),
        ('[{"text":"a"}]', "'id'"),
        ('[{"id":"","text":"a"}]', "'id'"),
        ('[{"id":5,"text":"a"}]', "'id'"),
        ('[{"id":["a"],"text":"a"}]', "'id'"),
        ('[{"id":"m1"}]', "'text'"),
        ('[{"id":"m1","text":null}]', "'text'"),
        ('[{"id":"m1","text":"a"},{"id":"m1","text":"b"}]', "'m1' comes twice"),
    ],
)
def test_bad_input_names_row_and_reason(cell: str, reason: str) -> None:
    with pytest.raises(InvalidCellError, match="Row 4: the existing cell") as raised:
        parse_existing(cell, 4)
    assert reason in str(raised.value)
