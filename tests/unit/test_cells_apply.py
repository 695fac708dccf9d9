"""Carrying out actions on the memories of a cell."""

import json
from typing import Any

import pytest

from memorypipe.cells.actions import Action
from memorypipe.cells.apply import apply_actions, apply_cell, rejected_cell
from memorypipe.errors import InvalidCellError
from memorypipe.ids import digest, memory_id, scope_key
from memorypipe.llm.types import Fact

EXISTING: list[dict[str, Any]] = [
    {"id": "a", "text": "Likes tea", "rank": 3, "tags": {"x": [1.5]}},
    {"id": "b", "text": "Lives in Rome", "context": "2020"},
]


def cells(existing: list[dict[str, Any]], *actions: dict[str, Any], **more: Any) -> Any:
    cell = apply_cell(json.dumps(existing), json.dumps({"actions": actions}), **more)
    assert cell is not None
    return json.loads(cell)


def update(target: Any, text: Any) -> dict[str, Any]:
    return {"event": "UPDATE", "target_id": target, "text": text}


def add(text: Any) -> dict[str, Any]:
    return {"event": "ADD", "text": text}


def delete(target: Any) -> dict[str, Any]:
    return {"event": "DELETE", "target_id": target, "text": "x"}


def test_update_replaces_the_text_and_keeps_every_other_key() -> None:
    assert cells(EXISTING, update("a", "Likes coffee")) == [
        {"id": "a", "text": "Likes coffee", "rank": 3, "tags": {"x": [1.5]}},
        EXISTING[1],
    ]


def test_delete_removes_and_none_does_nothing() -> None:
    assert cells(EXISTING, delete("a"), {"event": "NONE", "text": "x"}) == EXISTING[1:]


def test_adds_are_appended_in_order_with_ids_made_of_scope_and_text() -> None:
    scope = {"user_id": "u1"}
    out = cells(EXISTING, add("Owns a cat"), add("Runs"), scope=scope)
    key = scope_key(scope)
    assert out == [
        *EXISTING,
        {"id": memory_id("memory", key, "Owns a cat"), "text": "Owns a cat"},
        {"id": memory_id("memory", key, "Runs"), "text": "Runs"},
    ]
    assert cells([], add("Runs"))[0]["id"] == memory_id("memory", "", "Runs")


@pytest.mark.parametrize(
    ("known", "new"),
    [
        ("Likes tea", " likes  TEA "),
        ("Likes  tea\n", "likes tea"),
        ("Straße 5", "STRASSE 5"),
        ("STRASSE 5", "Straße 5"),
        ("caf\u00e9", "cafe\u0301"),
        ("\u212aelvin", "kelvin"),
        ("tea", "tea"),
    ],
)
def test_an_add_of_the_same_normalised_text_does_nothing(known: str, new: str) -> None:
    existing = [{"id": "a", "text": known}]
    assert cells(existing, add(new)) == existing


def test_an_add_sees_what_earlier_actions_made() -> None:
    out = cells(EXISTING, update("a", "Owns a cat"), add("owns a cat"), add("Runs"), add("runs"))
    assert [memory["text"] for memory in out] == ["Owns a cat", "Lives in Rome", "Runs"]
    again = cells(EXISTING, update("a", "Likes coffee"), add("Likes tea"), delete("b"))
    assert [memory["text"] for memory in again] == ["Likes coffee", "Likes tea"]


def test_an_id_that_says_something_else_by_now_is_not_reused() -> None:
    taken = {"id": memory_id("memory", "", "Runs"), "text": "Swims"}
    assert cells([taken], add("Runs"))[1]["id"] == memory_id("memory", "", "Runs", 1)


def test_an_id_freed_by_a_delete_is_not_reused_so_that_applying_again_changes_nothing() -> None:
    taken = {"id": memory_id("memory", "", "Runs"), "text": "Swims"}
    actions = [delete(taken["id"]), add("Runs"), add("Sails")]
    once = cells([taken], *actions)
    assert cells(once, *actions) == once


def test_the_context_of_the_fact_becomes_that_of_the_memory() -> None:
    facts = json.dumps(
        {"memories": [{"text": "x", "context": "c"}, {"text": "y"}, {"text": "z", "context": "d"}]}
    )
    out = cells(EXISTING, update("a", "x"), update("b", "y"), add("z"), facts=facts)
    assert [memory.get("context") for memory in out] == ["c", "2020", "d"]


def test_what_cannot_hold_changes_nothing_and_is_listed() -> None:
    actions = [
        update("z", "x"),
        update("a", None),
        update("a", " "),
        add(""),
        delete(None),
        delete(["a"]),
        {"event": "MERGE", "target_id": "a"},
        {"event": ["ADD"]},
        {"event": "add", "text": "x"},
    ]
    assert cells(EXISTING, *actions) == EXISTING
    listed = json.loads(rejected_cell(json.dumps(EXISTING), json.dumps({"actions": actions})))
    assert [(item["index"], item["reason"]) for item in listed] == [
        (0, "unknown_target"),
        (1, "missing_text"),
        (2, "missing_text"),
        (3, "missing_text"),
        (4, "unknown_target"),
        (5, "unknown_target"),
        (6, "unknown_event"),
        (7, "unknown_event"),
        (8, "unknown_event"),
    ]
    assert listed[0] == {
        "index": 0,
        "event": "UPDATE",
        "target_id": "z",
        "reason": "unknown_target",
    }


def test_raise_names_row_and_action() -> None:
    with pytest.raises(InvalidCellError, match=r"Row 5.*index 1.*unknown_target"):
        cells(EXISTING, delete("a"), delete("a"), row=5, on_rejected="raise")


@pytest.mark.parametrize("existing", [None, "", '[ {"id": "a", "text": "x"} ]'])
def test_null_actions_leave_the_cell_as_it_is(existing: str | None) -> None:
    assert apply_cell(existing, None) == existing
    assert rejected_cell(existing, None) == "[]"


@pytest.mark.parametrize(("existing", "actions"), [("x", None), ("[]", "x"), ('["a"]', "{}")])
def test_malformed_cells_are_invalid(existing: str, actions: str | None) -> None:
    with pytest.raises(InvalidCellError, match="Row 0"):
        apply_cell(existing, actions)


def test_values_are_not_modified() -> None:
    existing = [{"id": "a", "text": "Likes tea"}]
    applied = apply_actions(
        existing,
        [
            Action(event="UPDATE", target_id="a", text="b\x00"),
            Action(event="ADD", text="c"),
            Action(event="DELETE", target_id="z", text="d"),
        ],
        facts=[Fact(text="b", context="x")],
        scope_key="s",
        record_type="fact",
    )
    new_id = memory_id("fact", "s", "c")
    assert existing == [{"id": "a", "text": "Likes tea"}]
    assert applied.memories == [
        {"id": "a", "text": "b\ufffd", "context": "x"},
        {"id": new_id, "text": "c"},
    ]
    assert applied.added_ids == [new_id]
    assert [item["index"] for item in applied.rejected] == [2]


def test_an_id_is_the_digest_of_what_it_is_made_of() -> None:
    expected = "mem_" + digest("memory", "é", "runs", 1).hex()
    assert memory_id("memory", "é", " Runs", 1) == expected
