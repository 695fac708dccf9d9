"""What the actions of a plan come to is what their commit makes of them."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from memorypipe.pipeline.plans.changes import PLAN_CHANGES, plan_changes
from memorypipe.schema import PLAN_ACTIONS
from tests.support.plans import plan_actions
from tests.support.table_actions import START, action, add, delete, update

U1, U2 = {"user_id": "u1"}, {"user_id": "u2"}
Told = tuple[str, str | None, str | None, int]


def changes(*rows: Any) -> list[Told]:
    found = plan_changes(plan_actions(*rows))
    assert found.schema == PLAN_CHANGES
    return [(row["event"], row["old"], row["new"], row["steps"]) for row in found.to_pylist()]


def test_each_kind_of_change_says_what_was_and_what_will_be() -> None:
    assert changes(
        add("new"), update("m", "b", old_memory="a"), delete("n", old_memory="gone")
    ) == [("ADD", None, "new", 1), ("UPDATE", "a", "b", 1), ("DELETE", "gone", None, 1)]


def test_steps_on_one_memory_are_one_change() -> None:
    assert changes(
        update("m", "b", old_memory="a"),
        add("x", memory_id="n"),
        update("m", "c", old_memory="b"),
        update("n", "y", old_memory="x"),
    ) == [("UPDATE", "a", "c", 2), ("ADD", None, "y", 2)]
    assert changes(update("m", "b", old_memory="a"), delete("m", old_memory="b")) == [
        ("DELETE", "a", None, 2)
    ]
    assert changes(delete("m", old_memory="a"), add("a", memory_id="m")) == [
        ("UPDATE", "a", "a", 2)
    ]


def test_what_comes_to_nothing_is_no_change() -> None:
    assert changes(add("x", memory_id="n"), delete("n", old_memory="x")) == []
    assert changes(action("NONE", "known")) == []
    assert plan_changes(PLAN_ACTIONS.empty_table()).num_rows == 0


def test_the_same_id_in_two_scopes_is_two_memories_and_the_last_action_tells_the_rest() -> None:
    rows = plan_actions(
        update("m", "b", scope=U1, old_memory="a", window_id="w1"),
        update("m", "c", scope=U1, old_memory="b", window_id="w2", event_time=START),
        update("m", "z", scope=U2, old_memory="y", window_id="w3"),
    )
    found = plan_changes(rows).to_pylist()
    assert [(row["old"], row["new"], row["window_id"]) for row in found] == [
        ("a", "c", "w2"),
        ("y", "z", "w3"),
    ]
    assert found[0]["event_time"] == START


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from([U1, U2]), st.booleans()),
        max_size=15,
    )
)
def test_it_is_what_going_through_the_actions_one_by_one_finds(
    steps: list[tuple[str, dict[str, str], bool]],
) -> None:
    """Each memory is there or not; a step changes it, or takes it away, or adds it."""
    live: dict[tuple[str, str], str] = {}
    began: dict[tuple[str, str], str | None] = {}
    rows = []
    for number, (memory, scope, deletes) in enumerate(steps):
        key = (scope["user_id"], memory)
        before = live.get(key) if key in began else None if memory == "c" else "old"
        began.setdefault(key, before)
        text = f"text {number}"
        if before is None:
            rows.append(add(text, scope=scope, memory_id=memory))
            live[key] = text
        elif deletes:
            rows.append(delete(memory, scope=scope, old_memory=before))
            live.pop(key, None)
        else:
            rows.append(update(memory, text, scope=scope, old_memory=before))
            live[key] = text
    expected = {
        key: (old, live.get(key))
        for key, old in began.items()
        if (old, live.get(key)) != (None,) * 2
    }
    found = plan_changes(plan_actions(*rows)) if rows else pa.table({"scope": []})
    assert {
        (dict(row["scope"])["user_id"], row["memory_id"]): (row["old"], row["new"])
        for row in found.to_pylist()
    } == expected
