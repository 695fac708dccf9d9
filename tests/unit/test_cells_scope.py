"""The scope cell."""

from typing import Any

import pytest

from memorypipe.cells.scope import parse_scope
from memorypipe.errors import InvalidCellError


@pytest.mark.parametrize(
    "cell",
    [
        '{"user_id":"u1","agent_id":7}',
        {"user_id": "u1", "agent_id": 7, "thread_id": None},
        [("user_id", "u1"), ("agent_id", "7")],
    ],
)
def test_map_struct_and_json_give_the_same_scope(cell: Any) -> None:
    assert parse_scope(cell, 0) == {"agent_id": "7", "user_id": "u1"}


@pytest.mark.parametrize("cell", [None, "", " ", "{}", {}, []])
def test_no_scope(cell: Any) -> None:
    assert parse_scope(cell, 0) == {}


@pytest.mark.parametrize(
    "cell",
    [
        *("u1", '["u1"]', 5, [1]),
        *({"user_id": " "}, {"user_id": "*"}, {"\u200b": "u1"}),
        [("user_id", "u1"), ("user_id", "u2")],  # whose memories?
        [("user_id", "u1", 1)],
    ],
)
def test_bad_input_names_the_row(cell: Any) -> None:
    with pytest.raises(InvalidCellError, match="Row 2: the scope cell"):
        parse_scope(cell, 2)


@pytest.mark.parametrize("value", ["\U0003fffd", "\ue000", "\U0001f600", "e\u200b"])
def test_what_may_show_something_is_a_name(value: str) -> None:
    assert parse_scope({"user_id": value}, 0) == {"user_id": value}  # the first has no meaning yet
