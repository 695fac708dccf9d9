"""Facts are decided in the order in which they were said, whichever window they stand in."""

import asyncio
from datetime import UTC, datetime

import pytest

from memorypipe.expressions.build_action import DecideWork
from memorypipe.llm.replies.reply import ReadActions
from memorypipe.llm.stage import Outcome
from memorypipe.pipeline.scopes.consolidate import ScopeResult, WindowFacts, consolidate_scope
from memorypipe.pipeline.scopes.decided import PipelineFact
from memorypipe.pipeline.scopes.settings import ConsolidationSettings
from memorypipe.pipeline.stretches import by_window, in_stretches, in_turn


def window(name: str, *days: int | None, error: str | None = None) -> WindowFacts:
    """A window with a fact of each of these days of January."""
    facts = [
        PipelineFact(
            text=f"Kept note {name}{day}",
            window=0,
            window_id=name,
            conversation_id=name,
            event_time=None if day is None else datetime(2025, 1, day, tzinfo=UTC),
        )
        for day in days
    ]
    return WindowFacts(window_id=name, facts=facts, error=error)


def names(windows: list[WindowFacts]) -> list[list[str]]:
    return [[each.window_id for each in stretch.windows] for stretch in in_stretches(windows)]


@pytest.mark.parametrize(
    ("windows", "stretches"),
    [
        ([window("a", 1, 2), window("b", 3), window("c", 3, 4)], [["a"], ["b"], ["c"]]),
        ([window("a", 1, 3), window("b", 2, 4), window("c", 5)], [["a", "b"], ["c"]]),
        ([window("a", 1, 2), window("b", 3), window("c", 1, 4)], [["a", "b", "c"]]),
        ([window("a", 2), window("b", 3), window("c", 2, 4)], [["a"], ["b", "c"]]),
        ([window("a", 1, 4), window("b"), window("c", 3, 5)], [["a", "b", "c"]]),
        ([window("a", 1), window("b"), window("c", 2)], [["a"], ["b"], ["c"]]),
        ([window("a", None), window("b", None), window("c", 1)], [["a"], ["b"], ["c"]]),
        ([], []),
    ],
    ids=["apart", "two", "far back", "in part", "empty within", "empty between", "undated", "none"],
)
def test_windows_that_overlap_in_time_are_one_stretch(
    windows: list[WindowFacts], stretches: list[list[str]]
) -> None:
    assert names(windows) == stretches


def test_the_facts_of_a_stretch_are_in_order_of_time_and_know_their_place() -> None:
    windows = [window("a", 1), window("b", 5, 3), window("c", 4, 6)]
    first, second = in_turn(in_stretches(windows))
    assert [fact.text[-2:] for fact in first.facts] == ["a1"]
    assert [fact.text[-2:] for fact in second.facts] == ["b3", "c4", "b5", "c6"]
    assert [fact.window for fact in (*first.facts, *second.facts)] == [0, 1, 1, 1, 1]
    assert [fact.window_id for fact in second.facts] == ["b", "c", "b", "c"]


def decided(windows: list[WindowFacts], *, fails_at: str) -> ScopeResult:
    """Decide one fact a call; the endpoint is down from that fact on."""
    asked: list[str] = []

    async def decide(work: DecideWork) -> Outcome[ReadActions]:
        (fact,) = work.facts
        asked.append(fact.text)
        if fails_at in "".join(asked):
            return Outcome(value=None, status="llm_error", error="it is down")
        item = {"fact": 0, "event": "ADD", "target_id": None, "text": fact.text, "rationale": "new"}
        read = ReadActions(
            items=(item,), dropped_items=0, repaired=0, complete=True, status="ok", error=None
        )
        return Outcome(value=read, status="ok", attempts=1)

    stretches = in_stretches(windows)
    settings = ConsolidationSettings(facts_per_call=1)
    return by_window(
        asyncio.run(
            consolidate_scope("[]", in_turn(stretches), [], decide=decide, settings=settings)
        ),
        stretches,
    )


def test_a_stretch_with_a_failed_decision_stays_open_whole_and_so_does_what_comes_after_it() -> (
    None
):
    windows = [window("a", 1), window("b", 2, 4), window("c", 3, 6), window("d", 7)]
    result = decided(windows, fails_at="c6")
    assert [each.fact.window_id for each in result.actions] == ["a"]
    assert list(result.open_windows) == ["b", "c", "d"]
    assert "it is down" in result.open_windows["b"]
    assert "earlier window" in result.open_windows["d"]


def test_a_window_that_was_not_read_whole_stays_open_beside_others_of_its_stretch() -> None:
    windows = [window("a", 1, 3, error="cut"), window("b", 2, 4), window("c", error="failed")]
    result = decided(windows, fails_at="nowhere")
    assert [each.fact.text[-2:] for each in result.actions] == ["a1", "b2", "a3", "b4"]
    assert result.open_windows == {"a": "cut", "c": "failed"}
    later = decided(windows, fails_at="b4")
    assert later.actions == []
    assert {name: why[:6] for name, why in later.open_windows.items()} == {
        "a": "cut",
        "b": "decisi",
        "c": "failed",
    }
