"""`LookupExisting`: the memories of a scope that a decision about some facts should see."""

import os
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
from ray.data.expressions import Expr

from memorypipe.cells.facts import parse_facts
from memorypipe.cells.memories import encode_existing
from memorypipe.cells.scope import parse_scope
from memorypipe.expressions.base import Expression
from memorypipe.expressions.results import CellResult
from memorypipe.ids import scope_key
from memorypipe.llm.embed.unit_vectors import embed_texts
from memorypipe.rank.lookup import Lookup, Strategy
from memorypipe.rank.scope_rows import Request, ScopedRows
from memorypipe.table.table import MemoryTable

__all__ = ["LookupExisting"]


class LookupExisting(Expression):
    """Look up existing memories in a table, at the version that it has now.

    Ranking uses the memories of a row's own scope alone: what other scopes hold, and maintenance
    of the table, change no result. The table is read once per block, all scopes together, and the
    facts of a block are embedded together. Reading is fastest after `MemoryTable.optimize`, and
    at the newest version: once others commit, the history has to be read too, and what was
    superseded meanwhile is embedded anew.

    Args:
        table: A memory table, or where it is.
        top_k: Memories per fact.
        strategy: ``"all"``: every memory, newest first. ``"recent"``: the `top_k` newest.
            ``"keyword"``: per fact the `top_k` best by BM25, united. ``"vector"``: likewise by
            cosine. ``"hybrid"``: likewise by both, fused by reciprocal rank. ``"auto"``:
            ``"hybrid"`` where the table has an embedder, else ``"keyword"``.
        max_memories: Memories per row; None for no bound.

    Raises:
        InvalidArgumentError: Where a value cannot work, or a strategy needs an embedder and the
            table has none.
        TableError: Where the table's embedder needs an address and `table` was opened without it.
        TableNotFoundError: If there is no table.
    """

    _parameters = ("scope", "facts")
    _required = 2
    _once = False

    def __init__(
        self,
        table: str | os.PathLike[str] | MemoryTable,
        *,
        top_k: int = 10,
        strategy: Strategy = "auto",
        max_memories: int | None = 40,
    ) -> None:
        lookup = Lookup(strategy=strategy, top_k=top_k, max_memories=max_memories)
        opened = table if isinstance(table, MemoryTable) else MemoryTable.open(table, create=False)
        # One version for all blocks of all workers: what is looked up is one moment of the table.
        self._view = opened.at(opened.version)
        asks = lookup.strategy == "auto" or lookup.uses_vectors
        embedder = opened.find_embedder() if asks else None
        self._lookup = lookup.settled(has_embedder=embedder is not None)
        self._embedder = embedder if self._lookup.uses_vectors else None

    def with_column(self, scope: Any, facts: Any) -> Expr:
        """Give the Ray Data expression of the existing memories.

        Args:
            scope: Column of scopes (map, struct or JSON object).
            facts: Column of facts (string), as `MemoryExtract` gives them.

        Returns:
            An expression of type string: JSON arrays of ``{"id", "text", "context"?,
            "event_time"?}``, the best first where they are ranked, else the newest.
        """
        return self._with_column(scope, facts)

    def with_status(self, scope: Any, facts: Any) -> Expr:
        """Give the expression of a struct (`STATUS`) instead: the cell, and how it came about."""
        return self._with_status(scope, facts)

    def __call__(self, scope: Any, facts: Any) -> pa.Array:
        """Compute at once, in this process; columns as in `with_column`."""
        return self._values(scope, facts)

    def results(self, *cells: Any) -> list[CellResult]:
        """Compute the cells of these columns, each with its status, in row order."""
        requests = [
            Request(
                scope_key(parse_scope(scope, number)),
                [fact.text for fact in parse_facts(facts, number) or ()],
            )
            for number, (scope, facts) in enumerate(self._rows(cells))
        ]
        rows = self._read({each.scope_key for each in requests})
        chosen = rows.choose(requests, self._lookup, self._embed(requests, rows))
        memories = iter(rows.cells([place for places in chosen for place in places]))
        return [
            CellResult(value=encode_existing(islice(memories, len(places))), status="ok")
            for places in chosen
        ]

    def _read(self, scope_keys: set[str]) -> ScopedRows:
        name = None if self._embedder is None else self._embedder.name
        columns = ScopedRows.columns(self._lookup)
        return ScopedRows(self._view.read_scopes(sorted(scope_keys), columns, vectors_by=name))

    def _embed(self, requests: Sequence[Request], rows: ScopedRows) -> Mapping[str, Any]:
        """Embed the facts, and the memories that have no vector, where ranking needs them."""
        if self._embedder is None:
            return {}
        ranked = rows.ranked(requests, self._lookup)
        lacking = rows.lacking(each.scope_key for each in ranked)
        texts = dict.fromkeys(text for each in ranked for text in each.facts)
        said = [text for text in {**texts, **lacking} if text.strip()]
        vectors = dict(zip(said, embed_texts(self._embedder, said), strict=True))
        rows.fill({text: vectors[text] for text in lacking if text in vectors}, lacking)
        return vectors
