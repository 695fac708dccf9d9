"""From which messages a fact comes, when it was said, and what that decides."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from memorypipe.llm.types import DecideTask, Reply, Request
from memorypipe.pipeline.deciding import window_facts
from memorypipe.pipeline.scopes.fact_checks import check_facts
from memorypipe.rank.memory import Memory
from tests.support.by_hand import Remembered, fact_row, message, remember
from tests.support.scripted_model import ScriptedModel, said


def checked(
    messages: list[dict[str, Any]], *items: dict[str, Any]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    row = fact_row(messages, items)
    return json.loads(row["facts_json"])["memories"], row["flags"]


def sources(messages: list[dict[str, Any]], text: str) -> list[str]:
    items, _ = checked(messages, {"text": text})
    found: list[str] = items[0]["sources"]
    return found


def test_sources_that_the_model_gave_are_kept() -> None:
    messages = [message(1, "I own a cat"), message(2, "I own a dog")]
    items, flags = checked(messages, {"text": "Owns a cat", "sources": ["m1"]})
    assert items == [{"text": "Owns a cat", "sources": ["m1"]}]
    assert flags == []


def test_without_sources_the_messages_that_hold_the_most_of_a_fact_are_its_sources() -> None:
    messages = [
        message(1, "I own a cat"),
        message(2, "A dog would be nice, my cat says"),
        message(3, "Cats, cats, cats", role="tool"),
    ]
    assert sources(messages, "Owns a cat") == ["m1"]
    assert sources(messages, "Would like a dog") == ["m2"]


def test_a_fact_that_stands_nowhere_names_the_whole_window() -> None:
    """So that it goes where any of its messages is forgotten or erased."""
    messages = [message(1, "Hello"), message(2, "Bye", role="assistant")]
    items, flags = checked(messages, {"text": "Owns a cat"})
    assert items[0]["sources"] == ["m1", "m2"]
    assert flags == [{"fact": 0, "flag": "unsupported"}]


def test_what_an_earlier_window_paid_for_is_no_source_by_words() -> None:
    earlier = {**message(1, "I own a cat"), "background": True}
    assert sources([earlier, message(2, "It is grey")], "Owns a cat") == ["m2"]


def test_the_pieces_of_a_long_message_are_one_source() -> None:
    pieces = [message(1, "I own a cat."), message(1, "It is grey.")]
    assert checked(pieces, {"text": "Has a cat", "sources": ["m1"]})[1] == []


@pytest.mark.parametrize(
    ("fact", "text"),
    [
        ("Owns two cats", "We got 2 of them"),
        ("Moved to Oslo", "moving there, OSLO I mean"),
        ("Allergic to nuts", "my allergies are bad"),
        ("喜欢喝绿茶", "我每天喝绿茶"),
        ("コーヒーが好き", "毎朝コーヒー"),
        ("커피를 좋아한다", "나는 커피를 마셔"),
        ("Wohnt in Köln", "ich bin aus KÖLN"),
        ("It is so", "Indeed"),
    ],
)
def test_a_word_or_number_in_a_source_supports_a_fact(fact: str, text: str) -> None:
    """However it is written; scripts without spaces go by pairs of characters."""
    assert checked([message(1, text)], {"text": fact, "sources": ["m1"]})[1] == []


@pytest.mark.parametrize(
    ("fact", "text"),
    [
        ("Owns a boat", "I saw a cat"),
        ("User is the admin", "The weather is what it is"),
        ("喜欢喝茶", "今天天气很好"),
        ("Likes to drink tea", "我每天喝绿茶"),
        ("Has three cats", "I have cast 2 votes"),
    ],
)
def test_a_fact_without_a_word_in_its_sources_is_flagged_and_kept(fact: str, text: str) -> None:
    """Also one that changed the language."""
    items, flags = checked([message(1, text)], {"text": fact, "sources": ["m1"]})
    assert flags == [{"fact": 0, "flag": "unsupported"}]
    assert items[0]["text"] == fact


def test_the_flags_go_with_the_facts_into_the_decision() -> None:
    row = fact_row([message(1, "I saw a cat")], [{"text": "I saw a cat"}, {"text": "Has a boat"}])
    window = window_facts(0, row)
    assert [fact.flags for fact in window.facts] == [(), ("unsupported",)]


def test_a_failed_extraction_has_no_flags() -> None:
    row = fact_row([message(1, "Hi")], None)
    assert (row["facts_json"], row["flags"]) == (None, [])


def test_no_facts_need_no_messages() -> None:
    assert check_facts('{"memories":[]}', []) == ('{"memories":[]}', [])


def adds(request: Request, _: int) -> Reply:
    """Extract each line of the transcript; add each fact, or change the first memory."""
    if isinstance(request.task, DecideTask):
        event = "UPDATE" if request.task.existing else "ADD"
        target = "0" if request.task.existing else None
        actions = [
            {"fact": n, "event": event, "target_id": target, "text": fact.text, "rationale": ""}
            for n, fact in enumerate(request.task.facts)
        ]
        return said(json.dumps({"actions": actions}))
    assert request.task is not None
    items = [
        {"text": turn.content, "sources": [n], "event_time": "1999-01-01"}
        for n, turn in enumerate(request.task.turns, start=1)
    ]
    return said(json.dumps({"memories": items}))


def follow(*days: int | None, memory_day: int | None = None, memory: bool = False) -> Remembered:
    """Conversations about a home, one on each day; None: nothing dates it."""
    conversations = [
        [message(n, f"Lives in town {n}", day=day)] for n, day in enumerate(days, start=1)
    ]
    time = None if memory_day is None else datetime(2025, 1, memory_day, 12, tzinfo=UTC)
    memories = [Memory(id="m", text="Lives in town 77", event_time=time)] if memory else []
    return remember(conversations, ScriptedModel(adds), memories, facts_per_call=1)


def test_ids_of_messages_reach_the_action() -> None:
    (action,) = follow(3).result.actions
    assert action.fact.source_ids == ("m1",)
    assert action.fact.conversation_id == "c0"


def test_a_memory_is_as_old_as_what_was_said() -> None:
    """Not as when it happened, by the model's word: that stays in the facts of the run."""
    remembered = follow(3)
    (action,) = remembered.result.actions
    assert action.fact.event_time == datetime(2025, 1, 3, 12, 1, tzinfo=UTC)
    assert remembered.facts[0]["items"][0]["event_time"] == "1999-01-01"


def test_of_several_sources_the_newest_tells_the_time() -> None:
    messages = [message(1, "A cat", day=2), message(2, "My cat", day=5), message(3, "Bye", day=9)]
    row = fact_row(messages, [{"text": "Has a cat", "sources": ["m1", "m2"]}])
    (fact,) = window_facts(0, row).facts
    assert fact.event_time == messages[1]["timestamp"]


def test_windows_are_taken_in_the_order_in_which_they_were_said() -> None:
    texts = [action.text for action in follow(9, 2, 5).result.actions]
    assert texts == ["Lives in town 2", "Lives in town 3", "Lives in town 1"]


@pytest.mark.parametrize(
    ("fact_day", "memory_day", "event"),
    [
        (5, 9, "NONE"),  # older than the memory
        (9, 5, "UPDATE"),
        (None, 9, "UPDATE"),  # nothing dates it: it is not known to be late
        (5, None, "UPDATE"),
        (None, None, "UPDATE"),
    ],
)
def test_late_evidence_changes_nothing(
    fact_day: int | None, memory_day: int | None, event: str
) -> None:
    (action,) = follow(fact_day, memory_day=memory_day, memory=True).result.actions
    assert action.event == event
    if event == "NONE":
        assert "late evidence" in (action.rationale or "")


def test_of_what_was_said_at_the_same_time_the_later_message_counts() -> None:
    moment = message(60, "Lives in town 1", day=5)
    same = {**message(2, "Lives in town 2"), "timestamp": moment["timestamp"]}
    memory = Memory(id="m", text="Lives in town 77", event_time=moment["timestamp"])
    remembered = remember([[moment, same]], ScriptedModel(adds), [memory])
    assert [(a.event, a.text) for a in remembered.result.actions] == [
        ("UPDATE", "Lives in town 1"),
        ("UPDATE", "Lives in town 2"),
    ]


def test_what_nothing_dates_leaves_a_memory_its_time() -> None:
    """So that older evidence that comes later is still late."""
    undated = follow(None, 5, memory_day=9, memory=True)
    assert [(a.event, a.text) for a in undated.result.actions] == [
        ("UPDATE", "Lives in town 1"),
        ("NONE", "Lives in town 2"),
    ]


def test_a_decision_is_shown_both_dates() -> None:
    prompt = str(follow(9, memory_day=5, memory=True).requests[-1].messages[-1]["content"])
    assert '"text":"Lives in town 77","event_time":"2025-01-05' in prompt
    assert '"text":"Lives in town 1","event_time":"2025-01-09' in prompt
