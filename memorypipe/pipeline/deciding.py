"""From facts to actions: whole scopes per worker, many scopes at a time."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import orjson
import pyarrow as pa

from memorypipe.expressions.build_action import DecideWork, MemoryBuildAction
from memorypipe.expressions.ray_metrics import publish
from memorypipe.expressions.ray_rules import MAX_BLOCKS_IN_HAND
from memorypipe.expressions.worker_process import worker_of
from memorypipe.id_key import IdKeySource
from memorypipe.ids import text_hash
from memorypipe.llm.embed.types import Embedder
from memorypipe.llm.owner import Owner
from memorypipe.llm.replies.reply import ReadActions
from memorypipe.llm.stage import Outcome
from memorypipe.llm.worker import Worker, all_or_none
from memorypipe.pipeline.id_keys import key_of
from memorypipe.pipeline.lots import Lot, make_lots, read_lot
from memorypipe.pipeline.on_ray import over_lots
from memorypipe.pipeline.scope_feed import OUTLINE, ScopeFeed
from memorypipe.pipeline.scope_results import SCOPE_RESULTS, result_row
from memorypipe.pipeline.scopes.carrying import NOTHING_CARRIED, OVERLAP, Carried, Carry
from memorypipe.pipeline.scopes.consolidate import ScopeResult, WindowFacts, consolidate_scope
from memorypipe.pipeline.scopes.decided import Decided, PipelineFact
from memorypipe.pipeline.scopes.settings import ConsolidationSettings
from memorypipe.pipeline.scopes.state import Stops
from memorypipe.pipeline.scopes.text_vectors import TextVectors, warm_up
from memorypipe.rank.live import live_memories, live_vectors
from memorypipe.rank.memory import Memory
from memorypipe.table.blocks import Blocks
from memorypipe.table.table import MemoryTable, TableView

__all__ = ["DECIDED", "Decider", "LotDecider", "decide_actions", "stops_of", "window_facts"]

# Lots that each worker can choose from.
_LOTS_PER_WORKER = 4

DECIDED = (*OUTLINE, "message_ids", "message_times", "facts_json", "flags", "status", "error")
"""What of `memorypipe.schema.FACTS` a decision takes."""


@dataclass(frozen=True, kw_only=True)
class Decider:
    """What a worker needs in order to decide scopes; picklable.

    Attributes:
        decide: The expression that says how to call the model.
        settings: How facts are grouped and memories are looked up; strategy settled.
        table_uri: Where the memories are.
        base_version: The version that they are read at; None: there is no table yet.
        owner: Who wants the results.
        embedder: Of the memories; None: they have no vectors.
        carried: What goes with the memories of single conversations; None: nothing.
        id_key: Where the key of the ids comes from; None: they have none.
    """

    decide: MemoryBuildAction
    settings: ConsolidationSettings
    table_uri: str
    base_version: int | None
    owner: Owner
    embedder: Embedder | None = None
    carried: Carried | None = None
    id_key: IdKeySource | None = None


def decide_actions(facts: Sequence[str], decider: Decider, *, here: bool) -> Iterator[pa.Table]:
    """Decide the facts of all scopes, heavy ones first, and give them as they are done.

    A scope is decided in order of time, on its own; of the others so many are under way at once
    that the requests in flight stay at their limit. Only their facts are in memory.

    Args:
        facts: Parquet files of schema `memorypipe.schema.FACTS`, sorted by scope; a scope lies in
            one of them.
        decider: What the workers need.
        here: Whether this process decides them itself.

    Yields:
        Tables of schema `SCOPE_RESULTS`, in any order.
    """
    yield from over_lots(
        make_lots(facts, at_least=_LOTS_PER_WORKER * decider.decide.worker_options.num_workers),
        LotDecider,
        decider,
        asked=decider.decide,
        in_hand=max(MAX_BLOCKS_IN_HAND, decider.decide.spec.concurrency),
        here=here,
    )


class LotDecider:
    """Decides the scopes of a lot, which many threads may ask for at once.

    Args:
        decider: What it needs.
        goes_first: Whether its calls are made before others that the same worker has to make.
    """

    def __init__(self, decider: Decider, *, goes_first: bool = False) -> None:
        self._decider = decider
        self._goes_first = goes_first
        self._id_key = key_of(decider.id_key)
        self._lock = threading.Lock()
        self._opened: TableView | None = None
        if decider.embedder is not None and decider.settings.lookup.uses_vectors:
            # Loaded beside the first requests, not when the first decision waits for it.
            load = partial(warm_up, decider.embedder)
            threading.Thread(target=load, name="memorypipe-load", daemon=True).start()

    def __call__(self, lot: Lot) -> pa.Table:
        """Decide a lot; give a table of schema `SCOPE_RESULTS`."""
        worker = self._worker()
        # What waits here is not read yet.
        with worker.admission.hold(lot.scopes) as portion:
            return self._decided(worker, self._read(lot), portion.done)

    def decide(self, scopes: Sequence[ScopeFeed]) -> pa.Table:
        """Decide scopes while their windows come; likewise."""
        return self._decided(self._worker(), scopes, lambda: None)

    def _read(self, lot: Lot) -> list[ScopeFeed]:
        """Read the scopes of a lot, all that there is of them."""
        by_scope: dict[str, list[dict[str, Any]]] = {}
        for row in read_lot(lot, DECIDED).to_pylist():
            by_scope.setdefault(row["scope_key"], []).append(row)
        scopes = [ScopeFeed(rows) for rows in by_scope.values()]
        for scope in scopes:
            for place, row in enumerate(scope.rows):
                scope.put(window_facts(place, row, self._decider.carried))
        return scopes

    def _worker(self) -> Worker:
        worker = worker_of(self._decider.decide.spec)
        worker.serve(self._decider.owner)
        return worker

    def _decided(
        self, worker: Worker, scopes: Sequence[ScopeFeed], on_done: Callable[[], None]
    ) -> pa.Table:
        known = self._known([scope.key for scope in scopes])
        results = worker.wait(self._decide_scopes(worker, scopes, known, on_done))
        publish(worker)
        expression = self._decider.decide
        rows = [
            result_row(
                {row["window_id"]: row["conversation_id"] for row in scope.rows},
                scope.rows[0],
                result,
                model=expression.spec.model,
                prompt_hash=expression.prompt_hash,
            )
            for scope, result in zip(scopes, results, strict=True)
        ]
        return pa.Table.from_pylist(rows, schema=SCOPE_RESULTS)

    def _known(self, scope_keys: Sequence[str]) -> "_Known":
        embedder = self._decider.embedder
        view = self._view()
        if view is None:
            return _Known(memories={}, blocks=Blocks(), vectors=TextVectors(embedder))
        vectors: dict[str, Any] = {}
        if embedder is not None and self._decider.settings.lookup.uses_vectors:
            vectors = live_vectors(view, scope_keys, embedder.name)
        return _Known(
            memories=live_memories(
                view, scope_keys, with_metadata=self._decider.carried is not None
            ),
            blocks=view.read_blocks(scope_keys),
            vectors=TextVectors(embedder, vectors),
        )

    def _view(self) -> TableView | None:
        decider = self._decider
        if decider.base_version is None:
            return None
        with self._lock:
            if self._opened is None:
                table = MemoryTable.open(decider.table_uri, create=False, embedder=decider.embedder)
                self._opened = table.at(decider.base_version)
            return self._opened

    async def _decide_scopes(
        self,
        worker: Worker,
        scopes: Sequence[ScopeFeed],
        known: "_Known",
        on_done: Callable[[], None],
    ) -> list[ScopeResult]:
        return await all_or_none(
            [self._decide_scope(worker, scope, known, on_done) for scope in scopes]
        )

    async def _decide_scope(
        self,
        worker: Worker,
        scope: ScopeFeed,
        known: "_Known",
        on_done: Callable[[], None],
    ) -> ScopeResult:
        expression = self._decider.decide

        async def decide(work: DecideWork) -> Outcome[ReadActions]:
            return await worker.answer(
                expression.stage, work, scope_key=scope.key, goes_first=self._goes_first
            )

        result = await consolidate_scope(
            scope.key,
            scope.next_window,
            known.memories.get(scope.key, []),
            decide=decide,
            settings=self._decider.settings,
            fallback_action=expression.fallback_action,
            stops=stops_of(known.blocks, scope.key, self._id_key),
            vectors=known.vectors,
            id_key=self._id_key,
        )
        on_done()
        return scope.by_window(result)


@dataclass(frozen=True, kw_only=True)
class _Known:
    """What the table says of scopes."""

    memories: Mapping[str, list[Memory]]
    blocks: Blocks
    vectors: TextVectors


def stops_of(blocks: Blocks, scope_key: str, id_key: bytes) -> Stops | None:
    """Tell which actions of a scope the commit will not take; None: it takes all."""
    if scope_key not in blocks.scope_keys:
        return None

    def stops(decided: Decided) -> bool:
        fact = decided.fact
        return blocks.stop(
            scope_key, text_hash(decided.text, key=id_key), fact.source_ids, fact.event_time
        )

    return stops


def window_facts(place: int, row: Mapping[str, Any], carried: Carried | None = None) -> WindowFacts:
    """Read a row of `memorypipe.schema.FACTS`."""
    carry = None if carried is None else carried.of(row["scope_key"], row["conversation_id"])
    error = row["error"] or row["status"]
    if row["facts_json"] is None:
        reason = f"extraction failed ({row['status']}): {error}"
        return WindowFacts(window_id=row["window_id"], facts=(), error=reason)
    flags: dict[int, tuple[str, ...]] = {}
    for flagged in row.get("flags") or ():
        flags[flagged["fact"]] = (*flags.get(flagged["fact"], ()), flagged["flag"])
    facts = [
        _fact(place, row, item, flags.get(number, ()), carry)
        for number, item in enumerate(orjson.loads(row["facts_json"])["memories"])
    ]
    cut = row["status"] not in {"ok", "empty"}
    return WindowFacts(
        window_id=row["window_id"],
        facts=facts,
        error=f"extraction incomplete ({row['status']}): {error}" if cut else None,
    )


def _fact(
    place: int,
    row: Mapping[str, Any],
    item: Mapping[str, Any],
    flags: tuple[str, ...],
    carry: Carry | None,
) -> PipelineFact:
    sources = tuple(item.get("sources", ()))
    if carry is not None and sources and not set(sources) & set(row["message_ids"]):
        flags = (*flags, OVERLAP)
    return PipelineFact(
        text=item["text"],
        window=place,
        window_id=row["window_id"],
        conversation_id=row["conversation_id"],
        event_time=_said_at(row, sources),
        source_ids=sources,
        context=item.get("context"),
        topics=tuple(item.get("topics", ())),
        flags=flags,
        carry=carry or NOTHING_CARRIED,
    )


def _said_at(row: Mapping[str, Any], sources: Sequence[str]) -> datetime | None:
    """Say when a fact was said: the time of its newest source, else that of its window.

    This is the time of the memory, and what late evidence is told by. When it happened, as the
    model tells it, is not: it can be wrong, and a plan for next year is not newer than its
    cancellation tomorrow.
    """
    times = zip(row["message_ids"], row["message_times"], strict=True)
    said = [time for message_id, time in times if time is not None and message_id in sources]
    window_time: datetime | None = row["event_time"]
    return max(said, default=window_time)
