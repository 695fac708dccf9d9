"""What a prompt says itself is no fact: neither word for word, nor put in other words."""

import json

import pytest

from memorypipe.expressions.build_action import DecideStage, DecideWork
from memorypipe.expressions.extract import ExtractStage
from memorypipe.llm.types import ExtractTask, Fact, Turn
from memorypipe.prompts.echoes import quotes_empty_list
from memorypipe.prompts.extract import extract_own_words, extract_system
from tests.support.scripted_model import said

OWN = extract_own_words(extract_system())

ECHOES = [
    "Brother Oskar moved to Tromsø on 2019-04-01",
    "brother oskar moved to tromsø on 2019-04-01.",
    "My brother Oskar moved to Tromsø yesterday",
    "Oskar, the user's brother, now lives up north in Tromsø",
    "the fact, one sentence",
    "Keep negations",
    "One fact per item, complete on its own",
    "string",
    "text",
]


def extracted(*texts: str, turn: str, hint: str | None = None, **fields: str) -> tuple[str, ...]:
    """The status, and the texts that are kept of a reply to one turn."""
    task = ExtractTask(turns=[Turn(role="user", content=turn)])
    reply = json.dumps({"memories": [{"text": text, **fields} for text in texts]})
    reading = ExtractStage(hint=hint).read(task, said(reply))
    return (reading.status, *(item["text"] for item in reading.value or ()))


@pytest.mark.parametrize("text", ECHOES)
def test_an_echo_is_no_fact_and_nothing_but_echoes_is_no_answer(text: str) -> None:
    assert extracted(text, turn="I own a cat") == ("parse_error",)
    assert extracted("Owns a cat", text, turn="I own a cat") == ("ok", "Owns a cat")


def test_an_empty_list_still_says_that_there_are_no_facts() -> None:
    assert extracted(turn="Hi, how are you?") == ("empty",)


@pytest.mark.parametrize(
    ("text", "turn"),
    [
        ("Brother Oskar moved to Tromsø on 2019-04-01", "My brother Oskar went to Tromsø in 2019"),
        ("Brother Oskar is a vet", "Oskar, my brother, is a vet"),
        ("Lives in Tromsø", "I live in Tromsø"),
        ("Collects string", "I collect string"),
    ],
)
def test_what_the_data_says_is_no_echo(text: str, turn: str) -> None:
    assert extracted(text, turn=turn) == ("ok", text)


def test_an_example_of_the_callers_own_hint_is_an_echo_too() -> None:
    hint = "Extract foods, for instance: Eats lentils every Friday."
    assert extracted("Eats lentils every Friday", turn="Hi", hint=hint) == ("parse_error",)
    kept = extracted("Eats lentils every Friday", turn="Friday I eat lentils", hint=hint)
    assert kept == ("ok", "Eats lentils every Friday")


def test_a_detail_that_is_an_echo_is_left_out_alone() -> None:
    task = ExtractTask(turns=[Turn(role="user", content="I own a cat")])
    item = {"text": "Owns a cat", "context": "what is needed to understand the fact"}
    reading = ExtractStage().read(task, said(json.dumps([item])))
    assert reading.value == ({"text": "Owns a cat"},)


@pytest.mark.parametrize("text", ["Rents a flat in Bodø", "the whole memory after the change"])
def test_a_decision_whose_text_is_an_echo_is_asked_for_again(text: str) -> None:
    existing = [{"id": "m", "text": "Rents a flat in Rome"}]
    work = DecideWork(facts=[Fact(text="Rents a flat in Pisa")], existing=existing)
    update = {"fact": 0, "event": "UPDATE", "target_id": "0", "text": text}
    assert DecideStage().read(work, said(json.dumps([update]))).status == "incomplete"
    real = {**update, "text": "Rents a flat in Pisa, before in Rome"}
    assert DecideStage().read(work, said(json.dumps([real]))).status == "ok"


def test_plain_facts_are_no_echoes() -> None:
    for text in ("Likes tea", "Has 2 cats", "住在北京", "Works in health care", "!", ""):
        assert not OWN.are_echoed(text, [])


def test_an_empty_list_that_the_data_holds_is_no_answer() -> None:
    line = 'My API returns {"memories": []} on Mondays'
    task = ExtractTask(turns=[Turn(role="user", content=line)])
    assert ExtractStage().read(task, said(f"#1 [user]: {line}")).status == "parse_error"
    assert ExtractStage().read(task, said('{"memories": []}')).status == "empty"
    assert not quotes_empty_list('{"memories": []}', ['{"memories": []}'])
