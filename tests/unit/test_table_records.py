"""Head and run rows survive their way into the table and back."""

from datetime import timedelta

import orjson
import pytest

from memorypipe.errors import TableError
from memorypipe.schema import table_schema
from memorypipe.table.records import (
    RUNS,
    Head,
    RunRecord,
    head_row,
    read_head,
    read_runs,
    run_row,
    runs_table,
)
from tests.support.table_actions import START

HEAD = Head(number=3, committed_at=START, created_at=START - timedelta(days=1), vector_dim=8)
RUN = RunRecord(
    run_id="r'1",
    part=2,
    number=4,
    committed_at=START,
    content_hash="00",
    base_version=1,
    added=1,
    ids={"a": "b"},
    held_back={"k": "conflict"},
    ledger="l.parquet",
    ledger_rows=5,
    model="m",
    labels={"x": "y"},
    info={"cost": 0.5},
)


def test_a_head_comes_back_as_it_was() -> None:
    (row,) = head_row(HEAD).to_pylist()
    assert read_head(row) == HEAD
    assert (row["is_live"], row["is_current"], row["scope_key"]) == (False, False, "")
    after = HEAD.after_commit(START + timedelta(hours=1))
    assert (after.number, after.created_at) == (4, HEAD.created_at)


def test_a_head_remembers_for_good_that_something_was_forgotten() -> None:
    forgot = HEAD.after_commit(START, forgets=True)
    assert not HEAD.after_commit(START).has_forgotten
    assert forgot.has_forgotten
    assert forgot.after_commit(START).has_forgotten
    (row,) = head_row(forgot).to_pylist()
    assert read_head(row).has_forgotten


def test_a_head_that_does_not_say_whether_anything_was_forgotten_may_have_forgotten() -> None:
    (row,) = head_row(HEAD).to_pylist()
    payload = orjson.loads(row["payload"])
    del payload["has_forgotten"]
    assert read_head(row | {"payload": orjson.dumps(payload).decode()}).has_forgotten


def test_run_records_come_back_as_they_were_in_commit_order() -> None:
    earlier = RunRecord(run_id="r0", part=0, number=3, committed_at=START, content_hash="11")
    rows = run_row(RUN, 8)
    assert rows.schema.equals(table_schema(8))
    assert read_runs(rows) == [RUN]
    both = [*rows.to_pylist(), *run_row(earlier, 8).to_pylist()]
    assert read_runs(type(rows).from_pylist(both, schema=rows.schema)) == [earlier, RUN]
    shown = runs_table([earlier, RUN])
    assert shown.schema.equals(RUNS)
    assert shown["held_back"].to_pylist() == [[], ["k"]]


def test_a_run_row_of_a_later_library_is_read_for_what_is_known() -> None:
    (row,) = run_row(RUN, 8).to_pylist()
    row["payload"] = orjson.dumps(orjson.loads(row["payload"]) | {"news": 1}).decode()
    table = run_row(RUN, 8)
    assert read_runs(type(table).from_pylist([row], schema=table.schema)) == [RUN]


def test_a_run_row_that_cannot_be_read_is_named() -> None:
    (row,) = run_row(RUN, 8).to_pylist()
    table = run_row(RUN, 8)
    with pytest.raises(TableError, match="r'1"):
        read_runs(type(table).from_pylist([row | {"payload": "{"}], schema=table.schema))
