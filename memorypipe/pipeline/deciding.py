"""From facts to actions, on Ray: whole scopes per worker, many scopes at a time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
import pyarrow as pa
import ray
from ray.data import ActorPoolStrategy

from memorypipe.errors import MemoryPipeError
from memorypipe.expressions.build_action import DecideWork, MemoryBuildAction
from memorypipe.expressions.coordinator import connect
from memorypipe.expressions.ray_metrics import publish
from memorypipe.expressions.worker_errors import plainly
from memorypipe.ids import text_hash
from memorypipe.llm.embed.types import Embedder
from memorypipe.llm.owner import Owner
from memorypipe.llm.replies.reply import ReadActions
from memorypipe.llm.stage import Outcome
from memorypipe.llm.worker import Worker, all_or_none, get_worker
from memorypipe.pipeline.consolidate import ScopeResult, WindowFacts, consolidate_scope
from memorypipe.pipeline.decided import Decided, PipelineFact
from memorypipe.pipeline.on_ray import arrow_batches, in_partitions
from memorypipe.pipeline.scope_state import Stops
from memorypipe.pipeline.settings import ConsolidationSettings
from memorypipe.pipeline.text_vectors import TextVectors
from memorypipe.rank.live import live_memories, live_vectors
from memorypipe.rank.memory import Memory
from memorypipe.schema import ACTIONS, RECORD_TYPE_MEMORY, SCOPE
from memorypipe.table.blocks import Blocks
from memorypipe.table.table import MemoryTable

__all__ = [
    "SCOPE_RESULTS",
    "Decider",
    "decide_actions",
    "decide_partitions",
    "in_time",
    "window_facts",
]

# Partitions that a worker holds as Python rows at once: all scopes of one are asked about at the
# same time, and while its last ones are, the next keeps the requests coming.
_PARTITIONS_IN_HAND = 2

# Never a scope that is older than what nothing dates.
_UNDATED = datetime.min.replace(tzinfo=UTC)

_OPEN = pa.struct([("window_id", pa.string()), ("reason", pa.string())])
_ACTION = pa.struct([f for f in ACTIONS if f.name not in {"scope", "scope_key"}])

#: One row per scope: its actions, its open windows, and one JSON object per decision call.
SCOPE_RESULTS = pa.schema(
    [
        ("scope", SCOPE),
        ("scope_key", pa.string()),
        ("actions", pa.list_(_ACTION)),
        ("open_windows", pa.list_(_OPEN)),
        ("calls", pa.list_(pa.string())),
        ("fallback", pa.int64()),
        ("flags", pa.list_(pa.string())),  # of the actions that have one
    ]
)


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
    """

    decide: MemoryBuildAction
    settings: ConsolidationSettings
    table_uri: str
    base_version: int | None
    owner: Owner
    embedder: Embedder | None = None


def decide_actions(facts: Sequence[str], decider: Decider) -> Iterator[pa.Table]:
    """Decide the facts of all scopes, and give each scope as it is done.

    Args:
        facts: Parquet files of schema `memorypipe.schema.FACTS`.
        decider: What the workers need.

    Yields:
        Tables of schema `SCOPE_RESULTS`, in any order.

    Raises:
        MemoryPipeError: If a scope came from two partitions: its windows were not decided in
            order, and nothing of it may be used.
    """
    workers = decider.decide.worker_options.num_workers
    yield from decide_partitions(in_partitions(facts, key="scope_key", at_least=workers), decider)


def decide_partitions(partitions: ray.data.Dataset, decider: Decider) -> Iterator[pa.Table]:
    """Decide the facts of whole scopes; as `decide_actions`.

    Args:
        partitions: Each block has all rows of its scopes, schema `memorypipe.schema.FACTS`.
        decider: What the workers need.
    """
    options = decider.decide.worker_options
    decided = partitions.map_batches(
        _Partition,
        fn_constructor_args=(decider,),
        batch_size=None,
        batch_format="pyarrow",
        num_cpus=options.num_cpus,
        compute=ActorPoolStrategy(
            size=options.num_workers,
            max_tasks_in_flight_per_actor=_PARTITIONS_IN_HAND,
            max_concurrent_calls_per_actor=_PARTITIONS_IN_HAND,
            enable_true_multi_threading=True,
        ),
    )
    seen: set[str] = set()
    for batch in arrow_batches(decided):
        for scope_key in batch["scope_key"].to_pylist():
            if scope_key in seen:
                raise MemoryPipeError(f"The facts of scope {scope_key!r} were split up.")
            seen.add(scope_key)
        yield batch


class _Partition:
    """Decides the scopes of one hash partition at a time."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider

    def __call__(self, facts: pa.Table) -> Iterator[pa.Table]:
        by_scope: dict[str, list[dict[str, Any]]] = {}
        for row in facts.to_pylist():
            by_scope.setdefault(row["scope_key"], []).append(row)
        if not by_scope:
            return
        with plainly():
            memories, blocks, vectors = self._known(list(by_scope))
            worker = get_worker(self._decider.decide.spec, connect)
            worker.serve(self._decider.owner)
            results = worker.wait(self._decide_scopes(worker, by_scope, memories, blocks, vectors))
            publish(worker)
        yield from results

    def _known(
        self, scope_keys: Sequence[str]
    ) -> tuple[dict[str, list[Memory]], Blocks, TextVectors]:
        embedder = self._decider.embedder
        if self._decider.base_version is None:
            return {}, Blocks(), TextVectors(embedder)
        table = MemoryTable.open(self._decider.table_uri, create=False, embedder=embedder)
        view = table.at(self._decider.base_version)
        known: dict[str, Any] = {}
        if embedder is not None and self._decider.settings.lookup.uses_vectors:
            known = live_vectors(view, scope_keys, embedder.name)
        memories = live_memories(view, scope_keys)
        return memories, view.read_blocks(scope_keys), TextVectors(embedder, known)

    async def _decide_scopes(
        self,
        worker: Worker,
        by_scope: Mapping[str, list[dict[str, Any]]],
        memories: Mapping[str, list[Memory]],
        blocks: Blocks,
        vectors: TextVectors,
    ) -> list[pa.Table]:
        # Heavy scopes first: the longest chain of calls bounds the run.
        ordered = sorted(by_scope.items(), key=lambda item: (-len(item[1]), item[0]))
        work = [
            self._decide_scope(
                worker, rows, memories.get(scope_key, []), _stops(blocks, scope_key), vectors
            )
            for scope_key, rows in ordered
        ]
        return await all_or_none(work)

    async def _decide_scope(
        self,
        worker: Worker,
        rows: list[dict[str, Any]],
        memories: list[Memory],
        stops: Stops | None,
        vectors: TextVectors,
    ) -> pa.Table:
        expression, scope_key = self._decider.decide, rows[0]["scope_key"]

        async def decide(work: DecideWork) -> Outcome[ReadActions]:
            return await worker.answer(expression.stage, work, scope_key=scope_key)

        rows.sort(key=in_time)
        result = await consolidate_scope(
            scope_key,
            [window_facts(place, row) for place, row in enumerate(rows)],
            memories,
            decide=decide,
            settings=self._decider.settings,
            fallback_action=expression.fallback_action,
            stops=stops,
            vectors=vectors,
        )
        return self._result_table(rows[0], result)

    def _result_table(self, row: Mapping[str, Any], result: ScopeResult) -> pa.Table:
        expression = self._decider.decide
        actions = [
            _action_row(seq, decided, expression.spec.model, expression.prompt_hash)
            for seq, decided in enumerate(result.actions)
        ]
        opened = [{"window_id": w, "reason": why} for w, why in result.open_windows.items()]
        calls = [orjson.dumps(_call_record(outcome)).decode() for outcome in result.outcomes]
        scope = {
            "scope": row["scope"],
            "scope_key": row["scope_key"],
            "actions": actions,
            "open_windows": opened,
            "calls": calls,
            "fallback": result.fallback,
            "flags": [decided.flag for decided in result.actions if decided.flag],
        }
        return pa.Table.from_pylist([scope], schema=SCOPE_RESULTS)


def _stops(blocks: Blocks, scope_key: str) -> Stops | None:
    if scope_key not in blocks.scope_keys:
        return None

    def stops(decided: Decided) -> bool:
        fact = decided.fact
        return blocks.stop(scope_key, text_hash(decided.text), fact.source_ids, fact.event_time)

    return stops


def in_time(row: Mapping[str, Any]) -> tuple[datetime, str, int]:
    """Give the place of a window in its scope's time order, as a sorting key."""
    return (row["event_time"] or _UNDATED, row["conversation_id"], row["window_index"])


def window_facts(place: int, row: Mapping[str, Any]) -> WindowFacts:
    """Read a row of `memorypipe.schema.FACTS`."""
    error = row["error"] or row["status"]
    if row["facts_json"] is None:
        reason = f"extraction failed ({row['status']}): {error}"
        return WindowFacts(window_id=row["window_id"], facts=(), error=reason)
    flags: dict[int, tuple[str, ...]] = {}
    for flagged in row.get("flags") or ():
        flags[flagged["fact"]] = (*flags.get(flagged["fact"], ()), flagged["flag"])
    facts = [
        _fact(place, row, item, flags.get(number, ()))
        for number, item in enumerate(orjson.loads(row["facts_json"])["memories"])
    ]
    cut = row["status"] not in {"ok", "empty"}
    return WindowFacts(
        window_id=row["window_id"],
        facts=facts,
        error=f"extraction incomplete ({row['status']}): {error}" if cut else None,
    )


def _fact(
    place: int, row: Mapping[str, Any], item: Mapping[str, Any], flags: tuple[str, ...]
) -> PipelineFact:
    sources = tuple(item.get("sources", ()))
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


def _action_row(seq: int, decided: Decided, model: str, prompt_hash: str) -> dict[str, Any]:
    fact = decided.fact
    return {
        "seq": seq,
        "record_type": RECORD_TYPE_MEMORY,
        "event": decided.event,
        "memory_id": decided.memory_id,
        "text": decided.text,
        "old_memory": decided.old_memory,
        "context": fact.context,
        "topics": list(fact.topics) or None,
        "event_time": fact.event_time,
        "conversation_id": fact.conversation_id,
        "window_id": fact.window_id,
        "source_ids": list(fact.source_ids) or None,
        "rationale": decided.rationale,
        "model": model,
        "prompt_hash": prompt_hash,
    }


def _call_record(outcome: Outcome[Any]) -> dict[str, Any]:
    return {
        "status": outcome.status,
        "attempts": outcome.attempts,
        "cached": outcome.cached,
        "prompt_tokens": outcome.prompt_tokens,
        "completion_tokens": outcome.completion_tokens,
        "latency_ms": outcome.latency_ms,
        "failures": dict(outcome.failures),
    }
