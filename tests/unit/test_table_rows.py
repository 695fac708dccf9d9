"""Which revisions a reader sees; the rows of a past moment."""

from datetime import timedelta
from itertools import combinations
from typing import Any

import pyarrow as pa
import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.schema import TIME
from memorypipe.table.rows import STATES, as_of, select_states
from tests.support.table_actions import START

HOUR = timedelta(hours=1)
SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("is_current", pa.bool_()),
        ("is_live", pa.bool_()),
        ("deleted", pa.bool_()),
        ("status", pa.string()),
        ("expires_at", TIME),
        ("valid_from", TIME),
        ("valid_to", TIME),
        ("text", pa.string()),
        ("search_text", pa.string()),
    ]
)


def row(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "is_current": True,
        "is_live": True,
        "deleted": False,
        "status": "valid",
        "valid_from": START,
        "text": name,
        "search_text": name,
    } | more


ROWS = pa.Table.from_pylist(
    [
        row("live", expires_at=START + HOUR),
        row("deleted", deleted=True, is_live=False, expires_at=START),
        row("invalid", status="invalid", is_live=False),
        row("expired", expires_at=START),
        row("invalid+expired", status="invalid", is_live=False, expires_at=START),
        row("history", is_current=False, is_live=False, valid_to=START, expires_at=START),
    ],
    schema=SCHEMA,
)

CHOICES = [each for size in range(len(STATES) + 1) for each in combinations(STATES, size)]


@pytest.mark.parametrize("include", CHOICES)
def test_a_row_is_read_when_all_of_its_states_are_asked_for(include: tuple[str, ...]) -> None:
    expected = [name for name in ROWS["name"].to_pylist() if set(name.split("+")) <= set(include)]
    assert select_states(ROWS, include, START)["name"].to_pylist() == expected


def test_an_unknown_state_is_refused_with_the_choices() -> None:
    with pytest.raises(InvalidArgumentError, match=r"'dead'.*'history'"):
        select_states(ROWS, ["dead"], START)


def test_a_past_moment_shows_states_of_then() -> None:
    rows = pa.Table.from_pylist(
        [
            row("old", is_current=False, is_live=False, valid_to=START + HOUR, search_text=None),
            row("new", valid_from=START + HOUR),
        ],
        schema=SCHEMA,
    )
    (then,) = as_of(rows, START).to_pylist()
    assert (then["name"], then["is_current"], then["is_live"]) == ("old", True, True)
    assert (then["valid_to"], then["search_text"]) == (None, "old")
    old, new = as_of(rows, START + HOUR).to_pylist()
    assert (old["is_current"], old["valid_to"], old["search_text"]) == (False, START + HOUR, None)
    assert new["is_live"]


def test_a_tombstone_is_not_live_at_any_moment() -> None:
    rows = pa.Table.from_pylist([row("gone", deleted=True, is_live=False)], schema=SCHEMA)
    assert as_of(rows, START)["is_live"].to_pylist() == [False]
