"""An audit finds what is wrong in a table, by scope, and nothing in a table where nothing is."""

from datetime import timedelta

import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.ids import scope_key
from memorypipe.table.auditing.report import AuditReport
from memorypipe.table.table import MemoryTable
from tests.support.table_actions import START, USER, actions, add, ledger, minted, update

_OTHER = {"user_id": "u2"}
_WELL = {"event_time": START, "source_ids": ["m1"], "conversation_id": "c1"}


def counts(report: AuditReport) -> dict[str, int]:
    return {str(check): each.count for check, each in report.findings.items() if each.count}


def commit(table: MemoryTable, *texts: str, run_id: str = "run") -> None:
    rows = [add(text, **_WELL) for text in texts]
    table.commit(actions(*rows), run_id=run_id, ledger=ledger("m1"))


def test_a_table_in_order_is_clean(table: MemoryTable) -> None:
    commit(table, "Lives in Oslo", "Owns a cat", "Plays the cello")
    report = table.audit()
    assert report.is_clean, counts(report)
    assert (report.memories, report.scopes, report.version) == (3, 1, 1)


def test_an_empty_table_is_clean(table: MemoryTable) -> None:
    assert table.audit().is_clean
    assert table.audit().memories == 0


def test_what_came_to_say_the_same_is_a_duplicate_in_its_scope_alone(table: MemoryTable) -> None:
    commit(table, "Owns a cat", "Owns a dog")
    cat = add("Owns a cat", scope=_OTHER, event_time=START, source_ids=["m1"])
    table.commit(actions(update(minted("Owns a dog"), "Owns a  CAT"), cat), run_id="second")
    finding = table.audit().findings["duplicates"]
    assert (finding.count, finding.by_scope) == (1, {scope_key(USER): 1})
    [example] = finding.examples
    assert {example.memory_id, example.other_id} == {minted("Owns a cat"), minted("Owns a dog")}
    assert {example.text, example.other_text} == {"Owns a cat", "Owns a  CAT"}


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("Owns a cat", "The user owns the cat."), {"near_duplicates": 1}),
        (
            ("Likes green tea in the morning", "Likes green tea in the early morning"),
            {"near_duplicates": 1},
        ),
        (("Eats meat", "Does not eat meat"), {"contradictions": 1}),
        (("Has 2 cats", "Has 3 cats"), {"contradictions": 1}),
        (("Lives in Oslo", "Moved to Bergen"), {"contradictions": 1}),
        (("Works at Acme", "Works at Globex", "Works at Initech"), {"contradictions": 2}),
        (("Likes C++", "Likes C#"), {}),
        (("Al likes Bo a lot", "Bo likes Al a lot"), {}),
        (("Likes tea", "Likes hiking"), {}),
        (
            ("Was in Rome with Ana", "Was in Rome with Ana in 2019"),
            {"near_duplicates": 1},
        ),
    ],
)
def test_memories_that_look_alike_are_told_apart(
    table: MemoryTable, texts: tuple[str, ...], expected: dict[str, int]
) -> None:
    commit(table, *texts)
    assert counts(table.audit()) == expected


def test_origins_that_nobody_knows_are_found(table: MemoryTable) -> None:
    rows = [
        add("Lives in Oslo", **_WELL),
        add("Owns a cat", **{**_WELL, "source_ids": ["m1", "m7"]}),
        add("Plays the cello", **{**_WELL, "conversation_id": "c9"}),
        add("Paints ships", **{**_WELL, "source_ids": None, "event_time": None}),
    ]
    table.commit(actions(*rows), run_id="run", ledger=ledger("m1"))
    report = table.audit()
    expected = {"unknown_source": 1, "unknown_conversation": 1, "no_source": 1, "no_time": 1}
    assert (counts(report), report.orphans) == (expected, 2)
    assert report.findings["unknown_source"].examples[0].text == "Owns a cat"


def test_what_no_log_gave_is_no_orphan(table: MemoryTable) -> None:
    table.commit(actions(add("Owns a cat", **_WELL)), run_id="by-hand")
    report = table.audit()
    assert report.orphans == 0
    assert "no run" in report.unchecked["unknown_source"]


def test_junk_is_counted_once_whatever_is_wrong_with_it(table: MemoryTable) -> None:
    commit(table, "Sure, what can I do for you?", "Owns a cat")
    report = table.audit()
    assert counts(report) == {"question": 1, "chatter": 1}
    assert report.junk == 1


def test_what_was_forgotten_is_blocked_and_found_where_it_lives_on(table: MemoryTable) -> None:
    commit(table, "Owns a cat", "Owns a dog")
    table.forget(minted("Owns a cat"))
    late = START + timedelta(days=9)
    revived = update(minted("Owns a dog"), "Owns a cat", event_time=late)
    table.commit(actions(revived), run_id="later")
    report = table.audit()
    assert (report.tombstones, counts(report)) == (1, {"no_source": 1})


def test_one_scope_can_be_looked_at(table: MemoryTable) -> None:
    commit(table, "Owns a cat", "Where is Bo?")
    table.commit(actions(add("Who is Al?", scope=_OTHER, **_WELL)), run_id="second")
    assert table.audit().findings["question"].count == 2
    report = table.audit(_OTHER)
    assert (report.memories, report.findings["question"].count) == (1, 1)


def test_a_scope_with_very_many_memories_is_told_of(table: MemoryTable) -> None:
    commit(table, "Owns a cat", "Plays the cello", "Paints ships")
    finding = table.audit(large_scope=2).findings["large_scope"]
    assert (finding.count, finding.by_scope) == (3, {scope_key(USER): 3})


def test_examples_are_few_and_counts_are_whole(table: MemoryTable) -> None:
    commit(table, *[f"Where is {name}?" for name in ("Al", "Bo", "Cy")])
    finding = table.audit(examples=1).findings["question"]
    assert (finding.count, len(finding.examples)) == (3, 1)
    with pytest.raises(InvalidArgumentError, match="examples"):
        table.audit(examples=-1)
