"""What builds on a dropped action goes with it, and nothing else."""

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from memorypipe.pipeline.plans.dependence import built_on
from memorypipe.schema import PLAN_ACTIONS
from tests.support.plans import plan_actions
from tests.support.table_actions import action, add, delete, update

U1, U2 = {"user_id": "u1"}, {"user_id": "u2"}


def lost(rows: pa.Table, *dropped: int) -> list[int]:
    mask = np.zeros(rows.num_rows, bool)
    mask[list(dropped)] = True
    return np.flatnonzero(built_on(rows, mask)).tolist()


def none(rests_on: str | None = None, **more: Any) -> Any:
    return action("NONE", "known", rests_on=rests_on, **more)


def test_later_actions_on_the_same_memory_go_with_an_earlier_one() -> None:
    rows = plan_actions(add("a", memory_id="m"), update("m", "b"), update("x", "y"), delete("m"))
    assert lost(rows, 0) == [1, 3]
    assert lost(rows, 1) == [3]
    assert lost(rows, 2) == lost(rows, 3) == []


def test_what_rests_on_another_memory_goes_with_the_last_change_of_it_before() -> None:
    rows = plan_actions(
        add("a", memory_id="m"), none("m"), update("m", "b"), none("m"), none("elsewhere"), none()
    )
    assert lost(rows, 0) == [1, 2, 3]
    assert lost(rows, 2) == [3]
    assert lost(rows, 1) == []


def test_a_change_that_rests_on_another_memory_takes_what_follows_along() -> None:
    rows = plan_actions(
        add("a", memory_id="m"),
        delete("n", rests_on="m"),
        add("c", memory_id="n"),
        update("n", "d"),
    )
    assert lost(rows, 0) == [1]
    assert lost(rows, 2) == [3]


def test_the_same_id_in_another_scope_is_another_memory() -> None:
    rows = plan_actions(
        add("a", memory_id="m", scope=U1),
        update("m", "b", scope=U1),
        update("m", "b", scope=U2),
        none("m", scope=U2),
    )
    assert lost(rows, 0) == [1]
    assert lost(rows, 2) == [3]


def test_nothing_dropped_loses_nothing_and_a_plan_may_be_empty() -> None:
    assert lost(plan_actions(add("a"), none())) == []
    assert lost(PLAN_ACTIONS.empty_table()) == []


_MEMORIES = st.sampled_from(["m", "n", None])
_STEPS = st.tuples(
    st.sampled_from(["ADD", "UPDATE", "DELETE", "NONE"]),
    _MEMORIES,
    _MEMORIES,
    st.sampled_from([U1, U2]),
    st.booleans(),
)


@given(st.lists(_STEPS, max_size=12), st.randoms(use_true_random=False))
def test_it_is_what_going_through_the_actions_one_by_one_finds(
    steps: list[tuple[str, str | None, str | None, dict[str, str], bool]], shuffle: Any
) -> None:
    rows = plan_actions(
        *(
            action(event, "t", scope=scope, rests_on=rests_on)
            | {"memory_id": None if event == "NONE" else (memory or "m")}
            for event, memory, rests_on, scope, _ in steps
        )
    )
    order = list(range(rows.num_rows))
    shuffle.shuffle(order)
    dropped = np.array([step[-1] for step in steps], bool)[: rows.num_rows]
    shuffled = built_on(rows.take(pa.array(order, pa.int64())), dropped[order])
    expected = _one_by_one(rows.to_pylist(), dropped.tolist())
    assert shuffled.tolist() == [expected[place] for place in order]


def _one_by_one(rows: list[dict[str, Any]], dropped: list[bool]) -> list[bool]:
    last: dict[tuple[str, str], bool] = {}
    found = []
    for row, is_dropped in zip(rows, dropped, strict=True):
        scope = row["scope_key"]
        built = last.get((scope, row["rests_on"]), False)
        if row["event"] in {"UPDATE", "DELETE"}:
            built |= last.get((scope, row["memory_id"]), False)
        if row["event"] != "NONE":
            last[scope, row["memory_id"]] = is_dropped or built
        found.append(built and not is_dropped)
    return found
