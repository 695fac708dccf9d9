"""Workers over scripted models, and the scripts that several tests of the worker use."""

from collections.abc import Callable
from dataclasses import replace

from memorypipe.errors import (
    RetryableModelError,
)
from memorypipe.llm.stage import Reading
from memorypipe.llm.types import Reply, Request
from memorypipe.llm.worker import Worker
from tests.support.scripted_model import ScriptedModel, WordStage, content, said

__all__ = ["BUSY", "HalfStage", "Start", "cut_long", "echo", "half_done"]

Start = Callable[..., tuple[Worker, ScriptedModel]]
BUSY = RetryableModelError("busy", "http_503", 0.0)


def echo(request: Request, _number: int) -> Reply:
    return said(content(request))


def cut_long(request: Request, _number: int) -> Reply:
    """Cut what is longer than two words."""
    words = content(request).split()
    return said(" ".join(words[:2]), finish_reason="length" if len(words) > 2 else "stop")


def half_done(request: Request, number: int) -> Reply:
    """Leave the task half done until it is told."""
    return said("all done") if "wrong" in str(content(request)) or number > 9 else said("half")


class HalfStage(WordStage):
    """A task is done only where the model says so; half of it is kept."""

    def read(self, task: str, reply: Reply) -> Reading[tuple[str, ...]]:
        reading = super().read(task, reply)
        if reply.content == "half":
            return replace(reading, status="incomplete", error="half is missing, that is wrong")
        return reading
