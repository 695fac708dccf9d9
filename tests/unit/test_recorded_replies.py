"""Awkward replies, each with what `MemoryExtract` keeps of it where it may ask but once.

Replies recorded elsewhere are tried too, where the folder with them is there.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from memorypipe.cells.facts import encode_facts
from memorypipe.expressions.extract import ExtractStage
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.types import ExtractTask, Turn
from memorypipe.llm.worker import Worker
from tests.support.scripted_model import ScriptedModel, said

SHARED = Path(os.environ.get("MEMORYPIPE_SHARED", Path(__file__).parents[3] / "shared"))
RECORDED = SHARED / "fixtures" / "llm_replies.jsonl"

BREAD = '{"memories":[{"text":"Bakes bread"}]}'
BOTH = ["Bakes bread", "Has twins"]

Case = tuple[str | None, str, list[str] | None, str]

# Kind → reply, how it ended, texts that are kept (None: the cell is null), status.
OWN: dict[str, Case] = {
    "clean": (BREAD, "stop", BOTH[:1], "ok"),
    "empty": ('{"memories":[]}', "stop", [], "empty"),
    "fenced": (f"```json\n{BREAD}\n```", "stop", BOTH[:1], "ok"),
    "prose around": (f"What I found: {BREAD} Anything else?", "stop", BOTH[:1], "ok"),
    "fence then prose": (f"```\n{BREAD}\n```\nOnly one lasts.", "stop", BOTH[:1], "ok"),
    "think block with braces": (
        f'<think>or {{"memories":[{{"text":"no"}}]}}</think>{BREAD}',
        "stop",
        BOTH[:1],
        "ok",
    ),
    "dangling think end": (f"that is it</think>\n{BREAD}", "stop", BOTH[:1], "ok"),
    "literal think in a fact": (
        '["Wrote <think>x</think>"]',
        "stop",
        ["Wrote <think>x</think>"],
        "ok",
    ),
    "top-level list of objects": (
        '[{"text":"Bakes bread"},{"text":"Has twins"}]',
        "stop",
        BOTH,
        "ok",
    ),
    "list of strings": ('{"memories":["Bakes bread","Has twins"]}', "stop", BOTH, "ok"),
    "fact key": ('{"facts":[{"fact":"Bakes bread"},{"text":"Has twins"}]}', "stop", BOTH, "ok"),
    "object where a list belongs": ('{"memories":{"text":"Bakes bread"}}', "stop", BOTH[:1], "ok"),
    "trailing comma": ('{"memories":[{"text":"Bakes bread"},]}', "stop", BOTH[:1], "ok"),
    "cut mid-string": (
        '{"memories":[{"text":"Bakes bread"},{"text":"Has tw',
        "length",
        BOTH[:1],
        "truncated",
    ),
    "refusal": ("Sorry, I would rather not do this.", "stop", None, "parse_error|refused"),
    "bad escape": (r'{"memories":["Keeps it in D:\work"]}', "stop", [r"Keeps it in D:\work"], "ok"),
    "item without text among good ones": (
        '{"memories":[{"text":"Bakes bread"},{"id":7},{"text":"Has twins"}]}',
        "stop",
        BOTH,
        "ok",
    ),
    "emoji and accents": ('["Läuft 🏃 in Łódź"]', "stop", ["Läuft 🏃 in Łódź"], "ok"),
    "blank text": ('{"memories":[{"text":"\\t"},{"text":"Bakes bread"}]}', "stop", BOTH[:1], "ok"),
    "null content": (None, "stop", None, "parse_error|refused"),
    # Of kinds that no other is like.
    "single quotes": ("{'memories': [{'text': 'Bakes bread'}]}", "stop", BOTH[:1], "ok"),
    "two objects in a row": (
        '{"memories":["Bakes bread"]}{"memories":["Has twins"]}',
        "stop",
        BOTH,
        "ok",
    ),
    "unclosed think": (f"<think>so {BREAD}", "stop", BOTH[:1], "ok"),
    "prose and a fence within a string": (
        '["Types ```x``` a lot"]',
        "stop",
        ["Types ```x``` a lot"],
        "ok",
    ),
    "lone surrogate and NUL": (
        r'["Bakes\ud800 bread\u0000"]',
        "stop",
        ["Bakes\ufffd bread\ufffd"],
        "ok",
    ),
    "echo of the prompt": ('["Brother Oskar moved to Tromsø"]', "stop", None, "parse_error"),
    "an error and an empty list": ('{"error":"x","memories":[]}', "stop", None, "parse_error"),
}


def recorded() -> dict[str, Case]:
    if not RECORDED.exists():
        return {}
    rows = map(json.loads, RECORDED.read_text(encoding="utf-8").splitlines())
    return {
        f"recorded: {row['name']}": (
            row["reply"],
            row["finish_reason"],
            row["expect"]["texts"],
            row["expect"]["status"],
        )
        for row in rows
    }


@pytest.mark.parametrize("case", [pytest.param(c, id=n) for n, c in (OWN | recorded()).items()])
def test_what_is_kept_of_a_reply(case: Case) -> None:
    reply, finish_reason, texts, status = case
    spec = ModelSpec(base_url="http://model.invalid/v1", model="m")
    model = ScriptedModel(lambda _, __: said(reply, finish_reason=finish_reason))
    worker = Worker(spec, model=model)
    try:
        turn = Turn(role="user", content="I bake bread and have twins.")
        (outcome,) = worker.run(ExtractStage(), [ExtractTask(turns=[turn])])
    finally:
        worker.close()
    assert outcome.status in status.split("|")
    assert len(model.requests) == 1
    assert (None if outcome.value is None else kept(outcome.value)) == texts


def kept(items: Any) -> list[str]:
    """The texts of the facts cell."""
    return [item["text"] for item in json.loads(encode_facts(items))["memories"]]


def test_every_recorded_kind_has_one_of_our_own() -> None:
    assert {name.removeprefix("recorded: ") for name in recorded()} <= set(OWN)
