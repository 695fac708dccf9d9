"""A log whose every fact is known, and a model that reads it rightly."""

import random
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pyarrow as pa

from memorypipe import ids
from memorypipe.llm.types import DecideTask, ExtractTask, Reply, Request
from memorypipe.schema import CONVERSATIONS

__all__ = ["FIRST_DAY", "NAMES", "SlotModel", "conversations", "name_in", "sentence"]

NAMES = ("Adaline", "Benoit", "Cydnie")

FIRST_DAY = datetime(2024, 6, 1, tzinfo=UTC)
_FACT = re.compile(r"^(?P<name>\w+)(?:'s (?P<slot>\w+) is (?P<value>.+)| has no (?P<gone>\w+) any)")
_NAME = re.compile("|".join(NAMES))

# Slot → what goes with it; texts of two slots have few words in common.
_SLOTS = {
    "piano": "kept beside that northern window upstairs",
    "ferry": "leaving every weekday before sunrise",
    "allergy": "noted down by two doctors independently",
    "garden": "sloping towards an abandoned railway",
    "choir": "rehearsing whenever it rains outside",
    "bicycle": "painted over three times already",
    "recipe": "handed down through four generations",
}
_MAKERS = ("Kestrel", "Heron", "Plover", "Merlin", "Osprey")


def name_in(text: str) -> set[str]:
    """The people that a text names."""
    return set(_NAME.findall(text))


class SlotModel:
    """Takes every sentence of a user for a fact, and a fact of the same slot for its successor."""

    async def complete(self, request: Request) -> Reply:
        task = request.task
        if isinstance(task, ExtractTask):
            said: dict[str, Any] = {"memories": _facts(task)}
        else:
            assert isinstance(task, DecideTask)
            said = {"actions": _decisions(task)}
        return Reply(content=orjson.dumps(said).decode(), prompt_tokens=9, completion_tokens=9)

    async def refresh_key(self) -> None:
        return

    async def close(self) -> None:
        return


def _facts(task: ExtractTask) -> list[dict[str, Any]]:
    return [
        {"text": turn.content, "sources": [number]}
        for number, turn in enumerate(task.turns, start=1)
        if turn.role == "user" and not turn.background
    ]


def _slot(text: str) -> str | None:
    found = _FACT.match(text)
    return None if found is None else found["slot"] or found["gone"]


def _decisions(task: DecideTask) -> list[dict[str, Any]]:
    held = {_slot(memory.text): (n, memory.text) for n, memory in enumerate(task.existing)}
    decided = []
    for number, fact in enumerate(task.facts):
        place, old = held.get(_slot(fact.text), (None, None))
        event, text = "ADD", fact.text
        if old is not None:
            event = "NONE" if old == fact.text else "UPDATE"
        if " has no " in fact.text:
            event, text = ("NONE" if old is None else "DELETE"), ""
        target = str(place) if event in {"UPDATE", "DELETE"} else None
        reason = "so it is"
        decided.append(
            {"fact": number, "event": event, "target_id": target, "text": text, "rationale": reason}
        )
    return decided


def sentence(name: str, slot: str, rng: random.Random) -> str:
    """Say what somebody's piano, say, is."""
    return f"{name}'s {slot} is {rng.choice(_MAKERS)} {rng.randrange(10, 99)}, {_SLOTS[slot]}"


def conversations(names: Sequence[str], rng: random.Random) -> pa.Table:
    """Two conversations per person; what was said may be said again, changed or taken back."""
    rows = []
    for name in names:
        said: list[str] = []
        rows += [_conversation(name, number, said, rng) for number in range(2)]
    return pa.Table.from_pylist(rows, schema=CONVERSATIONS)


def _conversation(name: str, number: int, said: list[str], rng: random.Random) -> dict[str, Any]:
    scope, conversation_id = {"user_id": name}, f"{name}-c{number}"
    start = FIRST_DAY + timedelta(days=10 * number + 1)
    messages = []
    for n in range(5):
        slot = rng.choice(list(_SLOTS))
        text = sentence(name, slot, rng)
        dice = rng.random()
        if dice < 0.15:
            text = f"{name} has no {slot} any more, {_SLOTS[slot]}"
        elif dice < 0.25 and said:
            text = rng.choice(said)
        said.append(text)
        for role, content in (("user", text), ("assistant", "Noted.")):
            messages.append(
                {
                    "role": role,
                    "name": None,
                    "content": content,
                    "timestamp": start + timedelta(hours=n),
                    "id": f"{conversation_id}-{n}-{role}",
                    "background": None,
                }
            )
    return {
        "scope": list(scope.items()),
        "scope_key": ids.scope_key(scope),
        "conversation_id": conversation_id,
        "messages": messages,
        "event_time": start,
    }
