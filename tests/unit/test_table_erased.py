"""Erased scopes are known by names that say nothing, and what is theirs stays out."""

import pyarrow as pa

from memorypipe import ids
from memorypipe.table.actions import check_actions
from memorypipe.table.erasing.erased import (
    erased_name,
    erased_reasons,
    named_again,
    without_erased,
    without_scope_keys,
    without_scopes,
)
from memorypipe.table.records import Settings
from tests.support.table_actions import actions, add

U1, U2 = ids.scope_key({"user_id": "u1"}), ids.scope_key({"user_id": "u2"})
SETTINGS = Settings(erased=(erased_name(U1),))


def test_only_erased_scopes_have_a_reason() -> None:
    assert list(erased_reasons(SETTINGS, [U1, U2])) == [U1]
    assert erased_reasons(Settings(), [U1, U2]) == {}
    assert erased_reasons(SETTINGS, [U1])[U1].startswith("erased: ")


def test_a_run_row_says_nothing_that_who_knows_the_scopes_cannot_read_back() -> None:
    held_back = {U1: "erased: x", U2: "conflict: y"}
    written = without_scope_keys(held_back, SETTINGS)
    assert U1 not in str(written)
    assert named_again(written, [U2, U1]) == held_back
    assert named_again(written, [U2]) == written


def test_a_batch_loses_the_actions_of_erased_scopes_and_nothing_else() -> None:
    batch = check_actions(actions(add("A"), add("B", scope={"user_id": "u2"}), add("C")))
    left = without_scopes(batch, {U1})
    assert left.actions["text"].to_pylist() == ["B"]
    assert left.text_hash.to_pylist() == [ids.text_hash("B")]
    assert list(left.scopes) == [U2]
    assert without_scopes(batch, ()) is batch


def test_rows_of_erased_scopes_are_left_out() -> None:
    rows = pa.table({"scope_key": [U1, U2, U1], "n": [1, 2, 3]})
    assert without_erased(rows, SETTINGS.erased)["n"].to_pylist() == [2]
    assert without_erased(rows, ()).equals(rows)
