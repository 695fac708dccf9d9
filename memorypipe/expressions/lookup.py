"""`LookupExisting`: the memories of a scope that a decision about some facts should see."""

import os
from typing import Any

import pyarrow as pa
from ray.data.expressions import Expr

from memorypipe.cells.facts import parse_facts
from memorypipe.cells.memories import encode_existing
from memorypipe.cells.scope import parse_scope
from memorypipe.expressions.base import Expression
from memorypipe.expressions.results import CellResult
from memorypipe.ids import scope_key
from memorypipe.rank import Lookup, Memory, Strategy, live_memories
from memorypipe.table.table import MemoryTable

__all__ = ["LookupExisting"]


class LookupExisting(Expression):
    """Look up existing memories in a table, at the version that it has now.

    Ranking uses the memories of a row's own scope alone: what other scopes hold, and maintenance
    of the table, change no result.

    Args:
        table: A memory table, or where it is.
        top_k: Memories per fact.
        strategy: ``"all"``, ``"recent"``, ``"keyword"`` or ``"auto"`` (``"keyword"``).
        max_memories: Memories per row.

    Raises:
        InvalidArgumentError: Where a value cannot work.
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
        self._lookup = Lookup(strategy=strategy, top_k=top_k, max_memories=max_memories)
        opened = table if isinstance(table, MemoryTable) else MemoryTable.open(table, create=False)
        # One version for all blocks of all workers: what is looked up is one moment of the table.
        self._view = opened.at(opened.version)

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
        rows = [
            (scope_key(parse_scope(scope, number)), parse_facts(facts, number))
            for number, (scope, facts) in enumerate(self._rows(cells))
        ]
        memories = live_memories(self._view, sorted({key for key, _ in rows}))
        return [
            self._result([fact.text for fact in facts or ()], memories.get(key, []))
            for key, facts in rows
        ]

    def _result(self, facts: list[str], memories: list[Memory]) -> CellResult:
        chosen = self._lookup.choose(facts, memories)
        return CellResult(value=encode_existing(m.to_cell() for m in chosen), status="ok")
