"""Whole runs over a log against a real table, without Ray: for what follows from many of them."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe import MemoryTable
from memorypipe.cells.facts import encode_facts
from memorypipe.cells.messages import parse_messages
from memorypipe.expressions.build_action import DecideStage, DecideWork
from memorypipe.expressions.extract import ExtractStage
from memorypipe.llm.offline import OfflineModel
from memorypipe.llm.replies.reply import ReadActions
from memorypipe.llm.stage import Outcome
from memorypipe.llm.types import ExtractTask
from memorypipe.logs.known import pack_keys
from memorypipe.logs.merge import merge_conversations
from memorypipe.logs.options import read_options
from memorypipe.logs.parse import parse_log
from memorypipe.logs.reading import Reading
from memorypipe.logs.records import Record
from memorypipe.logs.windows import windows_batch
from memorypipe.pipeline.deciding import window_facts
from memorypipe.pipeline.extracted import EXTRACTED, facts_table
from memorypipe.pipeline.plans.ledger import ledger_rows
from memorypipe.pipeline.runs.selection import Selection, select_conversations
from memorypipe.pipeline.scope_feed import in_time
from memorypipe.pipeline.scope_results import (
    SCOPE_RESULTS,
    actions_of,
    open_windows_of,
    result_row,
)
from memorypipe.pipeline.scopes.consolidate import consolidate_scope
from memorypipe.pipeline.scopes.retold import mark_retold
from memorypipe.pipeline.scopes.settings import ConsolidationSettings
from memorypipe.pipeline.stretches import by_window, in_stretches, in_turn
from memorypipe.rank.live import live_memories
from memorypipe.rank.lookup import Lookup
from memorypipe.schema import ACTIONS
from memorypipe.table.reprocess import Reprocess

__all__ = ["Run", "Runs", "read_rows"]

_SETTINGS = ConsolidationSettings(lookup=Lookup(strategy="all", max_memories=None))
_GOOD: dict[str, Any] = {
    "status": "ok",
    "error": None,
    "latency_ms": 0.0,
    "cached": False,
    "model": "rules",
    "prompt_hash": "0",
    "raw_reply": None,
    **dict.fromkeys(
        ("attempts", "prompt_tokens", "completion_tokens", "repaired", "dropped_items"), 0
    ),
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one run did.

    Attributes:
        sent: Ids of the messages that it paid for.
        opened: Reasons of the windows that it left open.
        events: The actions that were not NONE.
        decisions: Decisions that were asked for.
    """

    sent: list[str]
    opened: list[str]
    events: list[str]
    decisions: int


def read_rows(log: Sequence[dict[str, Any]]) -> pa.Table:
    """Read records of a log: schema `memorypipe.schema.CONVERSATIONS`."""
    reading = Reading(options=read_options(), limit=None, put=lambda table: table)
    records = [Record(source="log", line=n, value=value) for n, value in enumerate(log)]
    parsed = parse_log(records, reading.options)
    assert parsed is not None
    reading.take(parsed)
    return merge_conversations(pa.concat_tables(reading.finish()))


@dataclass
class Runs:
    """Runs over logs, one after the other, decided by the rules of the package.

    Attributes:
        folder: Of the table.
        is_down: Whether the endpoint is down when the n-th decision of a run is asked for.
    """

    folder: Path
    is_down: Callable[[int], bool] = lambda _n: False
    runs: list[Run] = field(default_factory=list)

    @property
    def table(self) -> MemoryTable:
        return MemoryTable.open(self.folder, backend="parquet", embedder="none")

    def memories(self) -> set[tuple[str, str, Any]]:
        """The live memories: scope, text, and when it was said."""
        rows = self.table.to_arrow(columns=["scope_key", "text", "event_time"]).to_pylist()
        found = [(row["scope_key"], row["text"], row["event_time"]) for row in rows]
        assert len(found) == len(set(found)), "nothing is there twice"
        return set(found)

    def run(
        self,
        log: Sequence[dict[str, Any]],
        *,
        selection: Selection | None = None,
        reprocess: Reprocess | None = None,
        window_tokens: int = 2_000,
    ) -> Run:
        """Run over a log, and commit what was decided."""
        table = self.table
        known = pack_keys(table.ledger_keys(reprocess=reprocess).to_pylist())
        rows = select_conversations(read_rows(log), selection or Selection())
        windows = windows_batch(rows, window_tokens=window_tokens, known_keys=known)
        done = asyncio.run(self._work(table, windows, is_again=reprocess is not None))
        self.runs.append(done)
        return done

    async def _work(self, table: MemoryTable, windows: pa.Table, *, is_again: bool) -> Run:
        facts = await _extract(windows)
        if is_again:
            facts = mark_retold(facts, table.read_said(pc.unique(facts["scope_key"]).to_pylist()))
        decider = _Decider(self.is_down)
        by_scope: dict[str, list[dict[str, Any]]] = {}
        for row in facts.to_pylist():
            by_scope.setdefault(row["scope_key"], []).append(row)
        known = live_memories(table, list(by_scope))
        results = []
        for key, rows in sorted(by_scope.items()):
            rows.sort(key=in_time)
            own = in_stretches([window_facts(place, row) for place, row in enumerate(rows)])
            made = await consolidate_scope(
                key, in_turn(own), known.get(key, []), decide=decider.decide, settings=_SETTINGS
            )
            names = {row["window_id"]: row["conversation_id"] for row in rows}
            result = by_window(made, own)
            results.append(result_row(names, rows[0], result, model="rules", prompt_hash="0"))
        decided = pa.Table.from_pylist(results, schema=SCOPE_RESULTS)
        actions, opened = actions_of(decided), open_windows_of(decided)
        ledger = ledger_rows(facts, opened["window_id"])
        committed = table.commit(
            actions.select(ACTIONS.names),
            run_id=f"run-{len(self.runs)}",
            base_version=table.version,
            ledger=ledger,
            max_retired=None,
        )
        assert not committed.held_back
        return Run(
            sent=[each for row in facts["message_ids"].to_pylist() for each in row],
            opened=opened["reason"].to_pylist(),
            events=[event for event in actions["event"].to_pylist() if event != "NONE"],
            decisions=decider.asked,
        )


async def _extract(windows: pa.Table) -> pa.Table:
    stage, model = ExtractStage(), OfflineModel()
    status = []
    for place, messages in enumerate(windows["messages"].to_pylist()):
        task = ExtractTask(turns=parse_messages(messages, place))
        reading = stage.read(task, await model.complete(stage.request(task)))
        status.append({**_GOOD, "value": encode_facts(reading.value or [])})
    rows = [{**row, EXTRACTED: each} for row, each in zip(windows.to_pylist(), status, strict=True)]
    schema = windows.schema.append(pa.field(EXTRACTED, _status_type()))
    return facts_table(pa.Table.from_pylist(rows, schema=schema))


def _status_type() -> pa.DataType:
    kinds = {"repaired": pa.int32(), "dropped_items": pa.int32(), "error": pa.string()}
    named = {**_GOOD, "value": "", "raw_reply": "", "error": ""}
    return pa.struct(
        [(name, kinds.get(name) or pa.scalar(value).type) for name, value in named.items()]
    )


class _Decider:
    """Makes decisions, and counts how many were asked for."""

    def __init__(self, is_down: Callable[[int], bool]) -> None:
        self._is_down = is_down
        self.asked = 0

    async def decide(self, work: DecideWork) -> Outcome[ReadActions]:
        self.asked += 1
        if self._is_down(self.asked):
            return Outcome(value=None, status="llm_error", error="RetryableModelError: it is down")
        stage = DecideStage()
        reading = stage.read(work, await OfflineModel().complete(stage.request(work)))
        return Outcome(value=reading.value, status=reading.status, error=reading.error)
