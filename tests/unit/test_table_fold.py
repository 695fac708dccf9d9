"""The fold of a batch, without any storage."""

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from memorypipe import ids
from memorypipe.schema import table_schema
from memorypipe.table.actions import check_actions
from memorypipe.table.folding.changes import Folded
from memorypipe.table.folding.fold import fold
from memorypipe.table.folding.index import Known
from memorypipe.table.folding.simple import find_simple
from tests.support.table_actions import START, USER, action, actions, add, delete, minted, update

TEA, CAT = minted("Likes tea"), minted("Has a cat")


def known(*rows: dict[str, Any]) -> pa.Table:
    """Make what the table holds: ids of live memories with their texts, or more."""
    full = [
        dict.fromkeys(table_schema().names)
        | {
            "record_type": "memory",
            "scope_key": ids.scope_key(USER),
            "scope": list(USER.items()),
            "text_hash": ids.text_hash(row["text"]),
            "is_current": True,
            "is_live": True,
            "deleted": False,
            "valid_from": START,
        }
        | row
        for row in rows
    ]
    schema = pa.schema([field.with_nullable(True) for field in table_schema()])
    return pa.Table.from_pylist(full, schema=schema)


def run(*rows: Any, holds: pa.Table | None = None, **more: Any) -> Folded:
    looked_up = [minted(text, ordinal=n) for text in ("Likes tea", "Has a cat") for n in range(20)]
    batch = check_actions(actions(*rows))
    return fold(
        batch,
        Known(rows=known() if holds is None else holds, looked_up=pa.array(looked_up)),
        now=START,
        **more,
    )


def outcome(folded: Folded) -> list[tuple[str, str, list[int]]]:
    return [(change.event, change.memory_id, change.steps) for change in folded.changes]


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ([add("Likes tea"), update(TEA, "b")], [("ADD", TEA, [0, 1])]),
        ([add("Likes tea"), delete(TEA)], []),
        ([add("Likes tea"), delete(TEA), add("Likes tea")], [("ADD", TEA, [2])]),
        ([update("m", "b"), update("m", "c")], [("UPDATE", "m", [0, 1])]),
        ([update("m", "b"), delete("m")], [("DELETE", "m", [0, 1])]),
        ([delete("m"), delete("m")], [("DELETE", "m", [0])]),
        ([action("NONE", "a")], []),
    ],
)
def test_actions_on_one_memory_come_to_one_change(batch: Any, expected: Any) -> None:
    folded = run(*batch, holds=known({"memory_id": "m", "text": "a"}))
    assert outcome(folded) == expected
    assert not folded.conflicts


def test_an_update_after_a_delete_has_no_target() -> None:
    folded = run(delete("m"), update("m", "b"), holds=known({"memory_id": "m", "text": "a"}))
    (conflict,) = folded.conflicts.values()
    assert (conflict.absent, outcome(folded)) == (("m",), [])


def test_a_text_that_the_batch_took_back_can_be_added_again() -> None:
    holds = known({"memory_id": "m", "text": "Likes tea"})
    assert outcome(run(add("Likes tea"), holds=holds)) == []
    assert outcome(run(update("m", "Likes mocha"), add("Likes tea"), holds=holds)) == [
        ("UPDATE", "m", [0]),
        ("ADD", TEA, [1]),
    ]
    assert run(delete("m"), add("Likes tea"), holds=holds).duplicates == 0


def test_a_text_that_the_batch_gave_to_a_memory_is_not_added() -> None:
    holds = known({"memory_id": "m", "text": "a"})
    folded = run(update("m", "Likes tea"), add("Likes tea"), holds=holds)
    assert (outcome(folded), folded.duplicates) == ([("UPDATE", "m", [0])], 1)


def test_a_memory_that_is_not_live_stops_no_add() -> None:
    holds = known({"memory_id": "m", "text": "Likes tea", "is_live": False})
    assert outcome(run(add("Likes tea"), holds=holds)) == [("ADD", TEA, [0])]
    assert outcome(run(update("m", "Has a cat"), add("Has a cat"), holds=holds)) == [
        ("UPDATE", "m", [0]),
        ("ADD", CAT, [1]),
    ]


def test_an_id_in_use_gives_way_to_the_next_ordinal_that_is_free() -> None:
    holds = known(
        {"memory_id": TEA, "text": "b"}, {"memory_id": minted("Likes tea", ordinal=1), "text": "c"}
    )
    folded = run(add("Likes tea"), update(TEA, "Likes green tea"), holds=holds)
    second = minted("Likes tea", ordinal=2)
    assert outcome(folded) == [("ADD", second, [0, 1])]
    assert folded.ids == {TEA: second}
    assert not folded.unseen


def test_ids_that_nobody_looked_up_are_asked_for() -> None:
    holds = known({"memory_id": "taken", "text": "b"})
    folded = run(add("New text", memory_id="taken"), holds=holds)
    assert minted("New text") in folded.unseen
    assert minted("New text", ordinal=1) in folded.unseen


def test_the_same_id_in_two_scopes_is_given_away_once() -> None:
    folded = run(add("x", memory_id="same"), add("y", memory_id="same", scope={}))
    assert len({change.memory_id for change in folded.changes}) == 2


def test_an_action_cannot_reach_into_another_scope() -> None:
    folded = run(
        update("m", "b", scope={"user_id": "u2"}), holds=known({"memory_id": "m", "text": "a"})
    )
    assert [each.absent for each in folded.conflicts.values()] == [("m",)]


def test_what_changed_after_the_base_is_a_conflict_and_what_changed_before_is_not() -> None:
    holds = known({"memory_id": "m", "text": "a", "valid_from": START})
    assert not run(update("m", "b"), holds=holds, base_time=START).conflicts
    earlier = START - timedelta(microseconds=1)
    folded = run(add("c"), update("m", "b"), holds=holds, base_time=earlier)
    assert ([each.changed for each in folded.conflicts.values()], outcome(folded)) == ([("m",)], [])


def test_an_add_of_a_memory_that_others_have_added_since_and_changed_again_is_a_conflict() -> None:
    tea = minted("Likes tea")
    holds = known({"memory_id": tea, "text": "Likes mate", "valid_from": START})
    earlier = START - timedelta(microseconds=1)
    folded = run(add("Likes tea"), holds=holds, base_time=earlier)
    assert [each.changed for each in folded.conflicts.values()] == [(tea,)]
    before = run(add("Likes tea"), holds=holds, base_time=START)
    assert outcome(before) == [("ADD", minted("Likes tea", ordinal=1), [0])]
    anyway = run(add("Likes tea"), holds=holds)
    assert not anyway.conflicts
    says = known({"memory_id": tea, "text": "Likes tea", "valid_from": START})
    assert run(add("Likes tea"), holds=says, base_time=earlier).duplicates == 1
    gone = {"event": "UNDO", "is_live": False, "deleted": True, "text_hash": None}
    undone = known({**gone, "memory_id": tea, "text": ""})
    assert outcome(run(add("Likes tea"), holds=undone, base_time=earlier)) == [("ADD", tea, [0])]


def test_scopes_in_order_of_their_actions_whether_folded_or_not() -> None:
    other = {"user_id": "u0"}
    rows = [add("A", scope=other), add("B"), add("b"), add("C", scope={"user_id": "u2"})]
    folded = run(*rows)
    assert [steps for _, _, steps in outcome(folded)] == [[0], [1], [3]]
    assert (folded.duplicates, folded.none) == (1, 1)


# Each batch with the reason why its scope cannot do without the fold.
DOUBTFUL = {
    "an id named twice": [add("a"), update(minted("a"), "b")],
    "an id in use": [add("a", memory_id="m")],
    "a text said already": [add("Likes tea")],
    "a text said beside it": [update("m", "b"), add("b")],
    "a target that is not there": [update("absent", "b")],
}


@pytest.mark.parametrize("reason", sorted(DOUBTFUL))
def test_a_scope_in_doubt_is_folded_and_the_others_are_not(reason: str) -> None:
    holds = known({"memory_id": "m", "text": "Likes tea"})
    other = {"user_id": "u2"}
    batch = check_actions(actions(*DOUBTFUL[reason], add("c", scope=other)))
    simple = find_simple(batch, holds, None, START)
    assert simple.mask.tolist() == [scope == other for scope in scopes_of(batch.actions)]
    assert [change.memory_id for change in simple.changes] == [minted("c", other)]


def scopes_of(rows: pa.Table) -> list[dict[str, str]]:
    return [dict(scope) for scope in rows["scope"].to_pylist()]


@pytest.mark.parametrize(
    "row", [add("a"), update("m", "b"), delete("m"), action("NONE", "a", memory_id="m")]
)
def test_an_action_that_stands_alone_needs_no_fold(row: Any) -> None:
    batch = check_actions(actions(row))
    simple = find_simple(batch, known({"memory_id": "m", "text": "Likes tea"}), None, START)
    assert simple.mask.tolist() == [True]


def test_what_has_expired_leaves_a_scope_without_doubt() -> None:
    batch = check_actions(actions(add("Likes tea")))
    for expires_at, is_simple in ((START, True), (START + timedelta(seconds=1), False)):
        holds = known({"memory_id": "m", "text": "Likes tea", "expires_at": expires_at})
        assert find_simple(batch, holds, None, START).mask.all() == is_simple
        folded = run(add("Likes tea"), holds=holds)
        assert (len(folded.changes), folded.duplicates) == (int(is_simple), int(not is_simple))
