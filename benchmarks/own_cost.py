"""What does a row cost in this library, apart from its request?

    python benchmarks/own_cost.py [--rows 3000] [--turns 10]

Rows of `--turns` turns go through one `MemoryExtract` worker whose model answers at once and in
process, once without a journal and once with one on disk. `whole_ms_per_row` is the CPU time of
everything: reading the cell, the prompt, the key, the journal, the reply, limits, metrics, the
event loop, and the Arrow column. `parts_us_per_row` are the pieces of work on their own; those of
`data_work` (prompt building, hashing, journalling, JSON and Arrow conversion) have a target.

CPU time, the least of five rounds; no randomness. Prints one JSON object.
"""

import argparse
import asyncio
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import common  # the checkout comes first
from memorypipe import MemoryExtract
from memorypipe.cells.facts import encode_facts
from memorypipe.cells.messages import parse_messages
from memorypipe.llm.journal.keys import journal_key
from memorypipe.llm.journal.local import LocalJournal
from memorypipe.llm.replies.reply import read_facts
from memorypipe.llm.types import Reply, Request
from memorypipe.llm.worker import Worker, close_workers
from memorypipe.llm.worker import _workers as workers
from memorypipe.prompts.extract import EXTRACT_RESPONSE_FORMAT, extract_messages

CONTEXT = "Date: 2025-01-01"
REPLY = Reply(
    content='{"memories":[{"text":"Bought a piano"}]}', prompt_tokens=100, completion_tokens=20
)
ROUNDS = 5
# Work on the data of a row; the rest is scheduling, limits and counting.
DATA_WORK = ("read_cell", "prompt", "key", "journal_get", "journal_put", "reply", "cell", "arrow")


class InProcessModel:
    """Answers at once."""

    async def complete(self, request: Request) -> Reply:  # noqa: ARG002  # part of the protocol
        """Give the same reply to everything."""
        return REPLY

    async def refresh_key(self) -> None:
        """Do nothing: there is no key."""

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


def transcripts(rows: int, turns: int) -> list[str]:
    """Make transcripts that differ."""
    return [
        "\n".join(
            f"[{('user', 'assistant')[turn % 2]}]: message {turn} about the piano that I bought in "
            f"the shop last week, and how it sounds in room {row}"
            for turn in range(turns)
        )
        for row in range(rows)
    ]


def whole_ms(cells: list[str], journal: str | None) -> float:
    """Measure the CPU time per row of a worker over all cells."""
    expression = MemoryExtract(base_url="http://127.0.0.1:1/v1", model="test", journal=journal)
    worker = Worker(expression.spec, model=InProcessModel())
    workers[expression.spec.key()] = worker
    try:
        expression(cells[:64], [CONTEXT] * 64)
        started_s = time.process_time()
        expression(cells, [CONTEXT] * len(cells))
        return (time.process_time() - started_s) / len(cells) * 1e3
    finally:
        close_workers()


def done(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waited")


def parts_us(cells: list[str], folder: Path) -> dict[str, float]:
    """Measure the CPU time per row of each piece of work."""
    turns = [parse_messages(cell, 0) for cell in cells]
    messages = [extract_messages(turn, context=CONTEXT) for turn in turns]
    params = {"temperature": 0, "response_format": EXTRACT_RESPONSE_FORMAT}
    keys = [journal_key("e", "m", params, each) for each in messages]
    items = read_facts(REPLY.content, finish_reason="stop").items
    texts = [encode_facts(items) for _ in cells]
    journal = LocalJournal(folder)

    def each(work: Callable[[int], Any]) -> float:
        numbers = range(len(cells))
        least = min(
            timeit.repeat(
                lambda: [work(number) for number in numbers],
                timer=time.process_time,
                number=1,
                repeat=ROUNDS,
            )
        )
        return round(least / len(cells) * 1e6, 1)

    try:
        return {
            "read_cell": each(lambda n: parse_messages(cells[n], 0)),
            "prompt": each(lambda n: extract_messages(turns[n], context=CONTEXT)),
            "key": each(lambda n: journal_key("e", "m", params, messages[n])),
            "journal_get": each(lambda n: done(journal.get(f"{n:032x}", unusable=True))),
            "journal_put": each(lambda n: done(journal.put(keys[n], REPLY, usable=True))),
            "reply": each(lambda _: read_facts(REPLY.content, finish_reason="stop")),
            "cell": each(lambda _: encode_facts(items)),
            "arrow": each(lambda n: pa.array(texts, pa.string()) if n == 0 else None),
            "task_of_the_loop": asyncio.run(task_us(len(cells))),
        }
    finally:
        journal.close()


async def task_us(rows: int) -> float:
    """Measure what the event loop takes for one task of its own, which a journalled row has."""

    async def nothing() -> None:
        return None

    started_s = time.process_time()
    for _ in range(rows):
        await asyncio.shield(asyncio.ensure_future(nothing()))
    return round((time.process_time() - started_s) / rows * 1e6, 1)


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=3_000)
    parser.add_argument("--turns", type=int, default=10)
    options = parser.parse_args()
    cells = transcripts(options.rows, options.turns)
    whole: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("without_journal", "with_journal"):
            rounds = [
                whole_ms(cells, None if name == "without_journal" else f"{folder}/{number}")
                for number in range(ROUNDS)
            ]
            whole[name] = round(min(rounds), 3)
        parts = parts_us(cells, Path(folder) / "parts")
    data_work_ms = round(sum(parts[name] for name in DATA_WORK) / 1e3, 3)
    common.finish(
        {
            "rows": options.rows,
            "turns": options.turns,
            "whole_ms_per_row": whole,
            "parts_us_per_row": parts,
            "data_work_ms_per_row": data_work_ms,
            "machine": common.machine("orjson", "pyarrow"),
        },
        {"data_work_ms_per_row": common.Target(value=data_work_ms, at_most=0.25)},
    )


if __name__ == "__main__":
    main()
