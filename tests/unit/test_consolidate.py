"""Consolidation of one scope: order, grouping, failures. The model is scripted."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from memorypipe.expressions.build_action import DecideWork
from memorypipe.llm.replies.reply import ReadActions
from memorypipe.llm.stage import Outcome
from memorypipe.pipeline.scopes.consolidate import (
    NextWindow,
    ScopeResult,
    WindowFacts,
    consolidate_scope,
)
from memorypipe.pipeline.scopes.decided import PipelineFact
from memorypipe.pipeline.scopes.settings import ConsolidationSettings
from memorypipe.pipeline.scopes.state import Stops
from memorypipe.rank.lookup import Lookup
from memorypipe.rank.memory import Memory

Said = list[dict[str, Any]]
Script = Callable[[DecideWork], Said | None]


def day(n: int) -> datetime:
    return datetime(2025, 1, n, tzinfo=UTC)


def window(place: int, *texts: str, error: str | None = None) -> WindowFacts:
    facts = [
        PipelineFact(
            text=text,
            window=place,
            window_id=f"w{place}",
            conversation_id="c",
            event_time=day(place + 1),
        )
        for text in texts
    ]
    return WindowFacts(window_id=f"w{place}", facts=facts, error=error)


def action(fact: int, event: str, target: str | None = None, text: str | None = None) -> Any:
    return {"fact": fact, "event": event, "target_id": target, "text": text, "rationale": "r"}


def add_all(work: DecideWork) -> Said:
    return [action(n, "ADD") for n in range(len(work.facts))]


def consolidate(
    windows: Sequence[WindowFacts] | NextWindow,
    script: Script,
    memories: Sequence[Memory] = (),
    stops: Stops | None = None,
    **settings: Any,
) -> tuple[ScopeResult, list[DecideWork]]:
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

    settings.setdefault("lookup", Lookup(strategy="all", max_memories=None))
    result = asyncio.run(
        consolidate_scope(
            "[]",
            windows,
            memories,
            decide=decide,
            settings=ConsolidationSettings(**settings),
            stops=stops,
        )
    )
    return result, asked


def _always(said: Said) -> Script:
    return lambda _: said


def texts(result: ScopeResult, event: str = "ADD") -> list[str]:
    return [decided.text for decided in result.actions if decided.event == event]


def test_facts_of_consecutive_windows_share_a_call_up_to_the_limit() -> None:
    windows = [window(0, "Likes tea", "Owns two cats"), window(1, "Works as a nurse")]
    result, asked = consolidate(windows, add_all, facts_per_call=2)
    assert [[fact.text for fact in work.facts] for work in asked] == [
        ["Likes tea", "Owns two cats"],
        ["Works as a nurse"],
    ]
    assert texts(result) == ["Likes tea", "Owns two cats", "Works as a nurse"]


def test_nobody_is_asked_about_what_was_forgotten_and_it_comes_back_when_said_later() -> None:
    windows = [window(0, "Likes tea"), window(1, "Likes tea")]
    result, asked = consolidate(windows, add_all, stops=lambda it: it.fact.event_time == day(1))
    assert [[fact.event_time for fact in work.facts] for work in asked] == [[day(2).isoformat()]]
    assert texts(result) == ["Likes tea", "Likes tea"]
    assert not result.open_windows


def test_later_calls_do_not_see_what_the_commit_will_not_take() -> None:
    memories = [Memory(id="m1", text="Owns a cat")]
    result, asked = consolidate(
        [window(0, "Cats"), window(1, "Dogs")],
        _always([action(0, "UPDATE", "m1", "Owns a cat, likes tea")]),
        memories,
        stops=lambda it: "tea" in it.text,
        facts_per_call=1,
    )
    assert [work.existing[0]["text"] for work in asked] == ["Owns a cat", "Owns a cat"]
    assert texts(result, "UPDATE") == ["Owns a cat, likes tea"] * 2


def test_each_call_sees_what_the_one_before_it_left() -> None:
    _, asked = consolidate(
        [window(0, "Likes tea"), window(1, "Owns a cat")], add_all, facts_per_call=1
    )
    assert [memory["text"] for memory in asked[1].existing] == ["Likes tea"]


def test_a_second_fact_for_the_same_memory_is_decided_again_against_the_updated_one() -> None:
    memories = [Memory(id="m1", text="Lives in Rome")]

    def script(work: DecideWork) -> Said:
        return [action(n, "UPDATE", "m1", fact.text) for n, fact in enumerate(work.facts)]

    result, asked = consolidate([window(0, "Lives in Oslo", "Lives in Bonn")], script, memories)
    assert [work.existing[0]["text"] for work in asked] == ["Lives in Rome", "Lives in Oslo"]
    assert [(d.text, d.old_memory) for d in result.actions] == [
        ("Lives in Oslo", "Lives in Rome"),
        ("Lives in Bonn", "Lives in Oslo"),
    ]


def test_two_related_new_memories_of_one_call_meet_in_a_second_one() -> None:
    def script(work: DecideWork) -> Said:
        if work.existing:
            return [action(n, "UPDATE", "0", f.text) for n, f in enumerate(work.facts)]
        return add_all(work)

    result, asked = consolidate([window(0, "Lives in Rome", "Owns a cat", "Lives in Oslo")], script)
    assert [[fact.text for fact in work.facts] for work in asked][1] == ["Lives in Oslo"]
    assert [(d.event, d.text) for d in result.actions][:2] == [
        ("ADD", "Lives in Rome"),
        ("ADD", "Owns a cat"),
    ]


def test_what_is_decided_again_goes_into_the_next_call_and_goes_first_there() -> None:
    windows = [
        window(0, "Owns a red boat", "Owns a red boat with sails", "Likes tea"),
        window(1, "Plays the lute", "Speaks Basque"),
        window(2, "Moved to Oslo", "Grows plums"),
    ]
    result, asked = consolidate(windows, add_all, facts_per_call=3)
    assert [[fact.text for fact in work.facts] for work in asked] == [
        ["Owns a red boat", "Owns a red boat with sails", "Likes tea"],
        ["Owns a red boat with sails", "Plays the lute", "Speaks Basque"],
        ["Moved to Oslo", "Grows plums"],
    ]
    assert sorted(done.fact.text for done in result.actions) == sorted(
        fact.text for each in windows for fact in each.facts
    )


def test_of_a_call_over_two_windows_what_failed_opens_its_window_and_the_rest_is_decided() -> None:
    """The second fact of the first window is decided again, beside the fact that fails."""
    windows = [
        window(0, "Owns a red boat", "Owns a red boat with sails"),
        window(1, "Plays the lute"),
    ]

    def script(work: DecideWork) -> Said:
        return [action(n, "ADD") for n, f in enumerate(work.facts) if f.text != "Plays the lute"]

    result, asked = consolidate(windows, script, facts_per_call=2)
    assert [[fact.text for fact in work.facts] for work in asked] == [
        ["Owns a red boat", "Owns a red boat with sails"],
        ["Owns a red boat with sails", "Plays the lute"],
    ]
    assert [done.fact.window for done in result.actions] == [0, 0]
    assert list(result.open_windows) == ["w1"]


def test_the_same_fact_twice_makes_one_memory() -> None:
    result, _ = consolidate(
        [window(0, "Likes tea"), window(1, "likes  TEA")], add_all, facts_per_call=1
    )
    assert [(d.event, d.memory_id is None) for d in result.actions] == [
        ("ADD", False),
        ("NONE", True),
    ]


def test_an_add_of_what_an_unseen_memory_says_is_none() -> None:
    memories = [Memory(id=f"m{n}", text=f"Fact number {n}") for n in range(30)]
    result, asked = consolidate(
        [window(0, "Fact number 3")], add_all, memories, lookup=Lookup(strategy="recent", top_k=1)
    )
    assert [memory["id"] for memory in asked[0].existing] == ["m29"]
    assert [d.event for d in result.actions] == ["NONE"]


def test_older_evidence_never_changes_a_memory_that_rests_on_newer() -> None:
    memories = [Memory(id="m1", text="Lives in Oslo", event_time=day(20))]
    for event in ("UPDATE", "DELETE"):
        said = [action(0, event, "m1", "Lives in Rome")]
        result, _ = consolidate([window(0, "Lives in Rome")], _always(said), memories)
        assert [(d.event, d.memory_id) for d in result.actions] == [("NONE", None)]
        assert "late evidence" in (result.actions[0].rationale or "")


def test_a_fact_said_to_be_what_another_memory_says_is_added_in_its_own_words() -> None:
    memories = [Memory(id="m1", text="Likes tea")]
    for said in ([action(0, "ADD", text="Likes tea")], [action(0, "UPDATE", "0", "Likes tea")]):
        result, _ = consolidate([window(0, "Works as a nurse")], _always(said), memories)
        assert [(d.event, d.text) for d in result.actions] == [("ADD", "Works as a nurse")]


def test_an_update_to_what_another_memory_says_lets_the_old_one_go() -> None:
    memories = [Memory(id="m1", text="Lives in Rome"), Memory(id="m2", text="Lives in Oslo")]
    said = [action(0, "UPDATE", "m1", "Lives in Oslo")]
    result, _ = consolidate([window(0, "Lives in Oslo now")], _always(said), memories)
    assert [(d.event, d.memory_id) for d in result.actions] == [("DELETE", "m1")]


def test_what_rests_on_a_later_window_is_open_with_it() -> None:
    """What the first window says is known by the second's word alone, which does not count."""

    def script(work: DecideWork) -> Said | None:
        if len(work.facts) > 1:
            return [
                action(0, "UPDATE", "0", "Owns a red car"),
                action(1, "UPDATE", "0", "Owns a red car, sold the boat"),
                action(2, "ADD", text="Sold the boat"),
            ]
        return None if work.facts[0].text == "Plays chess" else [action(0, "ADD")]

    memories = [Memory(id="m1", text="Owns a car")]
    windows = [
        window(0, "Owns a red car", "Sold the boat"),
        window(1, "Sold the boat", "Plays chess"),
    ]
    result, _ = consolidate(windows, script, memories, facts_per_call=3)
    assert set(result.open_windows) == {"w0", "w1"}
    assert result.actions == []


def test_a_failed_decision_leaves_its_window_and_all_later_ones_open() -> None:
    def script(work: DecideWork) -> Said | None:
        return None if work.facts[0].text == "Owns a cat" else add_all(work)

    windows = [window(0, "Likes tea"), window(1, "Owns a cat"), window(2, "Works as a nurse")]
    result, asked = consolidate(windows, script, facts_per_call=1)
    assert texts(result) == ["Likes tea"]
    assert len(asked) == 2, "nothing is asked beyond the failure"
    assert result.open_windows["w1"].startswith("decision failed: RetryableModelError")
    assert "earlier window" in result.open_windows["w2"]
    assert "w0" not in result.open_windows


def test_a_window_is_kept_whole_or_not_at_all() -> None:
    def script(work: DecideWork) -> Said | None:
        return None if work.facts[0].text == "Owns a cat" else add_all(work)

    result, _ = consolidate([window(0, "Likes tea", "Owns a cat")], script, facts_per_call=1)
    assert result.actions == []
    assert set(result.open_windows) == {"w0"}


def test_a_fact_without_a_valid_action_opens_its_window_and_no_other() -> None:
    def script(work: DecideWork) -> Said:
        return [action(n, "ADD") for n in range(len(work.facts)) if n != 1]

    windows = [window(0, "Likes tea"), window(1, "Owns a cat"), window(2, "Works as a nurse")]
    result, _ = consolidate(windows, script)
    assert texts(result) == ["Likes tea"]
    assert set(result.open_windows) == {"w1", "w2"}


def test_with_commit_fallback_a_failed_decision_becomes_an_add() -> None:
    result, _ = consolidate([window(0, "Likes tea")], lambda _: None, commit_fallback=True)
    assert texts(result) == ["Likes tea"]
    assert "fallback" in (result.actions[0].rationale or "")
    assert not result.open_windows


def test_a_failed_extraction_leaves_its_window_open_and_the_scope_goes_on() -> None:
    windows = [window(0, error="extraction failed (llm_error): busy"), window(1, "Likes tea")]
    result, _ = consolidate(windows, add_all)
    assert texts(result) == ["Likes tea"]
    assert result.open_windows == {"w0": "extraction failed (llm_error): busy"}


def test_a_scope_without_facts_asks_nothing() -> None:
    result, asked = consolidate([window(0)], add_all)
    assert (result.actions, asked, dict(result.open_windows)) == ([], [], {})


def test_a_deleted_memory_can_be_said_again() -> None:
    def script(work: DecideWork) -> Said:
        if work.facts[0].text == "Sold the car":
            return [action(0, "DELETE", "0")]
        return add_all(work)

    windows = [window(0, "Has a car"), window(1, "Sold the car"), window(2, "Has a car")]
    result, _ = consolidate(windows, script, facts_per_call=1)
    first, _, again = result.actions
    assert (first.event, again.event) == ("ADD", "ADD")
    assert first.memory_id == again.memory_id, "the id says what the memory says"


def test_a_fact_to_be_decided_again_is_not_lost_when_a_later_window_fails() -> None:
    """Two facts of the first window go for one memory; the second window gets no decision."""
    memories = [Memory(id="m1", text="Has a dog")]

    def script(work: DecideWork) -> Said:
        return [
            action(n, "UPDATE", "m1", f"{work.existing[0]['text']}; {fact.text}")
            for n, fact in enumerate(work.facts)
            if fact.text != "Owns a cat"
        ]

    windows = [window(0, "The dog is Rex", "Rex is a poodle"), window(1, "Owns a cat")]
    result, asked = consolidate(windows, script, memories)
    assert set(result.open_windows) == {"w1"}
    assert [d.text for d in result.actions] == [
        "Has a dog; The dog is Rex",
        "Has a dog; The dog is Rex; Rex is a poodle",
    ]
    assert len(asked) == 2


def test_facts_that_fell_back_are_counted() -> None:
    result, _ = consolidate(
        [window(0, "Likes tea", "Owns a cat")], lambda _: None, commit_fallback=True
    )
    assert result.fallback == 2


def test_a_call_waits_for_all_the_facts_that_it_can_take() -> None:
    """Else what is asked would depend on when windows come."""
    windows = [window(0, "A", "B"), window(1), window(2, "C", "D"), window(3, "E")]
    calls: list[int] = []
    seen: list[int] = []

    async def next_window() -> WindowFacts | None:
        await asyncio.sleep(0)
        seen.append(len(calls))
        return windows[len(seen) - 1] if len(seen) <= len(windows) else None

    def script(work: DecideWork) -> Said:
        calls.append(len(work.facts))
        return add_all(work)

    result, asked = consolidate(next_window, script, facts_per_call=3)
    at_once, asked_at_once = consolidate(windows, add_all, facts_per_call=3)
    assert (result.actions, asked) == (at_once.actions, asked_at_once)
    assert calls == [3, 2]
    # Three windows for the first call, the rest for the second, and that there are no more.
    assert seen == [0, 0, 0, 1, 1]


def test_windows_that_come_after_a_failed_decision_stay_open() -> None:
    windows = [window(0, "A"), window(1, "B"), window(2, "C"), window(3, "D", error="cut")]
    left = iter(windows)

    async def next_window() -> WindowFacts | None:
        return next(left, None)

    def script(work: DecideWork) -> Said | None:
        return None if work.facts[0].text == "B" else add_all(work)

    result, asked = consolidate(next_window, script, facts_per_call=1)
    assert [work.facts[0].text for work in asked] == ["A", "B"]
    assert [each.fact.text for each in result.actions] == ["A"]
    assert list(result.open_windows) == ["w1", "w2", "w3"]
    assert result.open_windows["w3"] == "cut"
