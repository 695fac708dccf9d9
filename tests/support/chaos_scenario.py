"""Runs over a log whose every fact is known, with a model that chaos wraps, and without Ray.

They go through the code of the pipeline: windows, `MemoryExtract`, a worker with its retries
and its journal, `consolidate_scope`, plan tables, commit. Only Ray's part, to hand blocks around,
is left out; waiting takes no time.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from memorypipe import ids
from memorypipe.expressions.build_action import DecideWork, MemoryBuildAction
from memorypipe.expressions.extract import MemoryExtract
from memorypipe.expressions.results import status_column
from memorypipe.llm.replies.reply import ReadActions
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.stage import Outcome
from memorypipe.llm.types import DecideTask
from memorypipe.llm.worker import Worker, all_or_none, close_workers, share_worker
from memorypipe.logs.known import pack_keys
from memorypipe.logs.windows import windows_batch
from memorypipe.pipeline import deciding, scope_results
from memorypipe.pipeline.committing import commit_plan
from memorypipe.pipeline.extracted import EXTRACTED, facts_table
from memorypipe.pipeline.plans.ledger import ledger_rows
from memorypipe.pipeline.scope_feed import in_time
from memorypipe.pipeline.scopes.consolidate import ScopeResult, WindowFacts, consolidate_scope
from memorypipe.pipeline.scopes.settings import ConsolidationSettings
from memorypipe.rank.live import live_memories
from memorypipe.rank.lookup import Lookup
from memorypipe.rank.memory import Memory
from memorypipe.table.records import Head
from memorypipe.table.table import MemoryTable
from memorypipe.table.transaction import CommitResult
from tests.support.chaos_log import FIRST_DAY, NAMES, SlotModel, conversations, sentence
from tests.support.chaos_model import FAULTS, ChaosModel
from tests.support.chaos_wire import FastLoop, Wire
from tests.support.memory_storage import MemoryStorage
from tests.support.table_actions import SteppingClock, actions, add, delete, minted
from tests.support.virtual_time import VirtualTimeLoop

__all__ = ["MAX_RETRIES", "Asked", "RunRecord", "Scenario"]

MAX_RETRIES = 3


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One decision call.

    Attributes:
        scope_key: Whose facts it was about.
        requests: How many requests were sent for it.
        outcome: What came of it.
    """

    scope_key: str
    requests: int
    outcome: Outcome[ReadActions]


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """One run, looked at from all sides.

    Attributes:
        number: Of the run, from 0.
        windows: Schema `memorypipe.schema.WINDOWS`.
        facts: Schema `memorypipe.schema.FACTS`.
        before: Live memories by scope key, when it began.
        read: The windows as consolidation saw them, by scope key.
        results: What consolidation gave, by scope key.
        asked: The decision calls.
        commit: The commit's result; None where there was nothing to commit.
        after: Live memories by scope key, when it ended.
    """

    number: int
    windows: pa.Table
    facts: pa.Table
    before: Mapping[str, Sequence[Memory]]
    read: Mapping[str, Sequence[WindowFacts]]
    results: Mapping[str, ScopeResult]
    asked: Sequence[Asked]
    commit: CommitResult | None
    after: Mapping[str, Sequence[Memory]]

    @property
    def open_windows(self) -> dict[str, str]:
        """Every window that the next run takes up, with the reason."""
        return {
            w: why for result in self.results.values() for w, why in result.open_windows.items()
        }


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One seed: a log, a table with memories, and a model that chaos wraps.

    Attributes:
        seed: Decides what is in the log, and which faults come when.
        folder: Holds the ledger, the table of every fourth seed, and the journal of every other.
        model: The model that the runs ask.
        conversations: Schema `memorypipe.schema.CONVERSATIONS`.
        scope_keys: Name → scope key.
        runs: So far.
        wire: The server through which the model is asked; None asks it directly.
    """

    seed: int
    folder: Path
    model: ChaosModel
    conversations: pa.Table
    table: MemoryTable
    scope_keys: Mapping[str, str]
    runs: list[RunRecord] = field(default_factory=list)
    wire: Wire | None = None

    @classmethod
    def make(  # noqa: PLR0913  # each is one thing that a test turns
        cls,
        seed: int,
        rate: float,
        folder: Path,
        *,
        faults: Sequence[str] = FAULTS,
        names: Sequence[str] = NAMES,
        chaos: type[ChaosModel] = ChaosModel,
    ) -> "Scenario":
        """Write the log of some people and fill the table; for the rest see `ChaosModel`."""
        rng = random.Random(f"log {seed}")  # noqa: S311  # no secret
        table = _table(folder / "table", on_disk=seed % 4 == 0)
        known, gone = [], []
        for name in names:
            scope, lost = {"user_id": name}, f"{name}'s lighthouse is sold"
            texts = [sentence(name, slot, rng) for slot in ("piano", "choir")]
            known += [add(text, scope=scope, event_time=FIRST_DAY) for text in (*texts, lost)]
            gone.append(delete(minted(lost, scope), scope=scope))
        table.commit(actions(*known), run_id="before")
        table.commit(actions(*gone), run_id="before, later")
        strange = [row["memory_id"] for row in known]
        keys = {name: ids.scope_key({"user_id": name}) for name in names}
        model = chaos(SlotModel(), seed=seed, rate=rate, strange_ids=strange, faults=faults)
        return cls(
            seed=seed,
            folder=folder,
            model=model,
            conversations=conversations(names, rng),
            table=table,
            scope_keys=keys,
        )

    def run(self) -> RunRecord:
        """Take up what no earlier run has dealt with, and commit what comes of it."""
        self.model.run = number = len(self.runs)
        windows = windows_batch(
            self.conversations,
            window_tokens=160,
            overlap_messages=1,
            known_keys=pack_keys(self.table.ledger_keys().to_pylist()),
        )
        settings: dict[str, Any] = {
            "base_url": "http://chaos.invalid/v1",
            "model": "chaos",
            "max_retries": MAX_RETRIES,
            "max_concurrency": 4,
            "journal": str(self.folder / "journal") if self.seed % 2 else None,
            **(self.wire.settings if self.wire else {}),
        }
        extract, decide = MemoryExtract(**settings), MemoryBuildAction(**settings)
        worker = share_worker(extract.spec.key(), lambda: self._worker(extract.spec))
        try:
            record = self._run(number, windows, extract, decide, worker)
        finally:
            close_workers()
        self.runs.append(record)
        return record

    def _worker(self, spec: ModelSpec) -> Worker:
        jitter = random.Random(self.seed)  # noqa: S311  # no secret
        if self.wire is not None:
            return Worker(spec, model=self.wire.client(spec), rng=jitter, make_loop=FastLoop)
        return Worker(
            spec,
            model=self.model,
            rng=jitter,
            make_loop=lambda: VirtualTimeLoop(serves_threads=True),
        )

    def _run(
        self,
        number: int,
        windows: pa.Table,
        extract: MemoryExtract,
        decide: MemoryBuildAction,
        worker: Worker,
    ) -> RunRecord:
        cells = [windows[name] for name in ("messages", "context", "scope_key")]
        extracted = status_column(extract.results(*cells))
        facts = facts_table(windows.append_column(EXTRACTED, extracted))
        base, keys = self.table.version, list(self.scope_keys.values())
        before = live_memories(self.table.at(base), keys)
        rows: dict[str, list[dict[str, Any]]] = {}
        for row in facts.to_pylist():
            rows.setdefault(row["scope_key"], []).append(row)
        asked: list[Asked] = []
        read: dict[str, list[WindowFacts]] = {}
        for key, mine in rows.items():
            mine.sort(key=in_time)
            read[key] = [deciding.window_facts(place, row) for place, row in enumerate(mine)]
        chosen = ConsolidationSettings(
            facts_per_call=4, lookup=Lookup(strategy="keyword", top_k=2, max_memories=8)
        )

        async def decide_scope(key: str) -> ScopeResult:
            async def one(work: DecideWork) -> Outcome[ReadActions]:
                sent = self._sent(key)
                outcome = await worker.answer(decide.stage, work, scope_key=key)
                asked.append(Asked(scope_key=key, requests=self._sent(key) - sent, outcome=outcome))
                return outcome

            return await consolidate_scope(
                key, read[key], before.get(key, []), decide=one, settings=chosen
            )

        async def decide_all() -> list[ScopeResult]:
            return await all_or_none([decide_scope(key) for key in read])

        results = dict(zip(read, worker.wait(decide_all()), strict=True))
        commit = None
        if rows:
            acts, ledger = self._plan(facts, rows, results, decide)
            commit = commit_plan(
                self.table,
                acts,
                ledger,
                run_id=f"run-{number}",
                base_version=base,
                info={},
                max_retired="auto",
                accept_guards=(),
            ).result
        after = live_memories(self.table, keys)
        return RunRecord(
            number=number,
            windows=windows,
            facts=facts,
            before=before,
            read=read,
            results=results,
            asked=asked,
            commit=commit,
            after=after,
        )

    def _sent(self, scope_key: str) -> int:
        """Count the decision requests of a scope so far."""
        (name,) = [name for name, key in self.scope_keys.items() if key == scope_key]
        return sum(
            isinstance(entry.task, DecideTask) and name in entry.task.facts[0].text
            for entry in self.model.ledger
        )

    def _plan(
        self,
        facts: pa.Table,
        rows: Mapping[str, list[dict[str, Any]]],
        results: Mapping[str, ScopeResult],
        decide: MemoryBuildAction,
    ) -> tuple[pa.Table, pa.Table]:
        """Lay actions and done messages out as a plan does."""
        laid_out = pa.Table.from_pylist(
            [
                scope_results.result_row(
                    {row["window_id"]: row["conversation_id"] for row in rows[key]},
                    rows[key][0],
                    result,
                    model=decide.spec.model,
                    prompt_hash=decide.prompt_hash,
                )
                for key, result in results.items()
            ],
            schema=scope_results.SCOPE_RESULTS,
        ).sort_by("scope_key")
        acts = scope_results.actions_of(laid_out)
        opened = scope_results.open_windows_of(laid_out)
        return acts, ledger_rows(facts, opened["window_id"])

    def heal(self) -> None:
        """Let the model be right from now on."""
        self.model.rate = 0.0


def _table(folder: Path, *, on_disk: bool) -> MemoryTable:
    """Make an empty table; one in memory has its ledger in the folder nevertheless."""
    clock = SteppingClock(FIRST_DAY)
    if on_disk:
        return MemoryTable.open(folder, backend="parquet", vector_dim=1, clock=clock)
    storage = MemoryStorage()
    storage.create(Head(number=0, committed_at=FIRST_DAY, created_at=FIRST_DAY, vector_dim=1))
    return MemoryTable(str(folder), storage, clock)
