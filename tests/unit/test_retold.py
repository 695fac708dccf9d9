"""A fact that the table has had from the same message is not decided again."""

import asyncio
from typing import Any

import pyarrow as pa

from memorypipe.expressions.build_action import DecideWork
from memorypipe.ids import ledger_key, text_hash
from memorypipe.llm.replies.reply import ReadActions
from memorypipe.llm.stage import Outcome
from memorypipe.pipeline.deciding import window_facts
from memorypipe.pipeline.scopes.consolidate import consolidate_scope
from memorypipe.pipeline.scopes.retold import mark_retold
from memorypipe.pipeline.scopes.settings import ConsolidationSettings
from memorypipe.pipeline.told_before import SAID, told_facts
from memorypipe.schema import FACTS
from tests.support.by_hand import fact_row, message

ITEMS = [
    {"text": "Lives in Leeds", "sources": ["m1"]},
    {"text": "Owns a piano", "sources": ["m1", "m2"]},
]


def flagged(said: list[tuple[str, str, list[str] | None]]) -> pa.Table:
    row = fact_row([message(1, "a"), message(2, "b")], ITEMS)
    rows = [
        {"scope_key": scope, "text_hash": text and text_hash(text), "source_ids": sources}
        for scope, text, sources in said
    ]
    schema = pa.schema(
        [
            ("scope_key", pa.string()),
            ("text_hash", pa.string()),
            ("source_ids", pa.list_(pa.string())),
        ]
    )
    facts = pa.Table.from_pylist([row], schema=FACTS)
    return mark_retold(facts, pa.Table.from_pylist(rows, schema=schema))


def numbers(facts: pa.Table) -> list[int]:
    return [flag["fact"] for flag in facts["flags"].to_pylist()[0] if flag["flag"] == "retold"]


def test_the_same_words_from_the_same_message_are_told_again() -> None:
    assert numbers(flagged([("[]", "lives in  LEEDS", ["m1", "m9"])])) == [0]
    assert numbers(flagged([("[]", "Owns a piano", ["m2"])])) == [1]


def test_another_message_scope_or_text_is_new_evidence() -> None:
    said = [
        ("[]", "Lives in Leeds", ["m2"]),
        ("[]", "Lives in Leeds", None),
        ('[["user_id","u"]]', "Lives in Leeds", ["m1"]),
        ("[]", "Lives in York", ["m1"]),
    ]
    assert numbers(flagged(said)) == []


def test_flags_that_were_there_stay_and_a_failed_window_has_none() -> None:
    row = fact_row([message(1, "a")], None)
    failed = pa.Table.from_pylist([{**row, "flags": None}], schema=FACTS)
    empty = pa.table({"scope_key": [], "text_hash": [], "source_ids": []})
    assert mark_retold(failed, empty)["flags"].to_pylist() == [[]]


def test_what_was_added_and_taken_away_in_one_run_was_told_all_the_same() -> None:
    """Its facts say so, but for messages that the run has left open."""
    row = fact_row([message(1, "a"), message(2, "b")], ITEMS)
    facts = pa.Table.from_pylist([row], schema=FACTS)
    dealt_with = {ledger_key("[]", "c0", "m1")}
    told = pa.Table.from_pylist(list(told_facts(facts, dealt_with)), schema=SAID)
    assert told["source_ids"].to_pylist() == [["m1"], ["m1"]]
    assert numbers(mark_retold(facts, told)) == [0, 1]
    assert not list(told_facts(facts, set()))


def test_nobody_is_asked_about_what_is_told_again_and_it_changes_nothing() -> None:
    asked: list[DecideWork] = []

    async def decide(work: DecideWork) -> Outcome[ReadActions]:
        asked.append(work)
        raise AssertionError("nothing is left to decide")

    facts = flagged([("[]", "Lives in Leeds", ["m1"]), ("[]", "Owns a piano", ["m1"])])
    rows: list[dict[str, Any]] = facts.to_pylist()
    result = asyncio.run(
        consolidate_scope(
            "[]", [window_facts(0, rows[0])], [], decide=decide, settings=ConsolidationSettings()
        )
    )
    assert [action.event for action in result.actions] == ["NONE", "NONE"]
    assert (result.open_windows, asked) == ({}, [])
