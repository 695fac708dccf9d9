"""Decisions of scopes all of whose facts are known: rehearsed as they are, on Ray."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from ray.data import ActorPoolStrategy

from memorypipe.expressions.build_action import MemoryBuildAction
from memorypipe.expressions.worker_errors import plainly
from memorypipe.llm.embed.types import Embedder
from memorypipe.llm.tokens import RequestCounter, TokenCounter
from memorypipe.pipeline.deciding import window_facts
from memorypipe.pipeline.estimates.counting import KnownReplies
from memorypipe.pipeline.estimates.decisions import Rehearsal
from memorypipe.pipeline.on_ray import arrow_batches, in_partitions
from memorypipe.pipeline.scope_feed import in_time
from memorypipe.pipeline.scopes.settings import ConsolidationSettings
from memorypipe.pipeline.stretches import in_stretches, in_turn
from memorypipe.rank.live import live_memories
from memorypipe.rank.memory import Memory
from memorypipe.table.table import MemoryTable

__all__ = ["KnownScopes", "decide_known"]

_RESULT = pa.schema(
    [
        ("scope_key", pa.string()),
        ("calls", pa.int64()),
        ("prompt_tokens", pa.int64()),
        ("decided", pa.int64()),
    ]
)


@dataclass(frozen=True, kw_only=True)
class KnownScopes:
    """What the rehearsals need; picklable.

    Attributes:
        decide: How decisions are asked, with its journal.
        settings: How facts are grouped and memories are looked up.
        table_uri: Where the memories are.
        base_version: The version that they are read at; None: there is no table yet.
        count_tokens: Counts a text; None takes what is best for the model.
        add_share: Share of the facts that become a memory.
        keys: The scopes; facts of others are passed over.
        embedder: Of the memories, where it costs nothing.
    """

    decide: MemoryBuildAction
    settings: ConsolidationSettings
    table_uri: str
    base_version: int | None
    count_tokens: TokenCounter | None
    add_share: float
    keys: frozenset[str]
    embedder: Embedder | None = None


def decide_known(facts: Sequence[str], known: KnownScopes) -> dict[str, tuple[int, int, int]]:
    """Give calls to be paid, their prompt tokens and the facts decided in them, by scope.

    Args:
        facts: Parquet files of schema `memorypipe.schema.FACTS`.
        known: What the rehearsals need.
    """
    decided = in_partitions(facts, key="scope_key", at_least=1).map_batches(
        _Rehearsing,
        fn_constructor_args=(known,),
        batch_size=None,
        batch_format="pyarrow",
        num_cpus=0,
        compute=ActorPoolStrategy(size=1),
    )
    rows = [row for batch in arrow_batches(decided) for row in batch.to_pylist()]
    return {row["scope_key"]: (row["calls"], row["prompt_tokens"], row["decided"]) for row in rows}


class _Rehearsing:
    """Rehearses the scopes of a partition."""

    def __init__(self, known: KnownScopes) -> None:
        self._known = known
        counter = RequestCounter(known.decide.spec.model, known.count_tokens)
        self._rehearsal = Rehearsal(
            known.decide,
            known.settings,
            counter,
            add_share=known.add_share,
            replies=KnownReplies(known.decide),
            embedder=known.embedder,
        )

    def __call__(self, facts: pa.Table) -> pa.Table:
        by_scope: dict[str, list[dict[str, Any]]] = {}
        for row in facts.to_pylist():
            if row["scope_key"] in self._known.keys:
                by_scope.setdefault(row["scope_key"], []).append(row)
        with plainly():
            memories = self._memories(list(by_scope))
            rows = [self._row(key, rows, memories.get(key, [])) for key, rows in by_scope.items()]
        return pa.Table.from_pylist(rows, schema=_RESULT)

    def _memories(self, scope_keys: Sequence[str]) -> dict[str, list[Memory]]:
        if self._known.base_version is None or not scope_keys:
            return {}
        table = MemoryTable.open(self._known.table_uri, create=False)
        return live_memories(table.at(self._known.base_version), scope_keys)

    def _row(
        self, scope_key: str, rows: list[dict[str, Any]], memories: Sequence[Memory]
    ) -> dict[str, Any]:
        rows.sort(key=in_time)
        windows = in_turn(in_stretches([window_facts(n, row) for n, row in enumerate(rows)]))
        played = self._rehearsal.scope(scope_key, windows, memories)
        return {
            "scope_key": scope_key,
            "calls": played.calls,
            "prompt_tokens": played.prompt_tokens,
            "decided": played.decided,
        }
