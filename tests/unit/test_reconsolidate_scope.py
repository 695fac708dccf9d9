"""What is decided of memories is told in terms of the memories. The model is scripted."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from memorypipe.expressions.build_action import DecideWork
from memorypipe.llm.replies.reply import ReadActions
from memorypipe.llm.stage import Outcome
from memorypipe.pipeline.reconsolidate_rows import compared_rows, result_rows
from memorypipe.pipeline.scopes.decided import Decided
from memorypipe.pipeline.scopes.reconsolidate import (
    Member,
    ScopeWork,
    decide_scope,
    mark_of,
    prepare_scope,
)
from memorypipe.pipeline.scopes.settings import ConsolidationSettings
from memorypipe.rank.lookup import Lookup

Script = Callable[[DecideWork], list[dict[str, Any]] | None]
_MOVED = "Moved to Oslo (before: Rome)"
_KEY = '[["user_id","u1"]]'


def member(day: int, text: str, **more: Any) -> Member:
    at = datetime(2025, 1, day, tzinfo=UTC)
    row: dict[str, Any] = {"memory_id": f"m{day}", "text": text, "event_time": at}
    row |= {"updated_at": at, "context": None, "topics": None}
    row |= {"conversation_id": f"c{day}", "source_ids": [f"s{day}"]}
    return Member.of(row | more)


def action(fact: int, event: str, target: str | None = None, text: str | None = None) -> Any:
    return {"fact": fact, "event": event, "target_id": target, "text": text, "rationale": "r"}


def decided(
    members: list[Member],
    script: Script,
    *,
    compared: set[str] | None = None,
    stops: Callable[[Decided], bool] | None = None,
) -> tuple[ScopeWork, list[DecideWork]]:
    asked: list[DecideWork] = []

    async def decide(work: DecideWork) -> Outcome[ReadActions]:
        asked.append(work)
        said = script(work)
        if said is None:
            return Outcome(value=None, status="llm_error", error="RetryableModelError: busy")
        read = ReadActions(
            items=tuple(said), dropped_items=0, repaired=0, complete=True, status="ok", error=None
        )
        return Outcome(value=read, status="ok", attempts=1)

    work = prepare_scope([("user_id", "u1")], _KEY, members, compared=compared or set())
    settings = ConsolidationSettings(lookup=Lookup(strategy="all", max_memories=None))
    asyncio.run(decide_scope(work, decide=decide, settings=settings, stops=stops))
    return work, asked


def actions(work: ScopeWork) -> list[dict[str, Any]]:
    [row] = result_rows([work], model="m", prompt_hash="p").to_pylist()
    return [dict(each) for each in row["actions"]]


def told(work: ScopeWork) -> list[tuple[str, str, str]]:
    return [(each["event"], each["memory_id"], each["text"]) for each in actions(work)]


def never(_: DecideWork) -> None:
    pytest.fail("nobody is to be asked")


def test_duplicates_become_one_without_a_question() -> None:
    members = [member(1, "Owns a cat"), member(2, "The user owns the cat."), member(3, "Is tall")]
    work, _ = decided(members, never)
    deleted, updated = actions(work)
    assert (deleted["event"], deleted["memory_id"], deleted["rests_on"]) == ("DELETE", "m2", "m1")
    assert (updated["event"], updated["memory_id"], updated["text"]) == (
        "UPDATE",
        "m1",
        "Owns a cat",
    )
    assert updated["source_ids"] == ["s1", "s2"]
    assert (updated["event_time"].day, updated["conversation_id"]) == (2, "c2")


def test_the_newest_says_what_holds_and_the_earlier_keeps_its_id() -> None:
    members = [member(2, "Moved to Oslo"), member(1, "Lives in Rome"), member(3, "Is tall")]
    work, asked = decided(members, lambda _: [action(0, "UPDATE", "0", _MOVED)])
    assert [fact.text for fact in asked[0].facts] == ["Moved to Oslo"]
    assert [memory["text"] for memory in asked[0].existing] == ["Lives in Rome"]
    assert told(work) == [("DELETE", "m2", "Moved to Oslo"), ("UPDATE", "m1", _MOVED)]
    assert actions(work)[1]["old_memory"] == "Lives in Rome"
    assert actions(work)[1]["source_ids"] == ["s1", "s2"]


def test_a_chain_of_changes_ends_in_one_memory_with_the_messages_of_all() -> None:
    members = [member(1, "Lives in Rome"), member(2, "Lives in Oslo"), member(3, "Lives in Bergen")]

    def update_the_first(work: DecideWork) -> list[dict[str, Any]]:
        return [action(n, "UPDATE", "0", fact.text) for n, fact in enumerate(work.facts)]

    work, _ = decided(members, update_the_first)
    assert [each[:2] for each in told(work)] == [
        ("DELETE", "m2"),
        ("DELETE", "m3"),
        ("UPDATE", "m1"),
    ]
    assert actions(work)[2]["text"] == "Lives in Bergen"
    assert actions(work)[2]["source_ids"] == ["s1", "s2", "s3"]


def test_what_a_later_memory_takes_back_goes_and_that_one_stays() -> None:
    members = [member(1, "Owns a red car"), member(2, "Sold the red car")]
    work, _ = decided(members, lambda _: [action(0, "DELETE", "0")])
    assert told(work) == [("DELETE", "m1", "Owns a red car")]


def test_memories_that_both_hold_stay_word_for_word() -> None:
    members = [member(1, "Owns a red car"), member(2, "Washes the red car on Sundays")]
    work, _ = decided(members, lambda _: [action(0, "ADD", None, "Washes his red car")])
    assert told(work) == []
    assert [row["window_id"] for row in compared_rows(work).to_pylist()] == ["m1", "m2"]


def test_what_a_memory_covers_goes_unless_something_would_be_lost() -> None:
    covered = [member(1, "Owns a red car and a boat"), member(2, "Owns a red car")]
    work, _ = decided(covered, lambda _: [action(0, "NONE")])
    assert [each[:2] for each in told(work)] == [("DELETE", "m2"), ("UPDATE", "m1")]
    more = [member(1, "Owns a red car"), member(2, "Owns a red car since 2019")]
    work, _ = decided(more, lambda _: [action(0, "NONE")])
    assert told(work) == []


def test_a_memory_that_denies_another_is_not_covered_by_it() -> None:
    members = [member(1, "Owns a red car"), member(2, "Does not own a red car")]
    work, _ = decided(members, lambda _: [action(0, "NONE")])
    assert told(work) == []


def test_a_merge_that_says_what_no_memory_says_is_not_made() -> None:
    members = [member(1, "Owns a red car"), member(2, "Bought a red car")]
    work, _ = decided(members, lambda _: [action(0, "UPDATE", "0", "Owns a red car since 1999")])
    assert told(work) == []
    assert [each.flag for each in work.facts] == ["unverified"]


def test_no_merge_brings_back_what_was_forgotten() -> None:
    members = [member(1, "Owns a red car"), member(2, "Owns a red Volvo car")]
    script: Script = lambda _: [action(0, "UPDATE", "0", "Owns a red Volvo car")]  # noqa: E731  # short
    work, _ = decided(members, script, stops=lambda d: d.text == "Owns a red Volvo car")
    assert told(work) == []


def test_a_decision_that_failed_leaves_its_memories_to_the_next_run() -> None:
    members = [member(1, "Lives in Rome"), member(2, "Lives in Oslo")]
    work, _ = decided(members, lambda _: None)
    assert told(work) == []
    [row] = result_rows([work], model="m", prompt_hash="p").to_pylist()
    assert [each["window_id"] for each in row["open_windows"]] == ["m2"]


def test_what_was_compared_as_it_becomes_is_not_asked_about_again() -> None:
    members = [member(1, "Lives in Rome"), member(2, "Moved to Oslo"), member(3, "Left Oslo")]
    work, _ = decided(members, lambda w: [action(n, "ADD") for n in range(len(w.facts))])
    marks = {mark for row in compared_rows(work).to_pylist() for mark in row["message_ids"]}
    again = [member(1, "Lives in Rome"), member(2, "Moved to Oslo"), member(3, "Left Oslo")]
    work, _ = decided(again, never, compared=marks)
    assert work.is_empty
    changed = [member(1, "Lives in Rome"), member(2, "Moved to Oslo"), member(3, "Left Oslo again")]
    work, asked = decided(
        changed, lambda w: [action(n, "ADD") for n in range(len(w.facts))], compared=marks
    )
    assert [fact.text for fact in asked[0].facts] == ["Left Oslo again"]


def test_a_mark_tells_nothing_of_the_memory() -> None:
    assert "m1" not in mark_of(member(1, "Lives in Rome")).removeprefix("compared_")
    assert mark_of(member(1, "Lives in Rome")) != mark_of(member(1, "Lives in Oslo"))
