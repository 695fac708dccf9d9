"""Applying what was decided once and twice is the same, and no memory gets lost on the way."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memorypipe.cells.actions import Action, encode_actions, resolve_actions
from memorypipe.cells.apply import apply_actions, apply_cell, rejected_cell
from memorypipe.cells.memories import encode_existing
from memorypipe.ids import memory_id
from memorypipe.llm.replies.reply import read_actions
from memorypipe.llm.types import Fact
from memorypipe.text import normalise

TEXTS = st.sampled_from(["a", "A ", "b", "c", "ß", "ss", "é", "e\u0301", "d e", "d  e"])
# Ids that an ADD may want for itself are among them.
IDS = st.sampled_from(["m0", "m1", *(memory_id("memory", "", text) for text in ("a", "b", "c"))])
MEMORIES = st.lists(
    st.fixed_dictionaries({"id": IDS, "text": TEXTS}, optional={"rank": st.integers(0, 9)}),
    max_size=4,
    unique_by=lambda memory: memory["id"],
)
SAID = st.fixed_dictionaries(
    {
        "event": st.sampled_from(["ADD", "UPDATE", "DELETE", "NONE"]),
        "target_id": st.sampled_from(["0", "1", "2", "3"]),
        "text": TEXTS,
    }
)


def decide(memories: list[dict[str, Any]], said: list[dict[str, Any]]) -> tuple[Action, ...]:
    facts = [Fact(text=f"fact {n}") for n in range(len(said))]
    numbered = [{**item, "fact": n} for n, item in enumerate(said)]
    read = read_actions(json.dumps({"actions": numbered}), finish_reason="stop")
    return resolve_actions(facts, memories, read, fallback_action="ADD").actions


@given(memories=MEMORIES, said=st.lists(SAID, max_size=5))
def test_applying_decided_actions_again_changes_nothing(
    memories: list[dict[str, Any]], said: list[dict[str, Any]]
) -> None:
    actions = encode_actions(decide(memories, said))
    once = apply_cell(encode_existing(memories), actions)
    assert apply_cell(once, actions) == once


@given(memories=MEMORIES, said=st.lists(SAID, max_size=5))
def test_decided_actions_hold_and_count_up(
    memories: list[dict[str, Any]], said: list[dict[str, Any]]
) -> None:
    actions = decide(memories, said)
    applied = apply_actions(memories, actions)
    events = [action.event for action in actions]
    assert applied.rejected == []
    assert len(applied.memories) == len(memories) - events.count("DELETE") + len(applied.added_ids)
    assert len({memory["id"] for memory in applied.memories}) == len(applied.memories)
    kept = [memory["id"] for memory in applied.memories if memory["id"] not in applied.added_ids]
    assert kept == [memory["id"] for memory in memories if memory["id"] in kept]
    said_now = {normalise(memory["text"]) for memory in applied.memories}
    assert all(normalise(a.text) in said_now for a in actions if a.event == "UPDATE")


ANY = st.sampled_from([None, 5, 1.5, True, "", " ", "x", [1], {"a": "b"}])
ACTIONS = st.lists(
    st.dictionaries(st.sampled_from(["event", "target_id", "text"]), ANY | IDS | TEXTS)
    | st.fixed_dictionaries(
        {"event": st.sampled_from(["ADD", "UPDATE", "DELETE"])},
        optional={"target_id": ANY | IDS, "text": ANY | TEXTS},
    ),
    max_size=5,
)


@given(memories=MEMORIES, actions=ACTIONS)
def test_cells_of_others_never_fail_and_give_a_readable_cell(
    memories: list[dict[str, Any]], actions: list[dict[str, Any]]
) -> None:
    existing, cell = json.dumps(memories), json.dumps({"actions": actions})
    out = apply_cell(existing, cell)
    assert apply_cell(out, '{"actions":[]}') == out
    rejected = json.loads(rejected_cell(existing, cell))
    assert [item["index"] for item in rejected] == sorted({item["index"] for item in rejected})


@given(memories=MEMORIES, actions=ACTIONS)
def test_cell_and_values_give_the_same(
    memories: list[dict[str, Any]], actions: list[dict[str, Any]]
) -> None:
    strings = [
        Action(
            event=_text(action.get("event")) or "",
            text=_text(action.get("text")) or "",
            target_id=_text(action.get("target_id")),
        )
        for action in actions
    ]
    out = apply_cell(encode_existing(memories), json.dumps({"actions": actions}))
    assert out == encode_existing(apply_actions(memories, strings).memories)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
