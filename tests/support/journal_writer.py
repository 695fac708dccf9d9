"""Kills writers of a journal at chosen moments; one process, as starting many takes long.

Reads lines ``NAME COUNT [compact]``: forks a writer, and with it a compaction that runs over and
over; kills both once COUNT replies were put; prints the keys that were put, on one line.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from memorypipe.llm.journal.local import LocalJournal
from memorypipe.llm.journal.open import compact_journal
from memorypipe.llm.journal.types import JournalSettings
from memorypipe.llm.types import Reply


async def write(folder: str, name: int, told: int) -> None:
    """Put replies; segments are small, so that kills meet rotations and indexes too."""
    settings = JournalSettings(segment_bytes=20_000, index_from_bytes=1)
    journal = LocalJournal(Path(folder), settings=settings)
    number = 0
    while True:
        key = f"{name << 32 | number:032x}"[::-1]
        await journal.put(key, Reply(content="x" * 300), usable=True)
        os.write(told, f"{key}\n".encode())
        number += 1


def compact(folder: str) -> None:
    """Compact until killed."""
    while True:
        compact_journal(folder, settings=JournalSettings(compacted_bytes=200_000))


def start(work: Callable[[], None]) -> int:
    """Do work in a child process."""
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(1)
    return child


def killed(folder: str, name: int, count: int, *, beside: bool) -> list[str]:
    """Run a writer until it has put so many; gives all that it told."""
    reads, writes = os.pipe()
    children = [start(lambda: asyncio.run(write(folder, name, writes)))]
    if beside:
        children.append(start(lambda: compact(folder)))
    os.close(writes)
    with open(reads) as told:  # noqa: PTH123  # a descriptor
        keys = [told.readline() for _ in range(count)]
        for child in reversed(children):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        keys += told.readlines()
    return [key.strip() for key in keys]


if __name__ == "__main__":
    for line in sys.stdin:
        words = line.split()
        put = killed(sys.argv[1], int(words[0]), int(words[1]), beside="compact" in words)
        sys.stdout.write(" ".join(put) + "\n")
        sys.stdout.flush()
