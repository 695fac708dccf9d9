"""Equal keys mean that a reply may stand for another one."""

from types import MappingProxyType
from typing import Any

import pytest

from memorypipe.llm.journal.keys import journal_key

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "hi"}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}


def _key(**changes: Any) -> str:
    arguments: dict[str, Any] = {
        "endpoint": "https://host/v1",
        "model": "m",
        "params": {"temperature": 0, "logit_bias": {50256: -100}, "response_format": SCHEMA},
        "messages": [SYSTEM, USER],
        "repeat_key": None,
    }
    return journal_key(**{**arguments, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"endpoint": "https://other/v1"},
        {"model": "m2"},
        {"params": {"temperature": 0}},
        {"params": {"temperature": 0, "logit_bias": {50256: -100}, "response_format": None}},
        {"params": {"temperature": 0, "extra_body": {"top_k": 1}}},
        {"messages": [USER]},
        {"messages": [SYSTEM]},
        {"messages": [SYSTEM, SYSTEM, USER]},
        {"messages": [USER, SYSTEM]},
        {"messages": [SYSTEM, {"role": "assistant", "content": "hi"}]},
        {"messages": [{**SYSTEM, "name": "s"}, USER]},
        {"messages": [{**SYSTEM, "content": None}, USER]},
        {"messages": [{**SYSTEM, "content": [{"type": "text", "text": "Be brief."}]}, USER]},
        {"messages": [{**SYSTEM, "content": "Be briefer."}, USER]},
        {"messages": [SYSTEM, USER, USER]},
        {"repeat_key": "1"},
    ],
)
def test_whatever_can_change_the_reply_changes_the_key(changes: dict[str, Any]) -> None:
    assert _key(**changes) != _key()


def test_numbers_that_python_takes_for_equal_are_told_apart() -> None:
    keys = {_key(params={"temperature": value}) for value in (0, 0.0, False)}
    assert len(keys) == 3


def test_a_value_that_was_changed_in_place_changes_the_key() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    before = _key(params={"response_format": schema})
    schema["properties"]["text"] = {"type": "string"}
    assert _key(params={"response_format": schema}) != before


def test_what_cannot_change_the_reply_does_not_change_the_key() -> None:
    headers = {"Authorization": "Bearer s"}
    params = {
        "response_format": dict(reversed(SCHEMA.items())),
        "logit_bias": {50256: -100},
        "temperature": 0,
        "timeout": object(),
    }
    assert _key(params={**params, "extra_headers": headers}) == _key()
    messages = [MappingProxyType(dict(reversed(each.items()))) for each in (SYSTEM, USER)]
    assert _key(messages=messages) == _key()


def test_the_key_is_the_same_in_every_process() -> None:
    assert journal_key("e", "m", {"seed": 1}, [USER]) == "22e940e42449e4e33fd3bb7ef967388a"
