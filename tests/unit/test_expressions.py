"""The expressions computed at once: cells in, cells out, with their status. No Ray, no network."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from memorypipe import ApplyActions, MemoryBuildAction, MemoryExtract
from memorypipe.errors import InvalidArgumentError, InvalidCellError
from memorypipe.expressions.build_action import (
    DecidedActions,
    DecideStage,
    DecideWork,
    resolved_actions,
)
from memorypipe.expressions.extract import ExtractStage
from memorypipe.expressions.options import WorkerOptions
from memorypipe.llm.replies.reply import read_actions
from memorypipe.llm.types import ExtractTask, Fact, Reply, Turn
from memorypipe.prompts.extract import extract_system

OFFLINE: dict[str, Any] = {"base_url": "offline:", "model": "offline-rules"}
PIANO = "[user]: I bought a Yamaha P-125 digital piano."


def extract(**settings: Any) -> MemoryExtract:
    return MemoryExtract(**{**OFFLINE, **settings})


def decide(**settings: Any) -> MemoryBuildAction:
    return MemoryBuildAction(**{**OFFLINE, **settings})


def facts(cell: str | None) -> list[str]:
    return [fact["text"] for fact in json.loads(cell or "")["memories"]]


def test_a_relative_journal_is_the_folder_that_it_was_where_the_expression_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paid = extract(base_url="http://host/v1")
    for made in (extract(journal="j"), paid.journalled("j")):
        assert made.spec.journal == str(tmp_path / "j")
    assert paid.journalled("s3://bucket/j").spec.journal == "s3://bucket/j"


@pytest.mark.parametrize(
    "column",
    [
        pa.array([PIANO, None]),
        pa.chunked_array([[PIANO], [None]]),
        pd.Series([PIANO, np.nan]),
        [PIANO, None],
    ],
    ids=["array", "chunked", "pandas", "list"],
)
def test_columns_of_every_kind_are_taken(column: Any) -> None:
    cells = extract()(column)
    assert cells.type == pa.string()
    assert [facts(cell) for cell in cells.to_pylist()] == [
        ["Bought a Yamaha P-125 digital piano"],
        [],
    ]


def test_a_null_column_means_no_facts_and_no_call() -> None:
    results = extract().results(pa.nulls(2))
    assert [(r.value, r.status, r.outcome) for r in results] == [
        ('{"memories":[]}', "empty", None)
    ] * 2


@pytest.mark.parametrize("cell", ["  ", "[assistant]: I own a piano.", "[system]: Be kind."])
def test_where_no_user_speaks_nothing_is_asked(cell: str) -> None:
    assert extract().results([cell])[0].outcome is None


def test_background_turns_are_read_but_give_no_fact() -> None:
    messages = [
        {"role": "user", "content": "I own a boat.", "background": True},
        {"role": "user", "content": "I own a piano."},
    ]
    assert facts(extract()([messages])[0].as_py()) == ["Owns a piano"]


def test_sources_are_ids_and_only_where_messages_have_them() -> None:
    with_ids = [{"role": "user", "content": "I own a piano.", "id": "m7"}]
    (fact,) = json.loads(extract()([with_ids])[0].as_py())["memories"]
    assert fact["sources"] == ["m7"]
    (fact,) = json.loads(extract()([PIANO])[0].as_py())["memories"]
    assert "sources" not in fact


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"one length, got \[2, 1\]"):
        extract()([PIANO, PIANO], ["x"])


def test_a_bare_string_is_no_column() -> None:
    with pytest.raises(InvalidArgumentError, match="wrap a single cell in a list"):
        extract()(PIANO)


def test_a_cell_that_cannot_be_read_names_its_row_before_anything_is_asked() -> None:
    with pytest.raises(InvalidCellError, match="1"):
        decide()(['["a"]', '["b"]'], [None, '{"no": "array"}'])
    kept = decide(on_invalid="null").results(['["I own a cat"]', '["b"]'], [None, '{"no": 1}'])
    assert [result.status for result in kept] == ["ok", "invalid_input"]
    assert kept[1].value is None


def test_facts_that_failed_are_skipped_and_no_facts_need_no_call() -> None:
    results = decide().results([None, '{"memories": []}', " "], [None, None, None])
    assert [(result.value, result.status) for result in results] == [
        (None, "skipped"),
        ('{"actions":[]}', "empty"),
        ('{"actions":[]}', "empty"),
    ]


def test_the_chain_by_hand() -> None:
    existing = ['[{"id": "m1", "text": "Lives in Rome", "tag": 7}]']
    found = extract()(["[user]: I live in Oslo now."])
    actions = decide()(found, existing)
    (action,) = json.loads(actions[0].as_py())["actions"]
    assert set(action) == {"event", "target_id", "text", "old_memory", "rationale"}
    assert (action["event"], action["target_id"], action["old_memory"]) == (
        "UPDATE",
        "m1",
        "Lives in Rome",
    )
    apply = ApplyActions()
    (memory,) = json.loads(apply(existing, actions)[0].as_py())
    assert memory == {"id": "m1", "text": action["text"], "tag": 7}
    again = apply(apply(existing, actions), actions)
    assert json.loads(again[0].as_py()) == [memory], "applied twice is applied once"


def test_apply_lists_what_cannot_hold_and_takes_a_scope() -> None:
    actions = ['{"actions": [{"event": "DELETE", "target_id": "m9", "text": "x"}]}']
    assert ApplyActions()([None], actions).to_pylist() == ["[]"]
    with pytest.raises(InvalidCellError, match="unknown_target"):
        ApplyActions(on_rejected="raise")([None], actions)
    add = ['{"actions": [{"event": "ADD", "text": "Likes tea"}]}']
    ids = [
        json.loads(ApplyActions()([None], add, [None], [scope])[0].as_py())[0]["id"]
        for scope in ({"user_id": "a"}, '{"user_id": "a"}', {"user_id": "b"})
    ]
    assert ids[0] == ids[1] != ids[2]


def test_render_gives_the_exact_request_without_a_call() -> None:
    expression = MemoryExtract(base_url="http://localhost:1/v1", model="m")
    system, user = expression.render([PIANO])[0] or [{}, {}]
    assert PIANO in user["content"]
    assert "JSON" in system["content"]
    assert expression.render([None]) == [None]


def test_a_hint_replaces_the_instructions_and_never_the_format() -> None:
    (messages,) = extract(hint=["Extract", "foods."]).render([PIANO])
    text = (messages or [])[0]["content"]
    assert text.startswith("Extract\nfoods.")
    assert "durable" not in text.split("Reply with")[0]
    assert '"memories"' in text
    (both,) = extract(hint="Extract foods.", hint_mode="append").render([PIANO])
    assert "durable" in (both or [])[0]["content"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: extract(hint_mode="add"), "hint_mode must be 'replace' or 'append', got 'add'"),
        (lambda: extract(on_invalid="skip"), "on_invalid must be 'raise' or 'null', got 'skip'"),
        (lambda: decide(fallback_action="DELETE"), "'ADD' or 'NONE', got 'DELETE'"),
        (lambda: extract(max_retries=-1), "max_retries"),
        (lambda: extract(no_such_parameter=1), "no_such_parameter"),
        (lambda: ApplyActions(on_rejected="x"), "on_rejected"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_work_is_said_at_construction(make: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make()


def test_options_give_a_changed_copy_and_name_the_valid_ones() -> None:
    before = extract()
    after = before.options(num_workers={"CPU": 2}, batch_size=8)
    assert after.worker_options == WorkerOptions(num_workers=2, num_cpus=1, batch_size=8)
    assert before.worker_options == WorkerOptions()
    with pytest.raises(TypeError, match=r"\['workers'\].*num_workers"):
        before.options(workers=2)
    for bad in (0, -1, True, {"GPU": 1}, {"IO": 0}, "2"):
        with pytest.raises(InvalidArgumentError, match="num_workers"):
            before.options(num_workers=bad)


def test_a_reply_of_the_prompts_own_examples_is_no_reply() -> None:
    stage = ExtractStage()
    task = ExtractTask(turns=[Turn(role="user", content="Hi, how are you?")])
    (example, *_) = [
        line for line in stage.request(task).messages[0]["content"].splitlines() if "=>" in line
    ]
    reading = stage.read(task, Reply(content=example.removeprefix("=> ")))
    # It says nothing about the conversation, not even that there is nothing to say.
    assert (reading.value, reading.status) == (None, "parse_error")
    assert reading.dropped_items == 1


def test_memories_of_the_prompts_own_examples_are_not_taken_over() -> None:
    stage = DecideStage()
    echo = '{"actions": [{"fact": 0, "event": "ADD", "text": "Is learning to weave"}]}'

    def text(fact: str) -> str | None:
        work = DecideWork(facts=[Fact(text=fact)], existing=[])
        reading = stage.read(work, Reply(content=echo))
        assert reading.value is not None
        said: str | None = reading.value.items[0]["text"]
        return said

    assert text("Owns a piano") is None
    assert text("Is learning to weave") == "Is learning to weave", "said by the user"


def test_an_empty_list_of_actions_is_no_answer() -> None:
    work = DecideWork(facts=[Fact(text="Owns a piano")], existing=[])
    reading = DecideStage().read(work, Reply(content='{"actions": []}'))
    assert (reading.value, reading.status) == (None, "parse_error")


def test_the_halves_of_a_decision_are_numbered_as_the_whole() -> None:
    stage = DecideStage()
    facts_in = [Fact(text=f"Owns {n} cats") for n in range(4)]
    work = DecideWork(facts=facts_in, existing=[])
    halves = stage.split(work)
    assert halves is not None
    said = '{"actions": [{"fact": 0, "event": "ADD"}, {"fact": 1, "event": "NONE"}]}'
    first, second = (stage.read(half, Reply(content=said)).value for half in halves)
    merged = stage.merge(work, first, second, None)
    assert [(item["fact"], item["event"]) for item in merged.items] == [
        (0, "ADD"),
        (1, "NONE"),
        (2, "ADD"),
        (3, "NONE"),
    ]
    assert merged.complete
    assert stage.merge(work, first, None, None).status == "truncated"


def test_a_half_deletes_by_its_own_reply_alone() -> None:
    """The other half may have been cut; what a cut reply deletes itself is left out."""
    stage = DecideStage()
    facts = [Fact(text="Sold the car"), Fact(text="Owns a cat")]
    work = DecideWork(facts=facts, existing=[{"id": "m1", "text": "Has a car"}])
    deleted = '{"actions": [{"fact": 0, "event": "DELETE", "target_id": "0"}]}'
    whole = read_actions(deleted, finish_reason="stop")
    cut = read_actions(deleted, finish_reason="length")
    added = read_actions('{"actions": [{"fact": 0, "event": "ADD"}]}', finish_reason="length")
    for first, kept, expected in (
        (whole, None, ["DELETE", "ADD"]),
        (cut, None, ["ADD"]),
        (None, cut, ["ADD"]),
    ):
        merged = stage.merge(work, first, added, kept)
        assert [item["event"] for item in merged.items] == expected
    resolved = resolved_actions(work, stage.merge(work, whole, added, None), fallback_action="NONE")
    assert [action.event for action in resolved.actions] == ["DELETE", "ADD"]
    assert not resolved.problems


def _decided(content: str, facts: int = 2) -> Any:
    work = DecideWork(facts=[Fact(text=f"Owns {n} cats") for n in range(facts)], existing=[])
    return DecideStage().read(work, Reply(content=content)).value


def test_a_half_never_speaks_for_the_facts_of_the_other() -> None:
    """A model that counts from 1, or gives no numbers and too few, decides nothing else."""
    stage = DecideStage()
    work = DecideWork(facts=[Fact(text=f"Owns {n} cats") for n in range(4)], existing=[])
    from_one = '{"actions": [{"fact": 1, "event": "NONE"}, {"fact": 2, "event": "NONE"}]}'
    good = '{"actions": [{"fact": 0, "event": "ADD"}, {"fact": 1, "event": "ADD"}]}'
    merged = stage.merge(work, _decided(from_one), _decided(good), None)
    assert [(i["fact"], i["event"]) for i in merged.items] == [(1, "NONE"), (2, "ADD"), (3, "ADD")]
    too_few = _decided('{"actions": [{"event": "NONE"}]}')
    assert [i["fact"] for i in stage.merge(work, too_few, _decided(good), None).items] == [2, 3]


def test_what_the_cut_reply_said_stands_in_for_a_half_that_failed() -> None:
    stage = DecideStage()
    work = DecideWork(facts=[Fact(text=f"Owns {n} cats") for n in range(4)], existing=[])
    whole = _decided('{"actions": [{"fact": 0, "event": "ADD"}]}', facts=4)
    good = _decided('{"actions": [{"fact": 0, "event": "ADD"}, {"fact": 1, "event": "ADD"}]}')
    merged = stage.merge(work, None, good, whole)
    assert sorted(item["fact"] for item in merged.items) == [0, 2, 3]
    facts_of = ExtractStage().merge
    task = ExtractTask(turns=[])
    first, whole_facts = ({"text": "Likes tea"},), ({"text": "likes  tea"}, {"text": "Has a dog"})
    joined = facts_of(task, first, None, whole_facts)
    assert sorted(item["text"].lower() for item in joined) == ["has a dog", "likes  tea"]


def test_a_reply_that_leaves_a_fact_undecided_is_incomplete() -> None:
    work = DecideWork(facts=[Fact(text="Owns a cat"), Fact(text="Owns a dog")], existing=[])
    reading = DecideStage().read(work, Reply(content='{"actions": [{"fact": 0, "event": "ADD"}]}'))
    assert reading.status == "incomplete"
    assert reading.value is not None
    assert "fact 1" in (reading.error or "")


def test_what_reading_worked_out_is_not_worked_out_again() -> None:
    work = DecideWork(facts=[Fact(text=f"Owns {n} cats") for n in range(2)], existing=[])
    said = '{"actions": [{"fact": 0, "event": "ADD"}, {"fact": 1, "event": "NONE"}]}'
    read = DecideStage().read(work, Reply(content=said)).value
    assert isinstance(read, DecidedActions)
    assert resolved_actions(work, read, fallback_action="NONE") is read.resolved
    assert [action.event for action in read.resolved.actions] == ["ADD", "NONE"]


def test_a_half_that_is_decided_says_nothing_about_the_whole() -> None:
    stage = DecideStage()
    work = DecideWork(facts=[Fact(text=f"Owns {n} cats") for n in range(2)], existing=[])
    halves = stage.split(work)
    assert halves is not None
    said = Reply(content='{"actions": [{"fact": 0, "event": "NONE"}]}')
    first, second = (stage.read(half, said).value for half in halves)
    for values, events in (((first, second), ["NONE", "NONE"]), ((first, None), ["NONE", "ADD"])):
        resolved = resolved_actions(work, stage.merge(work, *values, None), fallback_action="ADD")
        assert [action.event for action in resolved.actions] == events


def test_the_system_message_is_put_together_once_for_all_requests() -> None:
    tasks = [ExtractTask(turns=[Turn(role="user", content=text)]) for text in ("a", "b")]
    stage = ExtractStage(hint="Keep foods.")
    first, second = (stage.request(task).messages[0]["content"] for task in tasks)
    assert first is second
    assert first == extract_system(hint="Keep foods.")


@pytest.mark.parametrize("content", ["", '{"memories": [{"te'])
def test_a_reply_cut_before_its_first_fact_is_not_no_facts(content: str) -> None:
    task = ExtractTask(turns=[Turn(role="user", content="I own a cat.")])
    reading = ExtractStage().read(task, Reply(content=content, finish_reason="length"))
    assert (reading.value, reading.status) == (None, "truncated")


def test_a_context_that_is_no_text_is_invalid_input() -> None:
    with pytest.raises(InvalidCellError, match=r"context.*int"):
        extract()([PIANO], [5])
    assert extract(on_invalid="null").results([PIANO], [5])[0].status == "invalid_input"
