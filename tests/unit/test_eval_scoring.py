"""What an answer counts for."""

from collections import Counter
from typing import Any

import pytest

from benchmarks.eval.cases import DecideCase, ExtractCase, GoldAction
from benchmarks.eval.matching import Pattern
from benchmarks.eval.metrics import cost_numbers, decision_numbers, extraction_numbers
from benchmarks.eval.scoring import decision_problems, score_decision, score_extraction
from memorypipe.cells.actions import Action
from memorypipe.llm.spec import Prices
from memorypipe.llm.types import ExtractTask, Fact


def _says(*groups: str, none: str = "", when: str = "") -> Pattern:
    return Pattern(
        every=tuple(tuple(group.split("|")) for group in groups),
        none=tuple(filter(None, none.split("|"))),
        when=tuple(filter(None, [when])),
    )


TRANSCRIPT = ExtractCase(
    id="e",
    kind="third_person",
    language="en",
    task=ExtractTask(turns=[]),
    facts=(_says("jack", "football"), _says("oslo", when="2024-05-21")),
    never=(_says("football", none="jack"),),
    also=(_says("greets|greeting"),),
)


def _extracted(*texts: str | dict[str, Any]) -> Counter[str]:
    items = [{"text": text} if isinstance(text, str) else text for text in texts]
    return +score_extraction(TRANSCRIPT, items)


def test_a_whole_answer_is_right() -> None:
    oslo = {"text": "Flies to Oslo", "event_time": "2024-05-21"}
    assert _extracted("Brother Jack likes football", oslo) == Counter(
        gold=2, found=2, items=2, right=2, dates=1, dated=1
    )


def test_one_item_may_say_two_facts() -> None:
    counts = _extracted("Flies to Oslo with Jack, who likes football")
    assert (counts["found"], counts["items"], counts["right"]) == (2, 1, 1)


def test_what_is_forbidden_is_invented_and_finds_nothing() -> None:
    counts = _extracted("Likes football and flies to Oslo")
    assert (counts["invented"], counts["found"], counts["right"]) == (1, 0, 0)


def test_what_may_be_said_is_allowed_and_anything_else_is_extra() -> None:
    counts = _extracted("Greets the assistant", "Likes tea")
    assert (counts["allowed"], counts["extra"]) == (1, 1)


def test_a_fact_said_again_is_repeated() -> None:
    assert _extracted("Jack likes football", "Jack loves football")["repeated"] == 1
    assert _extracted("Jack likes football", "Jack in Oslo loves football")["repeated"] == 0


def test_a_failed_extraction_finds_nothing_and_says_so() -> None:
    assert +score_extraction(TRANSCRIPT, None) == Counter(gold=2, dates=1, failed=1)


def test_extraction_numbers() -> None:
    counts = _extracted("Jack likes football", "Likes football", "Likes tea", "Greets all")
    assert extraction_numbers(counts) == {
        "precision": 0.333,
        "recall": 0.5,
        "dates": 0.0,
        "invented": 1,
        "extra": 1,
        "repeated": 0,
        "failed": 0,
    }


MEMORIES = ({"id": "m1", "text": "Lives in Rome"}, {"id": "m2", "text": "Has 2 cats"})
UPDATE = GoldAction(event="UPDATE", target="m1", text=_says("berlin"))
NONE = GoldAction(event="NONE")
ADD = GoldAction(event="ADD", text=_says("berlin"))
DELETE = GoldAction(event="DELETE", target="m2")


def _case(*gold: GoldAction) -> DecideCase:
    return DecideCase(
        id="d",
        kind="update",
        language="en",
        existing=MEMORIES,
        facts=(Fact(text="Moved to Berlin"),),
        gold=(gold,),
    )


def _decided(event: str, text: str, target: str | None, *gold: GoldAction) -> Counter[str]:
    return +score_decision(_case(*gold), [Action(event=event, text=text, target_id=target)])


def test_a_right_update_counts_as_change_and_update() -> None:
    assert _decided("UPDATE", "Lives in Berlin", "m1", UPDATE) == Counter(
        facts=1,
        right=1,
        changes=1,
        said_changes=1,
        right_changes=1,
        updates=1,
        right_updates=1,
    )


@pytest.mark.parametrize(
    ("event", "text", "target", "gold", "fault"),
    [
        ("UPDATE", "Lives in Berlin", "m2", UPDATE, "damaged"),
        ("DELETE", "Moved to Berlin", "m1", UPDATE, "damaged"),
        ("UPDATE", "Lives in Berlin", "m1", ADD, "damaged"),
        ("NONE", "Moved to Berlin", None, UPDATE, "lost"),
        ("NONE", "Moved to Berlin", None, ADD, "lost"),
        ("ADD", "Moved to Berlin", None, NONE, "repeated"),
        ("UPDATE", "Lives in Berlin at number 7", "m1", UPDATE, "invented"),
        ("UPDATE", "Lives in Berlin with Ida", "m1", UPDATE, "invented"),
    ],
)
def test_what_is_wrong_is_counted_by_its_kind(
    event: str, text: str, target: str | None, gold: GoldAction, fault: str
) -> None:
    counts = _decided(event, text, target, gold)
    assert counts[fault] == 1
    faults = {"damaged", "lost", "repeated", "invented", "failed"} & counts.keys()
    assert faults == {fault}
    assert counts["right"] == (fault == "invented")


def test_a_right_none_has_no_fault() -> None:
    assert _decided("NONE", "Moved to Berlin", None, NONE) == Counter(facts=1, right=1)


def test_an_update_of_the_right_memory_with_another_text_is_not_right() -> None:
    counts = _decided("UPDATE", "Lives in Rome", "m1", UPDATE)
    assert (counts["right"], counts["right_updates"], counts["damaged"]) == (0, 0, 0)


def test_any_of_the_gold_actions_will_do() -> None:
    for event, target in (("NONE", None), ("DELETE", "m2")):
        assert _decided(event, "Moved to Berlin", target, DELETE, NONE)["right"] == 1
    # A change is asked for only where nothing else would do.
    assert _decided("NONE", "Moved to Berlin", None, DELETE, NONE)["changes"] == 0


def test_a_fallback_is_never_right_even_where_it_hits() -> None:
    action = Action(event="ADD", text="Moved to Berlin")
    counts = score_decision(_case(ADD), [action], failed={0})
    assert (counts["right"], counts["failed"]) == (0, 1)


def test_problems_name_what_was_decided_wrongly() -> None:
    right = Action(event="UPDATE", text="Lives in Berlin", target_id="m1")
    assert decision_problems(_case(UPDATE), [right]) == []
    assert decision_problems(_case(ADD), [right]) == [
        "'Moved to Berlin': UPDATE m1 'Lives in Berlin'"
    ]


def test_decision_numbers() -> None:
    counts = Counter(
        facts=4, right=3, changes=2, said_changes=1, right_changes=1, updates=2, right_updates=1
    )
    numbers = decision_numbers(counts)
    assert (numbers["accuracy"], numbers["updates"]) == (0.75, 0.5)
    assert (numbers["precision"], numbers["recall"]) == (1.0, 0.5)


def test_a_thousand_turns_pay_for_extraction_and_for_the_decisions_about_their_facts() -> None:
    extracting = Counter(calls=10, tokens_in=1000, tokens_out=100, turns=20)
    deciding = Counter(calls=4, tokens_in=800, tokens_out=80, decided=8)
    price = Prices(per_million_in=1, per_million_out=10)
    numbers = cost_numbers(extracting, deciding, facts=10, prices=(price, price))
    # 50 times the extraction, and 500 facts: 62.5 times the decisions.
    assert numbers == {"calls": 750.0, "tokens_in": 100_000.0, "tokens_out": 10_000.0, "cost": 0.2}


def test_a_cost_without_its_price_or_its_stage_is_unknown() -> None:
    spent = Counter(calls=1, tokens_in=1, tokens_out=1, turns=1, decided=1)
    price = Prices(per_million_in=1, per_million_out=1)
    assert cost_numbers(spent, spent, facts=1, prices=(price, None))["cost"] is None
    assert cost_numbers(spent, Counter(), facts=1, prices=(price, price))["calls"] is None
