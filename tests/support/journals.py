"""Journals for tests: the synchronous view of a handle, and replies to put into it."""

from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from memorypipe.llm.journal.local import LocalJournal
from memorypipe.llm.journal.types import Journal, JournalSettings
from memorypipe.llm.types import Reply

__all__ = ["KEYS", "REPLY", "Clock", "fill", "finish", "get", "local", "put"]

T = TypeVar("T")

KEYS = [f"{number * 0x1234567890ABCDEF:032x}" for number in range(1, 65)]
REPLY = Reply(
    content='{"memories": [{"text": "Grüße 🎹\\n"}]}',
    finish_reason="stop",
    prompt_tokens=12,
    completion_tokens=5,
    latency_ms=20.5,
    model="m-1",
)


class Clock:
    """A clock that stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing, as those of a local journal do."""
    try:
        work.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    work.close()
    raise AssertionError("it waits for something: use a loop")


def get(journal: Journal, key: str) -> Reply | None:
    return finish(journal.get(key))


def put(
    journal: Journal,
    key: str,
    reply: Reply = REPLY,
    *,
    usable: bool = True,
    scope_key: str | None = None,
) -> None:
    finish(journal.put(key, reply, usable=usable, scope_key=scope_key))


def local(
    folder: Path, *, writer_id: str = "w", clock: Clock | None = None, **settings: Any
) -> LocalJournal:
    """Open a local journal that indexes every segment, unless told otherwise."""
    chosen = JournalSettings(**{"index_from_bytes": 1, **settings})
    clock = clock or Clock()
    return LocalJournal(folder, writer_id=writer_id, settings=chosen, now=clock, clock=clock)


def fill(folder: Path, keys: list[str], reply: Reply = REPLY, **settings: Any) -> Path:
    """Write replies through a handle of their own; gives its segment."""
    before = set(folder.glob("*.jsonl"))
    journal = local(folder, **settings)
    for key in keys:
        put(journal, key, reply)
    journal.close()
    (made,) = set(folder.glob("*.jsonl")) - before
    return made
