"""Windows to rehearse with: as many facts as expected, in scopes as large as those of the run."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from memorypipe.llm.tokens import estimate_tokens
from memorypipe.pipeline.estimates.samples import arrange, staged, stand_in_windows


def row(name: str, *said: tuple[str, str, bool], scope: str = "s") -> dict[str, Any]:
    messages = [
        {"role": role, "content": text, "timestamp": None, "background": background}
        for role, text, background in said
    ]
    return {
        "scope_key": scope,
        "window_id": name,
        "conversation_id": name,
        "window_index": 0,
        "event_time": datetime(2025, 1, 1, tzinfo=UTC),
        "messages": messages,
    }


TALK = [("user", f"I told you about my boat number {n}. It sails.", False) for n in range(40)]


def test_stand_ins_are_as_many_as_expected_on_average() -> None:
    rows = [row(f"w{n}", *TALK) for n in range(30)]
    tokens = sum(estimate_tokens(text) for _, text, _ in TALK)
    (windows,) = stand_in_windows(rows, 10.0)
    mean = sum(len(window.facts) for window in windows) / 30
    assert mean == pytest.approx(10.0 * tokens / 1e3, rel=0.1)


def test_stand_ins_are_said_by_users_and_new() -> None:
    said = [("user", "Old news.", True), ("assistant", "I sail.", False), *TALK[:2]]
    ((window,),) = stand_in_windows([row("w", *said)], 1e4)
    assert [fact.text for fact in window.facts] == [
        "I told you about my boat number 0",
        "It sails",
        "I told you about my boat number 1",
        "It sails",
    ]


@pytest.mark.parametrize(
    ("expected", "facts_per_call", "sizes"),
    [
        (1.0, 20, [1, 3, 2]),  # scopes of the run are small: each stays by itself
        (500.0, 5, [1, 3, 2]),  # a call is small: likewise
        (500.0, 20, [4, 2]),  # a whole call takes the facts of several
        (500.0, 10_000, [6]),
    ],
)
def test_scopes_are_mixed_only_where_one_has_too_few_facts_for_a_call(
    expected: float, facts_per_call: int, sizes: list[int]
) -> None:
    rows = [row(f"w{n}", *TALK[:20], scope=scope) for n, scope in enumerate("abbbcc")]
    scopes = stand_in_windows(rows, 25.0)
    groups = list(arrange(scopes, np.array([expected] * 9), least_facts=facts_per_call))
    assert [len(group) for group in groups] == sizes
    assert [w.window_id for group in groups for w in group] == [f"w{n}" for n in range(6)]
    for group in groups:
        for place, window in enumerate(group):
            assert {fact.window for fact in window.facts} == {place}


@pytest.mark.parametrize(("rate", "scopes"), [(0.0, [5.0]), (10.0, [])])
def test_where_there_are_no_facts_or_no_scopes_nothing_is_rehearsed(
    rate: float, scopes: list[float]
) -> None:
    windows = stand_in_windows([row("w", *TALK)], rate)
    assert list(arrange(windows, np.array(scopes), least_facts=20)) == []


def test_some_rehearsed_scopes_find_memories_even_where_there_is_one() -> None:
    (windows,) = stand_in_windows([row(f"w{n}", *TALK) for n in range(3)], 10.0)
    alone = list(staged([windows]))
    assert [len(memories) > 0 for _, memories in alone] == [False, True]
    three = list(staged([[window] for window in windows]))
    assert [len(memories) > 0 for _, memories in three] == [False, True, False, True]
    assert three[1][1][0].text.startswith(windows[0].facts[0].text)
    for scope, memories in alone:
        said = {fact.text for window in scope for fact in window.facts}
        assert not said & {memory.text for memory in memories}
    assert list(staged([])) == []
