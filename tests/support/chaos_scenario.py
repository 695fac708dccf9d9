"""A log whose every fact is known, a model that reads it rightly, and runs over it without Ray.

The runs go through the code of the pipeline: windows, `MemoryExtract`, a worker with its retries
and its journal, `consolidate_scope`, plan tables, commit. Only Ray's part, to hand blocks around,
is left out; waiting takes no time.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from memorypipe import ids
from memorypipe.expressions.build_action import DecideWork, MemoryBuildAction
from memorypipe.expressions.extract import MemoryExtract
from memorypipe.expressions.results import status_column
from memorypipe.llm.owner import Owner
from memorypipe.llm.replies.reply import ReadActions
from memorypipe.llm.stage import Outcome
from memorypipe.llm.types import DecideTask, ExtractTask, Reply, Request
from memorypipe.llm.worker import Worker, all_or_none, close_workers, share_worker
from memorypipe.logs.known import pack_keys
from memorypipe.logs.windows import windows_batch
from memorypipe.pipeline import deciding, planning
from memorypipe.pipeline.committing import commit_plan
from memorypipe.pipeline.consolidate import ScopeResult, WindowFacts, consolidate_scope
from memorypipe.pipeline.extraction import EXTRACTED, facts_table
from memorypipe.pipeline.plan import ledger_rows
from memorypipe.pipeline.settings import ConsolidationSettings
from memorypipe.rank.live import live_memories
from memorypipe.rank.lookup import Lookup
from memorypipe.rank.memory import Memory
from memorypipe.schema import CONVERSATIONS
from memorypipe.table.table import MemoryTable
from memorypipe.table.transaction import CommitResult
from tests.support.chaos_model import ChaosModel
from tests.support.table_actions import SteppingClock, actions, add, delete, minted
from tests.support.virtual_time import VirtualTimeLoop

__all__ = ["MAX_RETRIES", "NAMES", "Asked", "RunRecord", "Scenario", "SlotModel", "name_in"]

NAMES = ("Adaline", "Benoit", "Cydnie")
MAX_RETRIES = 3

_FIRST_DAY = datetime(2024, 6, 1, tzinfo=UTC)
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
        return {w: why for result in self.results.values() for w, why in result.open_windows.items()}


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One seed: a log, a table with memories, and a model that chaos wraps.

    Attributes:
        seed: Decides what is in the log, and which faults come when.
        folder: Holds the table, and the journal of every other seed.
        model: The model that the runs ask.
        conversations: Schema `memorypipe.schema.CONVERSATIONS`.
        scope_keys: Name → scope key.
        runs: So far.
    """

    seed: int
    folder: Path
    model: ChaosModel
    conversations: pa.Table
    table: MemoryTable
    scope_keys: Mapping[str, str]
    runs: list[RunRecord] = field(default_factory=list)

    @classmethod
    def make(cls, seed: int, rate: float, folder: Path) -> "Scenario":
        """Write the log and fill the table."""
        rng = random.Random(f"log {seed}")  # noqa: S311  # no secret
        uri = folder / "table"
        table = MemoryTable.open(
            uri, backend="parquet", vector_dim=1, clock=SteppingClock(_FIRST_DAY)
        )
        known, gone = [], []
        for name in NAMES:
            scope, lost = {"user_id": name}, f"{name}'s lighthouse is sold"
            texts = [_sentence(name, slot, rng) for slot in ("piano", "choir")]
            known += [add(text, scope=scope, event_time=_FIRST_DAY) for text in (*texts, lost)]
            gone.append(delete(minted(lost, scope), scope=scope))
        table.commit(actions(*known), run_id="before")
        table.commit(actions(*gone), run_id="before, later")
        strange = [row["memory_id"] for row in known]
        keys = {name: ids.scope_key({"user_id": name}) for name in NAMES}
        model = ChaosModel(SlotModel(), seed=seed, rate=rate, strange_ids=strange)
        return cls(
            seed=seed,
            folder=folder,
            model=model,
            conversations=_conversations(rng),
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
        settings = {
            "base_url": "http://chaos.invalid/v1",
            "model": "chaos",
            "max_retries": MAX_RETRIES,
            "max_concurrency": 4,
            "journal": str(self.folder / "journal") if self.seed % 2 else None,
        }
        extract, decide = MemoryExtract(**settings), MemoryBuildAction(**settings)
        worker = share_worker(
            extract.spec.key(),
            lambda: Worker(
                extract.spec,
                model=self.model,
                rng=random.Random(self.seed),  # noqa: S311  # jitter
                make_loop=lambda: VirtualTimeLoop(serves_threads=True),
            ),
        )
        try:
            record = self._run(number, windows, extract, decide, worker)
        finally:
            close_workers()
        self.runs.append(record)
        return record

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
            mine.sort(key=deciding.in_time)
            read[key] = [deciding.window_facts(place, row) for place, row in enumerate(mine)]
        chosen = ConsolidationSettings(
            facts_per_call=4, lookup=Lookup(strategy="keyword", top_k=2, max_memories=8)
        )

        async def decide_scope(key: str) -> ScopeResult:
            async def one(work: DecideWork) -> Outcome[ReadActions]:
                sent = self._sent(key)
                outcome = await worker.answer(decide.stage, work, scope_key=key)
                asked.append(
                    Asked(scope_key=key, requests=self._sent(key) - sent, outcome=outcome)
                )
                return outcome

            return await consolidate_scope(
                key, read[key], before.get(key, []), decide=one, settings=chosen
            )

        async def decide_all() -> list[ScopeResult]:
            return await all_or_none([decide_scope(key) for key in read])

        results = dict(zip(read, worker.wait(decide_all()), strict=True))
        commit = self._commit(number, base, facts, rows, results, decide)
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

    def _commit(
        self,
        number: int,
        base: int,
        facts: pa.Table,
        rows: Mapping[str, list[dict[str, Any]]],
        results: Mapping[str, ScopeResult],
        decide: MemoryBuildAction,
    ) -> CommitResult | None:
        if not rows:
            return None
        decider = deciding.Decider(
            decide=decide,
            settings=ConsolidationSettings(),
            table_uri=self.table.uri,
            base_version=base,
            owner=Owner.current(),
        )
        partition = deciding._Partition(decider)
        tables = [partition._result_table(rows[key][0], result) for key, result in results.items()]
        conversations = {
            row["window_id"]: row["conversation_id"] for mine in rows.values() for row in mine
        }
        acts, opened = planning._lay_out(pa.concat_tables(tables), conversations)
        ledger = ledger_rows(facts, set(opened["window_id"].to_pylist()))
        return commit_plan(
            self.table,
            acts,
            ledger,
            run_id=f"run-{number}",
            base_version=base,
            info={},
            max_retired="auto",
            accept_guards=(),
        )

    def heal(self) -> None:
        """Let the model be right from now on."""
        self.model.rate = 0.0


def _sentence(name: str, slot: str, rng: random.Random) -> str:
    return f"{name}'s {slot} is {rng.choice(_MAKERS)} {rng.randrange(10, 99)}, {_SLOTS[slot]}"


def _conversations(rng: random.Random) -> pa.Table:
    rows = []
    for name in NAMES:
        scope = {"user_id": name}
        said: list[str] = []
        for number in range(2):
            start = _FIRST_DAY + timedelta(days=10 * number + 1)
            rows.append(_conversation(name, scope, f"{name}-c{number}", start, said, rng))
    return pa.Table.from_pylist(rows, schema=CONVERSATIONS)


def _conversation(  # noqa: PLR0913  # one row
    name: str,
    scope: Mapping[str, str],
    conversation_id: str,
    start: datetime,
    said: list[str],
    rng: random.Random,
) -> dict[str, Any]:
    messages = []
    for n in range(5):
        slot = rng.choice(list(_SLOTS))
        text = _sentence(name, slot, rng)
        dice = rng.random()
        if dice < 0.15:  # noqa: PLR2004  # now and then
            text = f"{name} has no {slot} any more, {_SLOTS[slot]}"
        elif dice < 0.25 and said:  # noqa: PLR2004  # as above
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
