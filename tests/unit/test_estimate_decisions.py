"""The rehearsal does what the run does, and the line through its groups predicts it."""

import asyncio
from typing import Any

import numpy as np
import pytest

from memorypipe.expressions.build_action import DecideWork, MemoryBuildAction
from memorypipe.llm.replies.reply import ReadActions
from memorypipe.llm.stage import Outcome
from memorypipe.llm.tokens import RequestCounter
from memorypipe.llm.types import Reply
from memorypipe.pipeline.estimates.decisions import Decisions, GroupModel, Rehearsal, fit_groups
from memorypipe.pipeline.scopes.consolidate import WindowFacts, consolidate_scope
from memorypipe.pipeline.scopes.decided import PipelineFact
from memorypipe.pipeline.scopes.settings import ConsolidationSettings
from memorypipe.rank.lookup import Lookup
from memorypipe.rank.memory import Memory

DECIDE = MemoryBuildAction(base_url="http://127.0.0.1:9/v1", model="m")
COUNTER = RequestCounter("m", lambda text: len(text) / 4)
THINGS = ("piano", "boat", "garden", "camera", "kiln", "loom", "forge", "canoe", "drum", "kite")


def window(place: int, facts: int, *, of: int = 0) -> WindowFacts:
    """Facts of which every third is about the same thing as the one before."""
    things = [f"{THINGS[(n - (n % 3 == 2)) % 10]}{of}x{place}" for n in range(facts)]
    texts = [f"{thing} came {of}x{place}x{n}" for n, thing in enumerate(things)]
    return WindowFacts(
        window_id=f"w{place}",
        facts=[
            PipelineFact(text=text, window=place, window_id=f"w{place}", conversation_id="c")
            for text in texts
        ],
    )


def settings(**changes: Any) -> ConsolidationSettings:
    return ConsolidationSettings(**{"facts_per_call": 5, **changes})


def rehearsal(share: float = 1.0, **changes: Any) -> Rehearsal:
    return Rehearsal(DECIDE, settings(**changes), COUNTER, add_share=share)


def really(windows: list[WindowFacts], memories: list[Memory]) -> list[int]:
    """Decide for real, with a model that says ADD; give the prompt tokens of each call."""
    sent: list[int] = []

    async def decide(work: DecideWork) -> Outcome[ReadActions]:
        sent.append(COUNTER.request(DECIDE.stage.request(work).messages))
        actions = ",".join(
            f'{{"fact":{n},"event":"ADD","text":"{f.text}"}}' for n, f in enumerate(work.facts)
        )
        reading = DECIDE.stage.read(work, Reply(content=f'{{"actions":[{actions}]}}'))
        return Outcome(value=reading.value, status=reading.status)

    asyncio.run(consolidate_scope("s", windows, memories, decide=decide, settings=settings()))
    return sent


def test_a_rehearsal_sends_what_the_run_sends_related_facts_again_included() -> None:
    windows = [window(n, 7) for n in range(4)]
    memories = [Memory(id="m1", text="Owns a piano")]
    sent = really(windows, memories)
    played = rehearsal().scope("s", windows, memories)
    assert len(sent) > 28 / 5
    assert (played.calls, played.prompt_tokens, played.free) == (len(sent), sum(sent), 0)
    assert played.decided >= 28


def test_the_groups_add_up_to_the_scope() -> None:
    played = rehearsal().scope("s", [window(n, 7) for n in range(4)], [])
    columns = list(zip(*played.groups, strict=True))
    assert [sum(column) for column in columns[1:]] == [
        28,
        played.calls,
        played.prompt_tokens,
        played.decided,
    ]
    assert columns[0] == tuple(sorted(columns[0]))
    assert columns[0][0] == 0


def test_the_share_of_adds_decides_how_memories_grow() -> None:
    windows = [window(n, 10) for n in range(10)]
    grown = [rehearsal(share).scope("s", windows, []).groups[-1][0] for share in (0.0, 0.5, 1.0)]
    assert grown[0] == 0 < grown[1] < grown[2]


def test_a_scope_without_facts_takes_nothing() -> None:
    played = rehearsal().scope("s", [window(0, 0)], [])
    assert (played.calls, played.prompt_tokens, list(played.groups)) == (0, 0, [])


@pytest.mark.parametrize("lookup", [Lookup(), Lookup(strategy="all", max_memories=None)])
def test_the_line_predicts_scopes_that_were_not_rehearsed(lookup: Lookup) -> None:
    played = [
        rehearsal(lookup=lookup).scope("s", [window(n, 7, of=s) for n in range(12)], [])
        for s in range(3)
    ]
    model = fit_groups(played, settings(lookup=lookup), add_share=1.0)
    other = rehearsal(lookup=lookup).scope("s", [window(n, 7, of=9) for n in range(24)], [])
    found = model.scopes(np.array([168.0]), np.array([0.0]))
    assert found["calls"][0] == pytest.approx(other.calls, rel=0.1)
    assert found["prompt_tokens"][0] == pytest.approx(other.prompt_tokens, rel=0.1)
    assert found["decided"][0] == pytest.approx(other.decided, rel=0.1)


@pytest.mark.parametrize("facts", [(1,), (2, 2, 2), (10, 10), (39, 40, 41, 43), (84,), (2, 3, 200)])
def test_scopes_of_whatever_sizes_predict_small_and_large_ones(facts: tuple[int, ...]) -> None:
    """Sizes that are all alike say little of what a further fact takes, small ones next to nothing
    of what is decided again."""

    def played(of: int, count: int) -> Decisions:
        starts = range(0, count, 7)
        windows = [window(n, min(7, count - start), of=of) for n, start in enumerate(starts)]
        return rehearsal(facts_per_call=20).scope("s", windows, [])

    rehearsed = [played(of, count) for of, count in enumerate(facts)]
    model = fit_groups(rehearsed, settings(facts_per_call=20), add_share=1.0)
    for count in (40, 100, 400):
        found = model.scopes(np.array([float(count)]), np.zeros(1))
        really = played(99, count)
        assert 0.5 * really.calls <= found["calls"][0] <= 1.6 * really.calls
        assert 0.75 * really.decided <= found["decided"][0] <= 1.25 * really.decided
        tokens = found["prompt_tokens"][0]
        assert 0.35 * really.prompt_tokens <= tokens <= 1.6 * really.prompt_tokens


def test_the_line_gives_back_the_scopes_that_it_was_made_of() -> None:
    played = [rehearsal().scope("s", [window(n, 7, of=s) for n in range(12)], []) for s in (0, 1)]
    model = fit_groups(played, settings(), add_share=1.0)
    assert model.scopes(np.array([84.0]), np.array([0.0]))["calls"][0] == pytest.approx(
        sum(scope.calls for scope in played) / 2
    )


def test_scopes_of_one_group_predict_others_of_one_group() -> None:
    played = [rehearsal().scope("s", [window(0, 4, of=s)], []) for s in range(6)]
    model = fit_groups(played, settings(), add_share=1.0)
    found = model.scopes(np.array([4.0]), np.array([0.0]))
    assert found["calls"][0] == pytest.approx(sum(scope.calls for scope in played) / 6)
    assert found["decided"][0] == pytest.approx(sum(scope.decided for scope in played) / 6)


def model(**changes: Any) -> GroupModel:
    values: dict[str, Any] = {
        "calls": (0.0, 0.0),
        "decided": (0.0, 1.0),
        "prompt_tokens": (100.0, 1.0, 2.0),
        "facts_per_call": 10,
        "most_memories": 40.0,
        "added_share": 1.0,
        "cpu_s": 0.0,
    }
    return GroupModel(**{**values, **changes})


def test_no_facts_take_nothing_and_few_facts_take_a_part_of_a_call() -> None:
    found = model().scopes(np.array([0.0, 0.1, 3.0]), np.zeros(3))["prompt_tokens"]
    assert found[0] == 0.0
    assert 0 < found[1] < 11
    assert 95 < found[2] < 107


def test_memories_seen_grow_up_to_the_most_and_from_what_is_there() -> None:
    plain = model(prompt_tokens=(0.0, 1.0, 0.0))
    facts = np.array([100.0, 100.0, 100.0])
    seen = plain.scopes(facts, np.array([0.0, 20.0, 500.0]))["prompt_tokens"]
    groups = 100 / 10 + 0.45
    per_group = [0 + 10 + 20 + 30 + 40 * (groups - 4), 20 + 30 + 40 * (groups - 2), 40 * groups]
    assert seen.tolist() == pytest.approx([sum_seen * 10 / groups for sum_seen in per_group])


def test_without_anything_rehearsed_every_fact_is_decided_once() -> None:
    found = fit_groups([], settings(), add_share=1.0).scopes(np.array([10.0]), np.zeros(1))
    assert found["decided"].tolist() == [10.0]
    assert found["calls"][0] >= 2.0
