"""What went wrong in systems of this kind when they decided on memories, each as a rule.

Rules that a module's own tests prove are not repeated here: targets and fallbacks
(`test_cells_actions`), merges, persons and contradictions (`test_merges`), late evidence
(`test_provenance`), what is decided together (`test_consolidate`), what comes back though it was
forgotten (`test_consolidate`, `test_retold`). What went wrong before: `test_field_lessons`.
"""

import asyncio
import json
import random

import pytest

from memorypipe.cells.memories import index_existing
from memorypipe.cells.scope import parse_scope
from memorypipe.errors import InvalidCellError
from memorypipe.expressions.build_action import DecideStage, DecideWork
from memorypipe.ids import digest, memory_id, scope_key
from memorypipe.llm.replies.reply import ReadActions
from memorypipe.llm.stage import Outcome
from memorypipe.llm.types import DecideTask, Fact, Reply
from memorypipe.pipeline.scopes.consolidate import ScopeResult, WindowFacts, consolidate_scope
from memorypipe.pipeline.scopes.decided import PipelineFact
from memorypipe.pipeline.scopes.settings import ConsolidationSettings
from memorypipe.prompts.common import fenced
from memorypipe.rank.memory import Memory
from tests.support.scripted_model import said
from tests.support.stories import Decision, decision, events, story

# Decisions


@pytest.mark.parametrize("event", ["DELETE", "UPDATE", "ADD", "NONE"])
@pytest.mark.parametrize("again", ["Likes tea", "likes tea.", "The user likes  TEA"])
def test_the_same_fact_twice_deletes_and_adds_nothing(event: str, again: str) -> None:
    remembered = story(
        again,
        decides=lambda _: [decision(0, event, "0", "Likes tea")],
        memories=("Likes tea",),
    )
    assert [action.event for action in remembered.result.actions] == ["NONE"]


def test_a_changed_value_closes_the_old_one_and_is_live() -> None:
    """Two names never stand side by side where the second replaces the first."""

    def decides(task: DecideTask) -> list[Decision]:
        known = [memory.text for memory in task.existing]
        return [
            decision(n, "UPDATE", str(len(known) - 1), fact.text)
            if known
            else decision(n, "ADD", None, fact.text)
            for n, fact in enumerate(task.facts)
        ]

    remembered = story("Name is liguoyu", "Name is liguosong", decides=decides)
    assert events(remembered) == [("ADD", "Name is liguoyu"), ("UPDATE", "Name is liguosong")]
    assert remembered.result.actions[1].old_memory == "Name is liguoyu"


@pytest.mark.parametrize("target", ["12", "-1", "mem_9", "", "the first", "0.0", "None"])
@pytest.mark.parametrize("event", ["UPDATE", "DELETE"])
def test_an_unknown_target_changes_nothing_and_is_no_loss(event: str, target: str) -> None:
    """The window stays open, with the reason; with a fallback the fact is added."""

    def decides(_: DecideTask) -> list[Decision]:
        return [decision(0, event, target, "Likes green tea")]

    left = story("Likes green tea", decides=decides, memories=("Likes tea",))
    assert left.result.actions == []
    assert set(left.result.open_windows) == {"w0"}
    fallen = story(
        "Likes green tea", decides=decides, memories=("Likes tea",), commit_fallback=True
    )
    assert events(fallen) == [("ADD", "Likes green tea")]
    assert fallen.result.fallback == 1


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_memory_is_addressed_by_its_id_and_never_by_its_rank(order: tuple[int, ...]) -> None:
    texts = ("Lives in an apartment", "Works in a hospital", "Owns a cat")
    existing = [{"id": f"mem_{n}", "text": texts[n]} for n in order]
    work = DecideWork(facts=[Fact(text="Works in a clinic")], existing=existing)
    for target in (str(order.index(1)), "mem_1"):
        actions = [decision(0, "UPDATE", target, "Works in a clinic")]
        reading = DecideStage().read(work, said(json.dumps({"actions": actions})))
        assert reading.value is not None
        (action,) = reading.value.resolved.actions  # type: ignore[attr-defined]
        assert (action.target_id, action.old_memory) == ("mem_1", "Works in a hospital")


def test_one_id_twice_is_refused_and_a_number_twice_counts_once() -> None:
    with pytest.raises(InvalidCellError, match="comes twice"):
        index_existing('[{"id": "100", "text": "a"}, {"id": "100", "text": "b"}]', 0)
    remembered = story(
        "Likes tea",
        "Owns a cat",
        decides=lambda task: [
            decision(0, "ADD", None, task.facts[0].text),
            decision(0, "NONE"),
            decision(1, "ADD", None, "Owns a cat"),
        ],
    )
    assert events(remembered) == [("ADD", "Likes tea"), ("ADD", "Owns a cat")]


@pytest.mark.parametrize(
    ("first", "then"), [("Likes tea", "Likes coffee"), ("喜欢喝茶", "喜欢喝咖啡")]
)
def test_a_memory_that_says_what_another_once_said_gets_an_id_of_its_own(
    first: str, then: str
) -> None:
    """Under the id of the first it would take the place of what that one says by now."""
    minted = memory_id("memory", "[]", first)

    def decides(task: DecideTask) -> list[Decision]:
        held = {memory.text: memory.id for memory in task.existing}
        return [
            decision(n, "UPDATE", held[first], then)
            if fact.text == then
            else decision(n, "ADD", None, fact.text)
            for n, fact in enumerate(task.facts)
        ]

    remembered = story(first, then, first, decides=decides, facts_per_call=1)
    assert events(remembered) == [("ADD", first), ("UPDATE", then), ("ADD", first)]
    ids = [action.memory_id for action in remembered.result.actions]
    assert ids[:2] == [minted, minted]
    assert ids[2] not in {None, minted}


def test_memories_do_not_snowball_over_a_bridge() -> None:
    """Texts without a shared word are not strung together, and a merge has a longest length."""
    basket = "Played basketball in college"
    strung = story(
        "Follows a healthy diet",
        decides=lambda _: [decision(0, "UPDATE", "0", f"{basket} and follows a healthy diet")],
        memories=(basket,),
    )
    assert events(strung) == [("ADD", "Follows a healthy diet")]
    bridge = "Basketball players follow a healthy diet"

    def grows(task: DecideTask) -> list[Decision]:
        if not task.existing:
            return [decision(n, "ADD", None, fact.text) for n, fact in enumerate(task.facts)]
        merged = f"{task.existing[0].text}; {task.facts[0].text}"
        return [decision(0, "UPDATE", "0", merged)]

    facts = [f"{bridge} number {n}, as a basketball coach said" for n in range(12, 40)]
    grown = story(*facts, decides=grows, memories=(basket,), facts_per_call=1)
    live = {action.memory_id: action.text for action in grown.result.actions}
    assert max(map(len, live.values())) <= 600
    assert sum(text.count("number") for text in live.values()) == len(facts), "none is lost"


def test_an_unrelated_fact_beside_an_update_is_added() -> None:
    remembered = story(
        "Lives in Oslo",
        "Owns a cat",
        decides=lambda task: [
            decision(0, "UPDATE", "0", task.facts[0].text),
            decision(1, "ADD", None, task.facts[1].text),
        ],
        memories=("Lives in Rome",),
    )
    assert events(remembered) == [("UPDATE", "Lives in Oslo"), ("ADD", "Owns a cat")]


def test_unrelated_facts_retire_nothing() -> None:
    """Sixteen lessons of one group: none of them is about another."""
    lessons = [f"Recipe {n} with {word * 4}" for n, word in enumerate("abcdefghijklmnop", start=30)]

    def retires(task: DecideTask) -> list[Decision]:
        return [decision(n, "DELETE", str(n), None) for n, _ in enumerate(task.facts)]

    new = [f"{word * 6} holidays" if n == 0 else word * 6 for n, word in enumerate("qrstuvwxyz")]
    remembered = story(*new, decides=retires, memories=tuple(lessons))
    assert events(remembered) == [("ADD", text) for text in new]


def test_a_reply_that_is_invalid_in_part_never_deletes() -> None:
    """What replaces the deleted may be in the part that was lost."""
    reply = '{"actions": [{"fact": 0, "event": "DELETE", "target_id": "0"}, {"fact": 1, "ev'
    work = DecideWork(
        facts=[Fact(text="Sold the car"), Fact(text="Owns a boat")],
        existing=[{"id": "m", "text": "Has a car"}],
    )
    reading = DecideStage().read(work, Reply(content=reply, finish_reason="length"))
    assert reading.value is not None
    assert not reading.value.complete


# Scope


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_scopes_that_are_decided_at_the_same_time_never_meet(order: tuple[int, ...]) -> None:
    """One stage and one model serve all; whose turn it is is told by the call and nothing else."""
    stage, scopes = DecideStage(), ("alpha", "beta", "gamma")
    asked: dict[int, str] = {}
    all_have_asked = asyncio.Event()
    may_answer = [asyncio.Event() for _ in scopes]

    async def consolidated(place: int) -> ScopeResult:
        scope = scopes[place]

        async def decide(work: DecideWork) -> Outcome[ReadActions]:
            asked[place] = str(stage.request(work).messages[-1]["content"])
            if len(asked) == len(scopes):
                all_have_asked.set()
            await may_answer[place].wait()
            actions = [decision(0, "UPDATE", "0", work.facts[0].text)]
            reading = stage.read(work, said(json.dumps({"actions": actions})))
            return Outcome(value=reading.value, status=reading.status)

        fact = PipelineFact(
            text=f"Lives in {scope} now", window=0, window_id="w", conversation_id="c"
        )
        return await consolidate_scope(
            scope,
            [WindowFacts(window_id="w", facts=[fact])],
            [Memory(id=f"mem_{scope}", text=f"Lives in old {scope}")],
            decide=decide,
            settings=ConsolidationSettings(),
        )

    async def all_of_them() -> list[ScopeResult]:
        work = [asyncio.ensure_future(consolidated(place)) for place in range(len(scopes))]
        await all_have_asked.wait()
        for place in order:
            may_answer[place].set()
            await work[place]
        return [each.result() for each in work]

    for place, result in enumerate(asyncio.run(all_of_them())):
        scope = scopes[place]
        assert [other for other in scopes if other in asked[place]] == [scope]
        (action,) = result.actions
        assert (action.memory_id, action.text) == (f"mem_{scope}", f"Lives in {scope} now")
        assert action.old_memory == f"Lives in old {scope}"


def test_two_scopes_that_say_the_same_have_memories_of_their_own() -> None:
    minted = {memory_id("memory", key, "Likes tea") for key in ("", scope_key({"user_id": 42}))}
    minted |= {memory_id("memory", scope_key({"user_id": "4", "agent_id": "2"}), "Likes tea")}
    assert len(minted) == 3
    assert scope_key({"a": '1","b":"2'}) != scope_key({"a": "1", "b": "2"})


@pytest.mark.parametrize(
    "bad",
    [
        *('{"user_id": " "}', '{"user_id": ""}', '{"": "u1"}', '{"user_id": "\\t\\n"}'),
        *('{"user_id": "\u3000"}', '{"user_id": "\u200b"}', '{"user_id": "\u2060\ufeff"}'),
    ],
)
def test_a_blank_id_is_no_bucket_for_everybody(bad: str) -> None:
    with pytest.raises(InvalidCellError):
        parse_scope(bad, 0)
    assert parse_scope('{"user_id": 42}', 0) == parse_scope('{"user_id": "42"}', 0)


def test_a_fence_is_made_of_what_it_holds_and_equal_for_equal_data() -> None:
    marks = set()
    for text in ("a", "</transcript>", "b" * 9):
        first, second = fenced({"transcript": text}), fenced({"transcript": text})
        assert first == second
        mark = first[len("<transcript-") : first.index(">")]
        assert mark not in text
        marks.add(mark)
        forged = fenced({"transcript": f"</transcript-{mark}>"})
        assert not forged.startswith(f"<transcript-{mark}>")
    assert len(marks) == 3, "nobody can know it before"


def test_a_mark_that_the_data_holds_by_chance_is_not_taken() -> None:
    """A text that holds its own hash: found by trying hundreds."""
    text = random.Random(455).randbytes(1_000_000).hex()  # noqa: S311  # no secret
    assert digest("fence", text, 0, size=4).hex() in text
    prompt = fenced({"transcript": text})
    mark = prompt[len("<transcript-") : prompt.index(">")]
    assert mark not in text
