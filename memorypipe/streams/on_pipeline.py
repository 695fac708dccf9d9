"""Generations by a `MemoryPipeline`: what is due becomes conversations of one run, on Ray."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from memorypipe.errors import InvalidArgumentError
from memorypipe.logs.read import ConversationLog
from memorypipe.pipeline.pipeline import MemoryPipeline
from memorypipe.pipeline.plans.plan import Plan
from memorypipe.pipeline.runs.folder import RunFolder
from memorypipe.pipeline.scopes.carrying import Carried, Carry
from memorypipe.schema import CONVERSATIONS
from memorypipe.streams.generation import Generated, Generation, MadeMemory, StreamBatch
from memorypipe.streams.request import Request
from memorypipe.table.table import MemoryTable
from memorypipe.table.times import read_clock

__all__ = ["PipelineGenerate", "conversations_table", "redacting"]

_Place = tuple[str, str]  # scope key and conversation id
_COLUMNS = ("scope_key", "memory_id", "text", "revision", "run_id", "conversation_id")


class PipelineGenerate:
    """Makes the memories of a generation with a pipeline.

    Args:
        pipeline: The pipeline.
    """

    def __init__(self, pipeline: MemoryPipeline) -> None:
        self._pipeline = pipeline

    def __call__(self, generation: Generation) -> Mapping[bytes, Generated]:
        """Plan and apply, unless that run is in the table; say what came of each stream."""
        run_id = generation.run_id
        if not self._is_committed(run_id):
            self._run(generation)
        made = self._made(run_id, {batch.scope_key for batch in generation.batches})
        open_places, held_back = self._left(run_id)
        found: dict[bytes, Generated] = {}
        for batch in generation.batches:
            place = (batch.scope_key, batch.stream_id)
            why = held_back.get(batch.scope_key) or open_places.get(place)
            found[batch.key] = Generated(error=why, memories=tuple(made.get(place, ())))
        return found

    def _is_committed(self, run_id: str) -> bool:
        uri = self._pipeline.table_uri
        if not MemoryTable.exists(uri):
            return False
        table = MemoryTable.open(uri, create=False)
        return run_id in table.runs()["run_id"].to_pylist()

    def _run(self, generation: Generation) -> None:
        now = read_clock(self._pipeline.clock)
        plan = self._pipeline.plan(
            _log(generation, is_redacted=self._pipeline.redact is not None),
            run_id=generation.run_id,
            carried=_carried(generation, now),
            has_revisions=generation.has_revisions,
        )
        self._pipeline.apply(plan)

    def _left(self, run_id: str) -> tuple[dict[_Place, str], dict[str, str]]:
        """Give why conversations stay open, and why scopes were held back."""
        plan = Plan(self._pipeline.table_uri, run_id)
        open_places = {
            (row["scope_key"], row["conversation_id"]): str(row["reason"])
            for row in plan.open_windows().to_pylist()
        }
        return open_places, dict(plan.summary().held_back)

    def _made(self, run_id: str, scope_keys: set[str]) -> dict[_Place, list[MadeMemory]]:
        """Read out of the table what a run made and changed, by conversation."""
        uri = self._pipeline.table_uri
        made: dict[_Place, list[MadeMemory]] = {}
        if not MemoryTable.exists(uri):
            return made
        table = MemoryTable.open(uri, create=False)
        rows = table.read_scopes(sorted(scope_keys), _COLUMNS).to_pylist()
        for row in sorted(rows, key=lambda row: row["memory_id"]):
            if row["run_id"] == run_id:
                place = (row["scope_key"], row["conversation_id"])
                made.setdefault(place, []).append(_memory(row))
        for place, memory in self._deleted(table, run_id):
            made.setdefault(place, []).append(memory)
        return made

    def _deleted(self, table: MemoryTable, run_id: str) -> list[tuple[_Place, MadeMemory]]:
        """Find what the run deleted: the table's live rows do not tell."""
        folder = RunFolder.of(self._pipeline.table_uri, run_id)
        actions = folder.read_table("actions").to_pylist()
        found: list[tuple[_Place, MadeMemory]] = []
        for memory_id in dict.fromkeys(a["memory_id"] for a in actions if a["event"] == "DELETE"):
            for row in table.history(memory_id).to_pylist():
                if row["run_id"] == run_id and row["deleted"]:
                    place = (row["scope_key"], row["conversation_id"])
                    found.append((place, _memory(row, is_deleted=True)))
        return found


def _memory(row: Mapping[str, Any], *, is_deleted: bool = False) -> MadeMemory:
    revision = row["revision"]
    is_new = revision == 1
    return MadeMemory(
        action="DELETED" if is_deleted else "CREATED" if is_new else "UPDATED",
        memory_id=row["memory_id"],
        text=row["text"],
        revision=revision,
        previous_revision=None if is_new else revision - 1,
    )


def conversations_table(generation: Generation) -> pa.Table:
    """Lay what is due out as conversations, one per stream: schema `CONVERSATIONS`."""
    return pa.Table.from_pylist([_row(batch) for batch in generation.batches], CONVERSATIONS)


def _row(batch: StreamBatch) -> dict[str, Any]:
    messages = [*batch.overlap, *batch.messages]
    times = [message["timestamp"] for message in batch.messages if message["timestamp"]]
    return {
        "scope": sorted(batch.scope.items()),
        "scope_key": batch.scope_key,
        "conversation_id": batch.stream_id,
        "messages": messages,
        "event_time": max(times, default=None),
    }


def _log(generation: Generation, *, is_redacted: bool) -> ConversationLog:
    table = conversations_table(generation)
    return ConversationLog(
        source=table,
        rejects=(),
        format="none",
        conversations=table.num_rows,
        turns=sum(len(batch.messages) for batch in generation.batches),
        empty=0,
        naive_times=0,
        unreadable_times=0,
        repaired=0,
        is_redacted=is_redacted,
    )


def _carried(generation: Generation, now: datetime) -> Carried:
    return Carried(
        by_conversation={
            (batch.scope_key, batch.stream_id): _carry(batch.config, now)
            for batch in generation.batches
        },
        overlap_messages=max((len(batch.overlap) for batch in generation.batches), default=0),
    )


def _carry(config: Mapping[str, Any], now: datetime) -> Carry:
    expires = config.get("expire_time")
    expires_at = None if expires is None else datetime.fromisoformat(expires)
    if (ttl_s := config.get("ttl_s")) is not None:
        expires_at = now + timedelta(seconds=ttl_s)
    return Carry(
        metadata=config.get("metadata"),
        strategy=config.get("strategy", "OVERWRITE"),
        labels=config.get("labels"),
        revision_expires_at=expires_at,
    )


def redacting(pipeline: MemoryPipeline) -> Callable[[Request], Request] | None:
    """Give what redacts a request as the pipeline redacts logs; None where it does not."""
    redact = pipeline.redact
    if redact is None:
        return None

    def redacted(request: Request) -> Request:
        texts = [event.content for event in request.events]
        seen = list(redact(texts)) if texts else []
        if len(seen) != len(texts) or not all(isinstance(text, str) for text in seen):
            raise InvalidArgumentError(
                f"redact must give a list of {len(texts)} texts, got {len(seen)}; nothing was "
                "stored."
            )
        events = [
            replace(event, content=text) for event, text in zip(request.events, seen, strict=True)
        ]
        return replace(request, events=tuple(events))

    return redacted
