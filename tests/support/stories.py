"""Facts said one a message to a model that decides them by a script."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from memorypipe.llm.types import DecideTask, ExtractTask, Reply, Request
from memorypipe.rank.memory import Memory
from tests.support.by_hand import Remembered, message, remember
from tests.support.scripted_model import ScriptedModel, said

__all__ = ["Decides", "Decision", "decision", "events", "story"]

Decision = Mapping[str, Any]
Decides = Callable[[DecideTask], list[Decision]]


def decision(fact: int, event: str, target: str | None = None, text: str | None = None) -> Decision:
    return {"fact": fact, "event": event, "target_id": target, "text": text, "rationale": "r"}


def story(
    *facts: str, decides: Decides, memories: tuple[str, ...] = (), **settings: Any
) -> Remembered:
    """Facts said one a message, in order, and a model that decides them by a script."""

    def answer(request: Request, _: int) -> Reply:
        if isinstance(request.task, DecideTask):
            return said(json.dumps({"actions": decides(request.task)}))
        assert isinstance(request.task, ExtractTask)
        items = [
            {"text": turn.content, "sources": [n]}
            for n, turn in enumerate(request.task.turns, start=1)
        ]
        return said(json.dumps({"memories": items}))

    messages = [message(n, text) for n, text in enumerate(facts, start=1)]
    known = [Memory(id=f"mem_{n}", text=text) for n, text in enumerate(memories)]
    return remember([messages], ScriptedModel(answer), known, **settings)


def events(remembered: Remembered) -> list[tuple[str, str]]:
    return [(action.event, action.text) for action in remembered.result.actions]
