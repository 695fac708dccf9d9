"""Search: the live memories that fit a query or a vector best, in one scope or in all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memorypipe import ids
from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.embed.types import Embedder
from memorypipe.llm.embed.unit_vectors import embed_texts
from memorypipe.rank.fusion import best_places, fused, fused_scores, fusion_depth
from memorypipe.rank.keyword import keyword_scores
from memorypipe.rank.vector import MISSING, cosines, unit_rows
from memorypipe.rank.vector_rows import vector_matrix
from memorypipe.schema import table_schema
from memorypipe.table.live_rows import live_rows
from memorypipe.table.search_all import Wanted, filtered
from memorypipe.table.storage import Snapshot, Where

__all__ = ["ALL", "AllScopes", "Search", "SearchStrategy", "search_rows"]

SearchStrategy = Literal["auto", "keyword", "vector", "hybrid"]

_SCORE = pa.field("score", pa.float64(), nullable=False)


class AllScopes(Enum):
    """Stands for every scope where one has to be named."""

    ALL = "all"

    def __repr__(self) -> str:
        return "ALL"


ALL = AllScopes.ALL
"""Every scope; as the `scope` of a search."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """What is looked for.

    Attributes:
        scope: A mapping, matched exactly, or `ALL`.
        query: Words.
        vector: As wide as the table's.
        top_k: Rows wanted.
        strategy: How rows are ranked.
        filter: A `pyarrow.compute.Expression`, or None.

    Raises:
        InvalidArgumentError: Where a value cannot work.
    """

    scope: Mapping[str, Any] | AllScopes
    query: str | None = None
    vector: Sequence[float] | NDArray[Any] | None = None
    top_k: int = 10
    strategy: SearchStrategy = "auto"
    filter: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.scope, Mapping | AllScopes):
            raise InvalidArgumentError(
                f"scope must be a mapping, or ALL for every scope, got {self.scope!r}."
            )
        if self.query is None and self.vector is None:
            raise InvalidArgumentError("A search needs a query or a vector.")
        if self.query is not None and not self.query.strip():
            raise InvalidArgumentError(f"query must not be blank, got {self.query!r}.")
        if isinstance(self.top_k, bool) or not isinstance(self.top_k, int) or self.top_k < 1:
            raise InvalidArgumentError(
                f"top_k must be an integer of at least 1, got {self.top_k!r}."
            )
        if self.strategy not in get_args(SearchStrategy):
            raise InvalidArgumentError(
                f"strategy must be one of {list(get_args(SearchStrategy))!r}, got "
                f"{self.strategy!r}."
            )
        if self.strategy in {"keyword", "hybrid"} and self.query is None:
            raise InvalidArgumentError(f"strategy {self.strategy!r} needs a query.")
        if self.filter is not None and not isinstance(self.filter, pc.Expression):
            raise InvalidArgumentError(
                "filter must be a pyarrow.compute.Expression, such as "
                "pyarrow.compute.field('user_id') == 'u1', got "
                f"{type(self.filter).__name__}."
            )

    def settled(self, *, has_vectors: bool) -> SearchStrategy:
        """Decide ``"auto"``: by what is given, and whether a query can be embedded."""
        if self.strategy != "auto":
            return self.strategy
        if self.query is None:
            return "vector"
        return "hybrid" if has_vectors or self.vector is not None else "keyword"


def search_rows(
    search: Search,
    snapshot: Snapshot,
    *,
    embedder: Embedder | None,
    commit_time: datetime | None,
    now: datetime,
) -> pa.Table:
    """Find the rows that fit best.

    Args:
        search: What is looked for.
        snapshot: Of the table.
        embedder: The table's, which made its vectors; None where it has none.
        commit_time: Of a past version; None for the newest.
        now: A row with `expires_at` at or before it is expired, UTC.

    Returns:
        The table's columns and `score` (float64), the best first, ties by `memory_id`.

    Raises:
        InvalidArgumentError: For what this table, or this version of it, cannot do.
        ModelError: Where the query cannot be embedded.
    """
    strategy = search.settled(has_vectors=embedder is not None and commit_time is None)
    if commit_time is not None:
        _check_past(search, strategy)
    vector = None
    if strategy != "keyword":
        vector = _query_vector(search, strategy, embedder, snapshot.head.vector_dim)
    if isinstance(search.scope, AllScopes):
        return _in_all(search, strategy, vector, snapshot, now)
    columns = table_schema(snapshot.head.vector_dim).names
    keys = [ids.scope_key(search.scope)]
    rows = live_rows(snapshot, keys, columns, commit_time=commit_time, now=now)
    rows = rows.sort_by([("memory_id", "ascending"), ("record_type", "ascending")])
    return _in_scope(search, strategy, vector, rows)


def _check_past(search: Search, strategy: SearchStrategy) -> None:
    if strategy != "keyword":
        raise InvalidArgumentError(
            f"strategy {strategy!r} works on the newest version only: a revision loses its vector "
            "when it is superseded. Search a past version by 'keyword'."
        )
    if search.scope is ALL:
        raise InvalidArgumentError(
            "A past version can be searched in one scope only, not in ALL: indexes hold what is "
            "live now."
        )


def _query_vector(
    search: Search, strategy: SearchStrategy, embedder: Embedder | None, dim: int
) -> NDArray[np.float64]:
    if search.vector is not None:
        given = np.asarray(search.vector, np.float64)
        if given.shape != (dim,) or not np.isfinite(given).all() or not given.any():
            raise InvalidArgumentError(
                f"vector must be {dim} finite numbers, not all of them 0, as the table's vectors "
                f"are; got an array of shape {given.shape!r}."
            )
    elif embedder is None or search.query is None:
        raise InvalidArgumentError(
            f"strategy {strategy!r} needs a vector: the table has no embedder to make one of the "
            "query. Give vector=…, or take strategy='keyword'."
        )
    else:
        given = embed_texts(embedder, [search.query])[0]
    unit: NDArray[np.float64] = unit_rows([given])[0]
    return unit


def _in_scope(
    search: Search, strategy: SearchStrategy, vector: NDArray[np.float64] | None, rows: pa.Table
) -> pa.Table:
    """Rank all rows of one scope; what the filter leaves out counts in the statistics alone."""
    out = np.ones(rows.num_rows, np.bool_)
    out[filtered(rows, search.filter)] = False
    words = likeness = np.empty((1, 0))
    if search.query is not None and strategy != "vector":
        starts, one = np.array([0, rows.num_rows]), np.zeros(1, np.int64)
        words = keyword_scores(rows["text"], starts, [search.query], one)
        words[:, out] = 0.0
    if vector is not None:
        likeness = cosines(vector[None, :], vector_matrix(rows["vector"]))
        likeness[:, out] = MISSING
    scores, above = words, 0.0
    if strategy == "vector":
        scores, above = likeness, MISSING
    elif strategy == "hybrid":
        scores = fused_scores(words, likeness, search.top_k)
    places = best_places(scores, search.top_k, above=above)[0]
    return rows.take(pa.array(places, pa.int64())).append_column(
        _SCORE, pa.array(scores[0][places], pa.float64())
    )


def _in_all(
    search: Search,
    strategy: SearchStrategy,
    vector: NDArray[np.float64] | None,
    snapshot: Snapshot,
    now: datetime,
) -> pa.Table:
    depth = fusion_depth(search.top_k) if strategy == "hybrid" else search.top_k
    kinds: list[Literal["keyword", "vector"]] = []
    if strategy != "vector":
        kinds.append("keyword")
    if strategy != "keyword":
        kinds.append("vector")
    found = [
        snapshot.search_all(
            Wanted(
                kind=kind,
                query=search.query or "",
                vector=vector,
                k=depth,
                now=now,
                filter=search.filter,
            )
        )
        for kind in kinds
    ]
    rankings = [_ordered(rows)[:depth] for rows in found]
    if strategy == "hybrid":
        best = fused([[record for record, _ in ranking] for ranking in rankings], search.top_k)
    else:
        best = rankings[0][: search.top_k]
    return _rows_of(snapshot, dict(best))


# A record's id and type: ties are broken by the id.
_Record = tuple[str, str]


def _ordered(found: pa.Table) -> list[tuple[_Record, float]]:
    columns = (found[name].to_pylist() for name in ("memory_id", "record_type", "score"))
    rows = [((name, kind), score) for name, kind, score in zip(*columns, strict=True)]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def _rows_of(snapshot: Snapshot, scores: Mapping[_Record, float]) -> pa.Table:
    """Read the rows that were found, in their order."""
    columns = table_schema(snapshot.head.vector_dim).names
    where = Where(memory_ids=sorted({name for name, _ in scores}), rows="live")
    rows = snapshot.scan(columns, where)
    records = zip(rows["memory_id"].to_pylist(), rows["record_type"].to_pylist(), strict=True)
    place = {record: number for number, record in enumerate(records)}
    order = [place[record] for record in scores]
    return rows.take(pa.array(order, pa.int64())).append_column(
        _SCORE, pa.array(list(scores.values()), pa.float64())
    )
