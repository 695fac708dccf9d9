"""Checks on what a commit is given."""

from typing import Any

import pyarrow as pa
import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.schema import LEDGER
from memorypipe.table.actions import batch_hash, check_actions, check_ledger
from tests.support.table_actions import action, actions, add, delete, ledger, minted, update


def test_actions_come_out_by_scope_and_seq_with_every_add_named() -> None:
    batch = check_actions(
        actions(
            add("two", seq=2), add("one", seq=1, memory_id=None), add("x", scope={}, seq=9)
        ).append_column("extra", pa.array([1, 2, 3]))
    )
    assert batch.actions["text"].to_pylist() == ["one", "two", "x"]
    assert batch.actions["memory_id"][0].as_py() == minted("one")
    assert list(batch.scopes.values()) == [{"user_id": "u1"}, {}]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (action("MERGE", "x", memory_id="m"), "'MERGE'.*'ADD'"),
        (action("UPDATE", "x"), "no memory_id"),
        (action("DELETE"), "no memory_id"),
        (add(" \n"), "blank text"),
        (update("m", ""), "blank text"),
        (add("x", record_type="head"), "'head'"),
        (add("x", record_type="run"), "'run'"),
        (add("x", scope_key="forged"), "'forged'"),
    ],
)
def test_an_action_that_no_table_can_take_is_refused(row: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        check_actions(actions(row))


def test_missing_columns_nulls_and_wrong_types_are_named() -> None:
    good = actions(add("x"))
    with pytest.raises(InvalidArgumentError, match=r"lack.*'text'"):
        check_actions(good.drop_columns(["text"]))
    with pytest.raises(InvalidArgumentError, match="'text' of the actions holds 1 nulls"):
        check_actions(good.set_column(6, "text", pa.nulls(1, pa.string())))
    with pytest.raises(InvalidArgumentError, match="types"):
        check_actions(good.set_column(2, "seq", pa.array(["first"])))
    with pytest.raises(InvalidArgumentError, match="ledger"):
        check_ledger(ledger("m").drop_columns(["message_id"]))
    assert check_ledger(None).equals(LEDGER.empty_table())


def test_the_hash_is_of_content_not_of_row_order() -> None:
    rows = [add("one", seq=0), delete("m", seq=1)]
    base = batch_hash(check_actions(actions(*rows)), ledger("m1", "m2"))
    assert base == batch_hash(check_actions(actions(*rows[::-1])), ledger("m2", "m1"))
    others = [
        ([rows[0]], ledger("m1", "m2")),
        (rows, ledger("m1")),
        ([rows[0] | {"seq": 1}, rows[1] | {"seq": 0}], ledger("m1", "m2")),
        ([rows[0] | {"context": "c"}, rows[1]], ledger("m1", "m2")),
    ]
    assert base not in {
        batch_hash(check_actions(actions(*other)), messages) for other, messages in others
    }
