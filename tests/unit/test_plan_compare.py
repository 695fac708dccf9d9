"""Two plans are matched window by window and fact by fact."""

import json
from pathlib import Path
from typing import Any

import pytest

from memorypipe import Plan, ids
from memorypipe.errors import PlanError
from memorypipe.pipeline.plans.compare import COMPARED_FACTS, COMPARED_WINDOWS, compare
from tests.support.plans import facts_of, plan_actions, window, write_plan
from tests.support.table_actions import USER, action, add

Verdict = tuple[str, str | None, str | None]


def plan(folder: Path, run_id: str, *windows: Any, **summary: Any) -> Plan:
    rows = plan_actions(*(action("NONE", "x") for _ in windows))
    return write_plan(str(folder), run_id, rows, facts=facts_of(*windows), **summary)


def verdicts(a: Plan, b: Plan) -> set[Verdict]:
    facts = compare(a, b).facts
    assert facts.schema == COMPARED_FACTS
    return {(row["verdict"], row["text_a"], row["text_b"]) for row in facts.to_pylist()}


def test_facts_are_the_same_reworded_or_on_one_side_only(tmp_path: Path) -> None:
    a = plan(tmp_path, "a", window("w1", "Likes green tea", "Lives in Rome.", "Owns a cat"))
    b = plan(
        tmp_path, "b", window("w1", "The user lives in Rome", "Likes tea that is green", "Runs")
    )
    assert verdicts(a, b) == {
        ("same", "Lives in Rome.", "The user lives in Rome"),
        ("reworded", "Likes green tea", "Likes tea that is green"),
        ("only_a", "Owns a cat", None),
        ("only_b", None, "Runs"),
    }
    found = compare(a, b)
    assert [found.count(each) for each in ("same", "reworded", "only_a", "only_b")] == [1] * 4


def test_a_plan_is_the_same_as_itself(tmp_path: Path) -> None:
    one = plan(tmp_path, "a", window("w1", "Likes tea", "Likes tea", "Owns a cat"), window("w2"))
    found = compare(one, one)
    assert (found.count("same"), found.facts.num_rows) == (3, 3)
    assert (found.count_windows("both"), found.windows.num_rows) == (2, 2)
    assert found.different_status() == 0


def test_a_fact_that_is_there_twice_is_the_same_once_with_one(tmp_path: Path) -> None:
    a = plan(tmp_path, "a", window("w1", "Likes tea", "Likes tea"))
    b = plan(tmp_path, "b", window("w1", "Likes tea"))
    assert verdicts(a, b) == {("same", "Likes tea", "Likes tea"), ("only_a", "Likes tea", None)}


def test_windows_may_be_cut_otherwise(tmp_path: Path) -> None:
    a = plan(tmp_path, "a", window("w1", "Likes tea"), window("w2", "Owns a cat"))
    b = plan(tmp_path, "b", window("w3", "Owns a cat", "Likes tea", status="truncated"))
    found = compare(a, b)
    assert found.count("same") == 2
    rows = found.windows.select(["window_id", "found_in", "facts_a", "facts_b"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("w1", "a", 1, None),
        ("w2", "a", 1, None),
        ("w3", "b", None, 2),
    ]
    assert found.windows.schema == COMPARED_WINDOWS


def test_what_no_message_supports_on_both_sides_is_not_the_same_fact_reworded(
    tmp_path: Path,
) -> None:
    a = plan(tmp_path, "a", window("w1", "Likes green tea", messages=["m1"]))
    b = plan(tmp_path, "b", window("w2", "Likes green tea a lot", messages=["m2"]))
    assert {verdict for verdict, _, _ in verdicts(a, b)} == {"only_a", "only_b"}


def test_the_same_words_in_another_conversation_or_scope_are_another_fact(tmp_path: Path) -> None:
    other = {"user_id": "u2"}
    a = plan(tmp_path, "a", window("w1", "Likes tea"), window("w2", "Runs", scope=USER))
    b = plan(
        tmp_path,
        "b",
        window("w1", "Likes tea", conversation_id="c2"),
        window("w2", "Runs", scope=other),
    )
    found = compare(a, b)
    assert [found.count(each) for each in ("same", "reworded", "only_a", "only_b")] == [0, 0, 2, 2]
    keys = {row["scope_key"] for row in found.facts.to_pylist()}
    assert keys == {ids.scope_key(USER), ids.scope_key(other)}


def test_status_tokens_and_cost_stand_beside_each_other(tmp_path: Path) -> None:
    a = plan(tmp_path, "a", window("w1", "Likes tea"), calls=1, cost=0.5)
    failed = window("w1", status="http_500", facts_json=None, prompt_tokens=7)
    b = plan(tmp_path, "b", failed, calls=3)
    found = compare(a, b)
    row = found.windows.to_pylist()[0]
    assert (row["status_a"], row["status_b"]) == ("ok", "http_500")
    assert (row["tokens_a"], row["tokens_b"], row["facts_b"]) == (110, 17, 0)
    assert found.different_status() == 1
    value = json.loads(json.dumps(found.to_dict()))
    assert (value["a"]["cost"], value["b"]["cost"], value["b"]["calls"]) == (0.5, None, 3)
    assert value["windows"] == {"both": 1, "a": 0, "b": 0, "different_status": 1}
    assert value["differences"][0]["text_a"] == "Likes tea"


def test_it_shows_as_text(tmp_path: Path) -> None:
    a = plan(tmp_path, "a", window("w1", "Likes green tea", "Owns a cat"))
    b = plan(tmp_path, "b", window("w1", "Likes tea that is green", "Runs"))
    text = str(compare(a, b))
    assert "  ~ Likes green tea → Likes tea that is green" in text.splitlines()
    assert "facts    0 same, 1 reworded, 1 only_a, 1 only_b" in text.splitlines()
    assert compare(a, b).to_text(limit=1).splitlines()[-1] == "  … 2 more"


def test_plans_without_windows_are_refused_unless_nothing_was_new(tmp_path: Path) -> None:
    imported = write_plan(str(tmp_path), "i", plan_actions(add("x")), manifest={"kind": "import"})
    one = plan(tmp_path, "a", window("w1", "Likes tea"))
    with pytest.raises(PlanError, match="'i' was not made from a log"):
        compare(one, imported)
    empty = write_plan(str(tmp_path), "e", plan_actions())
    assert compare(empty, one).count("only_b") == 1
    assert compare(empty, empty).facts.num_rows == 0
