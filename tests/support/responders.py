"""What the fake endpoint says: functions from a request's JSON to a message's content.

They read the requests of this package and nothing else, and know nothing about language.
"""

import re
from collections.abc import Mapping
from typing import Any

import orjson

__all__ = ["answer", "answer_half", "decide", "echo", "extract", "prose"]

_SECTION = r"<{name}-(?P<mark>[0-9a-f]+)>\n(?P<text>.*)\n</{name}-(?P=mark)>"
_TRANSCRIPT = re.compile(_SECTION.format(name="transcript"), re.DOTALL)
_FACTS = re.compile(_SECTION.format(name="facts"), re.DOTALL)
_USER_TURN = re.compile(
    r"^(?:#(?P<number>\d+) )?\[user(?P<who>[^\]]*)\](?: \w{3} [\d-]{10} [\d:]{5})?: "
    r"(?P<text>.*(?:\n  .*)*)",
    re.MULTILINE,
)


def answer(body: Mapping[str, Any]) -> str:
    """One fact per user turn, or ADD per fact, whichever the request asks for."""
    return decide(body) if _section(body, _FACTS) is not None else extract(body)


def answer_half(body: Mapping[str, Any]) -> str:
    """As `answer`, with a fact for every second user turn only."""
    if _section(body, _FACTS) is not None:
        return decide(body)
    return orjson.dumps({"memories": orjson.loads(extract(body))["memories"][::2]}).decode()


def extract(body: Mapping[str, Any]) -> str:
    """One fact per user turn of the transcript, its text unchanged, background left out."""
    turns = _USER_TURN.finditer(_section(body, _TRANSCRIPT) or echo(body))
    memories = [_memory(turn) for turn in turns if "background" not in turn["who"]]
    return orjson.dumps({"memories": memories}).decode()


def decide(body: Mapping[str, Any]) -> str:
    """ADD for every fact."""
    lines = (_section(body, _FACTS) or "").splitlines()
    facts = [orjson.loads(line) for line in lines if line.startswith("{")]
    actions = [
        {"fact": fact["fact"], "event": "ADD", "target_id": None, "text": fact["text"]}
        for fact in facts
    ]
    return orjson.dumps({"actions": actions}).decode()


def echo(body: Mapping[str, Any]) -> str:
    """The last message, unchanged."""
    return str(body["messages"][-1]["content"])


def prose(_body: Mapping[str, Any]) -> str:
    """No JSON at all."""
    return "I am sorry, here is what I found: nothing structured."


def _memory(turn: re.Match[str]) -> dict[str, Any]:
    memory: dict[str, Any] = {"text": " ".join(turn["text"].split())}
    if turn["number"]:
        memory["sources"] = [int(turn["number"])]
    return memory


def _section(body: Mapping[str, Any], pattern: re.Pattern[str]) -> str | None:
    """Find a section in the messages; a correction adds messages after the one that has it."""
    for message in reversed(body["messages"]):
        if message["role"] == "user" and (found := pattern.search(str(message["content"]))):
            return found["text"]
    return None
