"""Cells laid out as Arrow columns. No Ray, no network."""

import pyarrow as pa

from memorypipe.expressions.results import STATUS, CellResult, status_column, value_column
from memorypipe.llm.stage import Outcome

ANSWERED: Outcome[str] = Outcome(
    value="v", status="x", attempts=2, prompt_tokens=5, latency_ms=1.5, cached=True, raw_reply="{"
)


def test_a_row_without_model_work_cost_nothing() -> None:
    (row,) = status_column([CellResult(value=None, status="skipped")]).to_pylist()
    told = {name: value for name, value in row.items() if value}
    assert told == {"status": "skipped"}
    assert (row["attempts"], row["latency_ms"], row["cached"]) == (0, 0.0, False)


def test_the_raw_reply_is_shown_only_where_something_went_wrong() -> None:
    rows = status_column(
        [
            CellResult(value="v", status=status, outcome=ANSWERED)
            for status in ("ok", "empty", "fallback")
        ]
    ).to_pylist()
    assert [row["raw_reply"] for row in rows] == [None, None, "{"]
    assert {row["attempts"] for row in rows} == {2}


def test_no_row_is_a_null_struct_and_an_empty_column_has_its_type() -> None:
    column = status_column([CellResult(value=None, status="skipped")] * 2)
    assert (column.type, column.null_count) == (STATUS, 0)
    assert status_column([]).type == STATUS
    assert value_column([]).type == pa.string()
