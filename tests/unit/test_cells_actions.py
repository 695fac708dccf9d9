"""From a reply to exactly one action per fact."""

import json
from dataclasses import asdict
from typing import Any

import pytest

from memorypipe.cells.actions import (
    Action,
    FallbackAction,
    Resolved,
    encode_actions,
    fallback_actions,
    parse_actions,
    resolve_actions,
)
from memorypipe.errors import InvalidCellError
from memorypipe.llm.replies.reply import read_actions
from memorypipe.llm.types import Fact

EXISTING = [{"id": "m_a", "text": "Likes tea"}, {"id": "m_b", "text": "Lives in Rome"}]
FACTS = [Fact(text="Lives in Oslo"), Fact(text="Owns a cat")]


def resolve(
    *said: dict[str, Any] | str,
    facts: list[Fact] = FACTS,
    existing: list[dict[str, Any]] = EXISTING,
    fallback_action: FallbackAction = "ADD",
    finish_reason: str = "stop",
) -> Resolved:
    reply = json.dumps({"actions": said})
    read = read_actions(reply, finish_reason=finish_reason)
    return resolve_actions(facts, existing, read, fallback_action=fallback_action)


def one(said: dict[str, Any], **settings: Any) -> Action:
    """What becomes of the first fact."""
    return resolve({"fact": 0, **said}, {"fact": 1, "event": "NONE"}, **settings).actions[0]


def shape(action: Action) -> tuple[str, str | None, str, str | None]:
    return action.event, action.target_id, action.text, action.old_memory


def test_update_takes_the_old_text_from_the_memory() -> None:
    action = one({"event": "UPDATE", "target_id": "1", "text": "Lives in Oslo, before in Rome"})
    assert shape(action) == ("UPDATE", "m_b", "Lives in Oslo, before in Rome", "Lives in Rome")


def test_delete_carries_the_text_of_the_fact() -> None:
    action = one({"event": "DELETE", "target_id": "1", "text": "whatever"})
    assert shape(action) == ("DELETE", "m_b", "Lives in Oslo", "Lives in Rome")


def test_add_and_none_have_no_target() -> None:
    added = one({"event": "ADD", "target_id": "1", "text": "Moved to Oslo"})
    assert shape(added) == ("ADD", None, "Moved to Oslo", None)
    dropped = one({"event": "NONE", "target_id": "1", "text": "x"})
    assert shape(dropped) == ("NONE", None, "Lives in Oslo", None)


def test_add_without_text_takes_the_fact() -> None:
    for text in (None, " "):
        assert one({"event": "ADD", "text": text}).text == "Lives in Oslo"


@pytest.mark.parametrize("target", ["1", 1, "m_b"])
def test_a_target_is_an_alias_or_the_exact_id(target: Any) -> None:
    assert one({"event": "DELETE", "target_id": target}).target_id == "m_b"


@pytest.mark.parametrize("target", ["2", "12", "-1", "M_B", "m_", " 1", "Lives in Rome", "", None])
@pytest.mark.parametrize("event", ["UPDATE", "DELETE"])
def test_an_unknown_target_makes_that_fact_fall_back(event: str, target: str | None) -> None:
    said = {"fact": 0, "event": event, "target_id": target, "text": "x"}
    resolved = resolve(said, {"fact": 1, "event": "ADD"})
    assert [shape(action) for action in resolved.actions] == [
        ("ADD", None, "Lives in Oslo", None),
        ("ADD", None, "Owns a cat", None),
    ]
    assert list(resolved.problems) == [0]
    assert resolved.actions[0].rationale == f"fallback: {resolved.problems[0]}"


def test_an_alias_wins_over_an_id_that_looks_like_one() -> None:
    existing = [{"id": "1", "text": "a"}, {"id": "0", "text": "b"}]
    assert one({"event": "DELETE", "target_id": "0"}, existing=existing).target_id == "1"


@pytest.mark.parametrize(
    "said",
    [
        {"text": "x", "target_id": "0"},
        {"event": "MERGE", "target_id": "0", "text": "x"},
        {"event": "UPDATE", "target_id": "0"},
        {"event": "UPDATE", "target_id": "0", "text": " "},
    ],
)
@pytest.mark.parametrize("fallback_action", ["ADD", "NONE"])
def test_what_cannot_hold_falls_back(said: dict[str, Any], fallback_action: FallbackAction) -> None:
    action = one(said, fallback_action=fallback_action)
    assert shape(action) == (fallback_action, None, "Lives in Oslo", None)


def test_without_memories_nothing_can_be_changed() -> None:
    assert one({"event": "DELETE", "target_id": "0"}, existing=[]).event == "ADD"


def test_the_order_of_the_reply_does_not_matter_where_facts_are_numbered() -> None:
    resolved = resolve({"fact": 1, "event": "NONE"}, {"fact": 0, "event": "ADD"})
    assert [action.event for action in resolved.actions] == ["ADD", "NONE"]


def test_without_numbers_the_order_counts_if_the_counts_agree() -> None:
    resolved = resolve({"event": "NONE"}, {"event": "ADD"})
    assert [action.event for action in resolved.actions] == ["NONE", "ADD"]
    assert not resolved.problems


@pytest.mark.parametrize(
    "said",
    [
        [{"event": "NONE"}],
        [{"event": "NONE"}, {"event": "NONE"}, {"event": "NONE"}],
        [{"event": "NONE"}, "unreadable", {"event": "NONE"}],
    ],
)
def test_without_numbers_and_with_another_count_all_fall_back(said: list[Any]) -> None:
    assert sorted(resolve(*said).problems) == [0, 1]


def test_one_number_is_enough_to_go_by_numbers() -> None:
    resolved = resolve({"event": "NONE"}, {"fact": 1, "event": "NONE"})
    assert list(resolved.problems) == [0]


def test_of_a_repeated_number_the_first_counts_and_extra_actions_are_dropped() -> None:
    resolved = resolve(
        {"fact": 0, "event": "NONE"},
        {"fact": 0, "event": "ADD"},
        {"fact": 1, "event": "ADD"},
        {"fact": 2, "event": "DELETE", "target_id": "0"},
        {"fact": -1, "event": "DELETE", "target_id": "0"},
    )
    assert [action.event for action in resolved.actions] == ["NONE", "ADD"]


def test_a_missing_action_makes_that_fact_fall_back() -> None:
    resolved = resolve({"fact": 1, "event": "NONE"})
    assert [action.event for action in resolved.actions] == ["ADD", "NONE"]
    assert list(resolved.problems) == [0]


@pytest.mark.parametrize("first", ["UPDATE", "DELETE"])
@pytest.mark.parametrize("second", ["UPDATE", "DELETE"])
def test_a_memory_is_changed_once_and_the_later_fact_is_added(first: str, second: str) -> None:
    resolved = resolve(
        {"fact": 0, "event": first, "target_id": "1", "text": "x"},
        {"fact": 1, "event": second, "target_id": "m_b", "text": "y"},
        fallback_action="NONE",
    )
    assert resolved.actions[0].event == first
    assert shape(resolved.actions[1]) == ("ADD", None, "Owns a cat", None)
    assert (resolved.conflicts, resolved.problems) == ((1,), {})


def test_an_update_that_changes_nothing_is_none_and_leaves_the_memory_to_others() -> None:
    resolved = resolve(
        {"fact": 0, "event": "UPDATE", "target_id": "0", "text": "Likes tea"},
        {"fact": 1, "event": "UPDATE", "target_id": "0", "text": "Likes green tea"},
    )
    assert [action.event for action in resolved.actions] == ["NONE", "UPDATE"]
    assert resolved.conflicts == ()


def test_an_add_of_what_is_known_is_none() -> None:
    assert one({"event": "ADD", "text": " likes  TEA"}).event == "NONE"
    twice = resolve(
        {"fact": 0, "event": "ADD", "text": "x"}, {"fact": 1, "event": "ADD", "text": "X"}
    )
    assert [action.event for action in twice.actions] == ["ADD", "NONE"]
    merged = resolve(
        {"fact": 0, "event": "UPDATE", "target_id": "1", "text": "Owns a cat"},
        {"fact": 1, "event": "ADD"},
    )
    assert [action.event for action in merged.actions] == ["UPDATE", "NONE"]


def test_a_none_is_doubtful_where_no_memory_holds_the_fact() -> None:
    """The text is another memory's, or rests on an action that may not come about."""
    known = [{"id": "m_c", "text": "Lives in Oslo now"}]
    update = {"event": "UPDATE", "target_id": "0", "text": "Likes tea"}
    for said, existing, doubtful in (
        ({"event": "ADD", "text": "Likes tea"}, EXISTING, (0,)),
        ({"event": "ADD", "text": "Lives in Oslo now"}, known, ()),
        (update, EXISTING, (0,)),
        ({**update, "text": "Lives in Oslo now"}, known, ()),
        ({"event": "NONE"}, EXISTING, ()),
    ):
        resolved = resolve({"fact": 0, **said}, {"fact": 1, "event": "NONE"}, existing=existing)
        assert (resolved.actions[0].event, resolved.doubtful) == ("NONE", doubtful)
    twice = resolve({"fact": 0, "event": "ADD"}, {"fact": 1, "event": "ADD", "text": FACTS[0].text})
    assert (twice.actions[1].event, twice.doubtful) == ("NONE", (1,))


def test_an_unrelated_add_beside_an_update_is_kept() -> None:
    resolved = resolve(
        {"fact": 0, "event": "UPDATE", "target_id": "1", "text": "Lives in Oslo"},
        {"fact": 1, "event": "ADD"},
    )
    assert [action.event for action in resolved.actions] == ["UPDATE", "ADD"]


def test_a_delete_is_taken_from_whole_replies_only() -> None:
    said = [{"fact": 0, "event": "DELETE", "target_id": "1"}, {"fact": 1, "event": "ADD"}]
    resolved = resolve(*said, finish_reason="length")
    assert [action.event for action in resolved.actions] == ["ADD", "ADD"]
    assert list(resolved.problems) == [0]


def test_an_unreadable_reply_makes_all_facts_fall_back() -> None:
    read = read_actions("All new.", finish_reason="stop")
    resolved = resolve_actions(FACTS, EXISTING, read, fallback_action="NONE")
    assert [action.event for action in resolved.actions] == ["NONE", "NONE"]
    assert sorted(resolved.problems) == [0, 1]


def test_a_blank_fact_is_dropped() -> None:
    resolved = resolve({"fact": 0, "event": "ADD"}, facts=[Fact(text=" ")])
    assert [action.event for action in resolved.actions] == ["NONE"]


def test_every_action_has_a_rationale() -> None:
    given = one({"event": "ADD", "rationale": "new"})
    missing = one({"event": "ADD"})
    assert (given.rationale, bool(missing.rationale)) == ("new", True)


def test_a_failed_call_gives_every_fact_the_fallback_action() -> None:
    actions = fallback_actions(FACTS, fallback_action="ADD", reason="fallback: timeout")
    assert [shape(action)[:3] for action in actions] == [
        ("ADD", None, "Lives in Oslo"),
        ("ADD", None, "Owns a cat"),
    ]
    assert {action.rationale for action in actions} == {"fallback: timeout"}


def test_a_cell_has_exactly_five_keys_and_reads_back() -> None:
    actions = (Action(event="UPDATE", text="é", target_id="m1", old_memory="e", rationale="r"),)
    cell = encode_actions(actions)
    assert json.loads(cell) == {"actions": [asdict(actions[0])]}
    assert list(json.loads(cell)["actions"][0]) == [
        "event", "target_id", "text", "old_memory", "rationale",
    ]  # fmt: skip
    assert parse_actions(cell, 0) == actions
    assert parse_actions(encode_actions(actions, ensure_ascii=True), 0) == actions


def test_a_cell_of_others_is_read_leniently_item_by_item() -> None:
    (action,) = parse_actions('{"actions":[{"event":5,"text":null,"target_id":7}]}', 0) or ()
    assert action == Action(event="", text="")
    assert parse_actions(None, 0) is None


@pytest.mark.parametrize("cell", ["", "x", "[]", "{}", '{"actions":{}}', '{"actions":["ADD"]}'])
def test_a_malformed_cell_names_the_row(cell: str) -> None:
    with pytest.raises(InvalidCellError, match="Row 9: the actions cell"):
        parse_actions(cell, 9)
