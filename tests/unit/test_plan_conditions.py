"""Conditions on a plan see its scopes as a struct, however the rows lie in memory."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from memorypipe.pipeline.plans.conditions import actions_where
from tests.support.plans import plan_actions
from tests.support.table_actions import add

ROWS = plan_actions(
    add("a", scope={"user_id": "u1"}),
    add("b", scope={"user_id": "u2", "the name": "x"}),
    add("c", scope={}),
    add("d", scope={"the name": "y"}),
)
CONDITIONS = [
    ("scope.user_id = 'u2'", pc.field("scope", "user_id") == "u2", ["b"]),
    ("scope.`the name` is not null", pc.field("scope", "the name").is_valid(), ["b", "d"]),
    ("scope.user_id is null", pc.field("scope", "user_id").is_null(), ["c", "d"]),
]


@pytest.mark.parametrize(("sql", "expression", "texts"), CONDITIONS)
def test_sql_and_expressions_say_the_same(
    sql: str, expression: pc.Expression, texts: list[str]
) -> None:
    for rows in (ROWS, pa.concat_tables([ROWS.slice(0, 1), ROWS.slice(1)])):
        by_sql = rows.filter(pa.array(actions_where(rows, sql)))
        by_expression = rows.filter(pa.array(actions_where(rows, expression)))
        assert sorted(by_sql["text"].to_pylist()) == texts
        assert by_expression == by_sql


def test_a_part_of_the_rows_is_no_other_than_the_same_rows_alone() -> None:
    part = ROWS.slice(1, 3)
    found = part.filter(pa.array(actions_where(part, "scope.user_id is null")))
    assert found["text"].to_pylist() == [
        text for text in part["text"].to_pylist() if text in {"c", "d"}
    ]


def test_scopes_without_names_and_no_rows_have_no_fields() -> None:
    rows = plan_actions(add("c", scope={}))
    assert actions_where(rows, "event = 'ADD'").tolist() == [True]
    assert actions_where(rows.slice(0, 0), pc.field("event") == "ADD").tolist() == []
