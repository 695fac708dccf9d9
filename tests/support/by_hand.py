"""Extraction and consolidation of one scope, without Ray: for tests of what models may do."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
import pyarrow as pa

from memorypipe.cells.facts import encode_facts
from memorypipe.cells.messages import parse_messages
from memorypipe.expressions.build_action import DecideStage, DecideWork
from memorypipe.expressions.extract import ExtractStage
from memorypipe.llm.replies.reply import ReadActions
from memorypipe.llm.stage import Outcome
from memorypipe.llm.types import ExtractTask, Model, Request
from memorypipe.pipeline.deciding import window_facts
from memorypipe.pipeline.extracted import EXTRACTED, facts_table
from memorypipe.pipeline.scope_feed import in_time
from memorypipe.pipeline.scopes.consolidate import ScopeResult, consolidate_scope
from memorypipe.pipeline.scopes.settings import ConsolidationSettings
from memorypipe.rank.lookup import Lookup
from memorypipe.rank.memory import Memory
from memorypipe.schema import WINDOWS

__all__ = ["Remembered", "fact_row", "message", "remember"]


@dataclass(frozen=True, kw_only=True)
class Remembered:
    """What came of conversations.

    Attributes:
        facts: Rows of `memorypipe.schema.FACTS`.
        result: The decisions.
        requests: What the model was asked, in order.
    """

    facts: list[dict[str, Any]]
    result: ScopeResult
    requests: list[Request]


def message(
    number: int, content: str, *, role: str = "user", day: int | None = 1
) -> dict[str, Any]:
    """A message with the id ``m<number>``, said on a day of January 2025."""
    said = None if day is None else datetime(2025, 1, day, 12, number % 60, tzinfo=UTC)
    return {"role": role, "content": content, "timestamp": said, "id": f"m{number}"}


def fact_row(
    messages: Sequence[dict[str, Any]], items: Sequence[dict[str, Any]] | None, *, place: int = 0
) -> dict[str, Any]:
    """A row of `memorypipe.schema.FACTS`, as the pipeline makes it of what was extracted."""
    times = [m["timestamp"] for m in messages if m["timestamp"] is not None]
    window = {
        "scope": [],
        "scope_key": "[]",
        "conversation_id": f"c{place}",
        "window_id": f"w{place}",
        "window_index": 0,
        "messages": [{"background": False, "name": None, **m} for m in messages],
        "context": None,
        "event_time": max(times, default=None),
    }
    cell = None if items is None else encode_facts(items)
    status: dict[str, Any] = {
        "value": cell,
        "status": "llm_error" if items is None else "ok",
        "error": None,
        "attempts": 1,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "latency_ms": 0.0,
        "cached": False,
        "repaired": 0,
        "dropped_items": 0,
        "model": "scripted",
        "prompt_hash": "0",
        "raw_reply": None,
    }
    row = pa.Table.from_pylist([window], schema=WINDOWS).to_pylist()[0]
    batch = pa.Table.from_pylist([{**row, EXTRACTED: status}])
    facts: dict[str, Any] = facts_table(batch).to_pylist()[0]
    return facts


def remember(
    conversations: Sequence[Sequence[dict[str, Any]]],
    model: Model,
    memories: Sequence[Memory] = (),
    **settings: Any,
) -> Remembered:
    """Have conversations of one scope extracted and decided by a model.

    Args:
        conversations: Messages as of `message`; one window each.
        model: Answers both kinds of request.
        memories: What is remembered before.
        **settings: Of `ConsolidationSettings`.
    """
    settings.setdefault("lookup", Lookup(strategy="all", max_memories=None))
    return asyncio.run(_remember(conversations, model, memories, ConsolidationSettings(**settings)))


async def _remember(
    conversations: Sequence[Sequence[dict[str, Any]]],
    model: Model,
    memories: Sequence[Memory],
    settings: ConsolidationSettings,
) -> Remembered:
    extract, judge = ExtractStage(), DecideStage()
    requests: list[Request] = []
    rows = []
    for place, messages in enumerate(conversations):
        task = ExtractTask(turns=parse_messages(messages, place))
        requests.append(extract.request(task))
        reading = extract.read(task, await model.complete(requests[-1]))
        rows.append(fact_row(messages, reading.value, place=place))

    async def decide(work: DecideWork) -> Outcome[ReadActions]:
        requests.append(judge.request(work))
        reading = judge.read(work, await model.complete(requests[-1]))
        return Outcome(value=reading.value, status=reading.status, error=reading.error)

    rows.sort(key=in_time)
    windows = [window_facts(place, row) for place, row in enumerate(rows)]
    result = await consolidate_scope("[]", windows, memories, decide=decide, settings=settings)
    for row in rows:
        row["items"] = orjson.loads(row["facts_json"] or '{"memories":[]}')["memories"]
    return Remembered(facts=rows, result=result, requests=requests)
