"""What goes with the memories of single conversations, on its way into the rows."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson
import pyarrow as pa

from memorypipe.expressions.build_action import DecideWork
from memorypipe.llm.replies.reply import ReadActions
from memorypipe.llm.stage import Outcome
from memorypipe.pipeline.deciding import window_facts
from memorypipe.pipeline.runs.request import RunRequest
from memorypipe.pipeline.scopes.carrying import OVERLAP, Carried, Carry, carried_columns
from memorypipe.pipeline.scopes.consolidate import ScopeResult, WindowFacts, consolidate_scope
from memorypipe.pipeline.scopes.decided import PipelineFact
from memorypipe.pipeline.scopes.settings import ConsolidationSettings
from memorypipe.pipeline.scopes.state import ScopeState
from memorypipe.rank.lookup import Lookup
from memorypipe.rank.memory import Memory

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
V = '{"k":"v"}'
MATCHING = Carry(metadata=V, strategy="REQUIRE_EXACT_MATCH")


def facts_row(**more: Any) -> dict[str, Any]:
    memories = [
        {"text": "old and new", "sources": ["a", "b"]},
        {"text": "old", "sources": ["a"]},
        {"text": "from somewhere"},
    ]
    return {
        "scope_key": "s",
        "conversation_id": "c",
        "window_id": "w",
        "message_ids": ["b"],
        "message_times": [NOON],
        "event_time": NOON,
        "facts_json": orjson.dumps({"memories": memories}).decode(),
        "flags": [],
        "status": "ok",
        "error": None,
        **more,
    }


def fact(text: str, carry: Carry, flags: tuple[str, ...] = ()) -> PipelineFact:
    return PipelineFact(
        text=text,
        window=0,
        window_id="w",
        conversation_id="c",
        event_time=NOON,
        flags=flags,
        carry=carry,
    )


def test_a_fact_that_rests_on_overlap_alone_is_flagged_where_something_is_carried() -> None:
    carried = Carried(by_conversation={("s", "c"): MATCHING})
    read = window_facts(0, facts_row(), carried)
    assert [each.flags for each in read.facts] == [(), (OVERLAP,), ()]
    assert {each.carry for each in read.facts} == {MATCHING}
    for other in (None, Carried(by_conversation={("s", "d"): MATCHING})):
        assert [each.flags for each in window_facts(0, facts_row(), other).facts] == [(), (), ()]


def consolidate(
    facts: list[PipelineFact], memories: list[Memory]
) -> tuple[ScopeResult, list[DecideWork]]:
    asked: list[DecideWork] = []

    async def decide(work: DecideWork) -> Outcome[ReadActions]:
        asked.append(work)
        said = [
            {"fact": n, "event": "ADD", "target_id": None, "text": None, "rationale": "r"}
            for n in range(len(work.facts))
        ]
        read = ReadActions(
            items=tuple(said), dropped_items=0, repaired=0, complete=True, status="ok", error=None
        )
        return Outcome(value=read, status="ok")

    window = WindowFacts(window_id="w", facts=facts)
    settings = ConsolidationSettings(lookup=Lookup(strategy="all", max_memories=None))
    result = asyncio.run(
        consolidate_scope("s", [window], memories, decide=decide, settings=settings)
    )
    return result, asked


def test_a_fact_of_overlap_is_left_out_and_accounted_for() -> None:
    result, asked = consolidate([fact("Has a cat", Carry(), (OVERLAP,))], [])
    assert not asked
    assert [(each.event, each.memory_id) for each in result.actions] == [("NONE", None)]
    assert "background" in (result.actions[0].rationale or "")


def test_only_memories_with_equal_metadata_are_shown_where_that_is_asked_for() -> None:
    memories = [
        Memory(id="same", text="Owns a blue bicycle", metadata='{"k": "v"}'),
        Memory(id="other", text="Plays chess on Fridays", metadata='{"k":"w"}'),
        Memory(id="none", text="Speaks Spanish"),
    ]
    facts = [fact("Lives in Berlin", MATCHING), fact("Likes green tea", Carry(metadata=V))]
    _, asked = consolidate(facts, memories)
    shown = [{each["id"] for each in work.existing} for work in asked]
    assert len(shown) == 2  # facts that see different memories are not decided together
    assert shown[0] == {"same"}
    assert shown[1] >= {"same", "other", "none"}


def test_facts_told_in_turn_with_metadata_that_must_match_are_decided_many_at_a_time() -> None:
    other = Carry(metadata='{"k":"w"}', strategy="REQUIRE_EXACT_MATCH")
    told = [*[MATCHING, other] * 2, Carry(), MATCHING, other]
    _, asked = consolidate([fact(f"note{n}", each) for n, each in enumerate(told)], [])
    calls = [[each.text for each in work.facts] for work in asked]
    assert calls == [["note0", "note2"], ["note1", "note3"], ["note4"], ["note5"], ["note6"]]


def test_no_later_window_is_decided_before_all_of_an_earlier_one() -> None:
    other = Carry(metadata='{"k":"w"}', strategy="REQUIRE_EXACT_MATCH")
    told = [(0, MATCHING), (1, MATCHING), (1, other), (1, MATCHING), (1, other), (2, other)]
    facts = [replace(fact(f"note{n}", each), window=w) for n, (w, each) in enumerate(told)]
    _, asked = consolidate(facts, [])
    calls = [[each.text for each in work.facts] for work in asked]
    assert calls == [["note0", "note1"], ["note2", "note4"], ["note3"], ["note5"]]


def test_what_a_run_makes_is_a_candidate_by_its_own_metadata() -> None:
    state = ScopeState("s", [Memory(id="m", text="Lives in Rome", metadata='{"a":1}')])
    lookup = Lookup(strategy="all", max_memories=None)

    def shown(carry: Carry) -> list[str]:
        return [each["id"] for each in state.lookup([fact("x", carry)], lookup)]

    merging = Carry(metadata=V, strategy="MERGE")
    decided: Any = consolidate([fact("Lives in Oslo", merging)], [])[0].actions[0]
    update = replace(decided, event="UPDATE", memory_id="m", old_memory="Lives in Rome")
    assert shown(MATCHING) == []
    state.accept(update)
    assert shown(MATCHING) == []
    both = Carry(metadata='{"a":1.0,"k":"v"}', strategy="REQUIRE_EXACT_MATCH")
    assert shown(both) == ["m"]


def test_actions_get_the_columns_of_their_conversation() -> None:
    carry = Carry(
        metadata=V, strategy="MERGE", labels={"b": "2", "a": "1"}, revision_expires_at=NOON
    )
    actions = pa.table({"scope_key": ["s", "s"], "conversation_id": ["c", "d"]})
    rows = carried_columns(actions, Carried(by_conversation={("s", "c"): carry})).to_pylist()
    assert rows[0]["metadata"] == V
    assert rows[0]["metadata_merge"] == "MERGE"
    assert rows[0]["revision_labels"] == '{"a":"1","b":"2"}'
    assert rows[0]["revision_expires_at"] == NOON
    assert [value for name, value in rows[1].items() if name not in actions.column_names] == [
        None
    ] * 4


def test_a_run_that_carries_something_is_another_run() -> None:
    one = RunRequest(carried=Carried(by_conversation={("s", "c"): Carry(metadata=V)}))
    two = RunRequest(carried=Carried(by_conversation={("s", "c"): MATCHING}))
    assert len({str(each.to_dict()) for each in (one, two, RunRequest())}) == 3
    assert RunRequest().to_dict() == {}
    assert RunRequest(has_revisions=False).to_dict() == {"has_revisions": False}
