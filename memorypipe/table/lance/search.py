"""Searching all scopes of a Lance dataset: by its indexes once it is large, else row by row.

Indexes hold live rows alone: `search_text` and `vector` are null on all others, but for vectors
that are their caller's own, which a search passes over. What no index holds yet is searched too,
row by row.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance.query import MatchQuery

from memorypipe.errors import InvalidArgumentError
from memorypipe.rank.fusion import best_places
from memorypipe.rank.keyword import keyword_scores
from memorypipe.rank.vector import MISSING, cosines
from memorypipe.rank.vector_rows import vector_matrix
from memorypipe.table.lance.dataset import reading
from memorypipe.table.search_all import FOUND, Wanted, is_served

__all__ = ["INDEX_ROWS", "refresh_indexes", "search_all"]

INDEX_ROWS = 1 << 15
"""So many live rows are worth indexes; fewer are searched as fast without."""

_WORDS, _VECTORS = "search_text_idx", "vector_idx"
_TEXT, _VECTOR = "search_text", "vector"

# Rows of an index's partition. A search looks into as many partitions as hold `_PROBED_ROWS`, and
# into half of them at least: their coded vectors are read in some 30 ms per 100 MB.
_PARTITION_ROWS = 1 << 12
_PROBED_ROWS = 1 << 20

# Candidates per row wanted. By their true vectors the best are chosen; and of rows that score
# the same, those that come first by their ids.
_REFINE = 10

_KEYS = ["record_type", "memory_id"]


def search_all(dataset: Any, wanted: Wanted) -> pa.Table:
    """Find the best live rows of all scopes.

    Args:
        dataset: At one version.
        wanted: What is looked for.

    Returns:
        Schema `FOUND`, in any order; a few more than were wanted, maybe.

    Raises:
        InvalidArgumentError: For a filter that Lance cannot compute.
        RaceLostError: Where maintenance removed the version.
    """
    condition = is_served(wanted.now)
    if wanted.filter is not None:
        condition &= wanted.filter
    indexed = _index_names(dataset)
    if wanted.kind == "keyword":
        search = _by_word_index if _WORDS in indexed else _by_words
    else:
        search = _by_vector_index if _VECTORS in indexed else _by_vectors
    try:
        with reading(dataset.uri):
            return search(dataset, wanted, condition)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, ValueError) as error:
        if wanted.filter is None:
            raise
        raise InvalidArgumentError(
            f"filter cannot be computed over all scopes: {error} Comparisons, isin, is_null and "
            "their combinations can; in one scope every expression can."
        ) from error


def _by_word_index(dataset: Any, wanted: Wanted, condition: Any) -> pa.Table:
    rows = dataset.scanner(
        columns=[*_KEYS, "_score"],
        full_text_query=MatchQuery(wanted.query, _TEXT),
        filter=condition,
        prefilter=True,
        limit=_REFINE * wanted.k,
        disable_scoring_autoprojection=True,
    ).to_table()
    return _found(rows, rows["_score"].cast(pa.float64()))


def _by_vector_index(dataset: Any, wanted: Wanted, condition: Any) -> pa.Table:
    partitions = int(dataset.stats.index_stats(_VECTORS)["indices"][0]["num_partitions"])
    enough = -(-_PROBED_ROWS // _PARTITION_ROWS)
    rows = dataset.scanner(
        columns=[*_KEYS, _VECTOR],
        nearest={
            "column": _VECTOR,
            "q": np.asarray(wanted.vector, np.float32),
            "k": wanted.k,
            "metric": "cosine",
            "nprobes": max(min(partitions, enough), -(-partitions // 2)),
            "refine_factor": _REFINE,
        },
        filter=condition,
        prefilter=True,
        disable_scoring_autoprojection=True,
    ).to_table()
    return _found(rows, pa.array(_cosines(rows, wanted)))


def _by_words(dataset: Any, wanted: Wanted, condition: Any) -> pa.Table:
    """Score all live rows: the statistics are those of all, the filter decides who is found."""
    served = is_served(wanted.now)
    rows = dataset.to_table(columns=[*_KEYS, _TEXT], filter=served, with_row_address=True)
    starts, one = np.array([0, rows.num_rows]), np.zeros(1, np.int64)
    scores = keyword_scores(rows[_TEXT], starts, [wanted.query], one)
    if wanted.filter is not None:
        kept = dataset.to_table(columns=[], filter=condition, with_row_address=True)
        scores[0][~np.isin(rows["_rowaddr"], kept["_rowaddr"])] = 0.0
    return _best(rows, scores, wanted, above=0.0)


def _by_vectors(dataset: Any, wanted: Wanted, condition: Any) -> pa.Table:
    """Score all live rows, a batch at a time."""
    scanner = dataset.scanner(columns=[*_KEYS, _VECTOR], filter=condition)
    found = [
        _best(rows, _cosines(rows, wanted)[None, :], wanted, above=MISSING)
        for rows in map(pa.Table.from_batches, _singles(scanner.to_batches()))
    ]
    return pa.concat_tables([FOUND.empty_table(), *found])


def _singles(batches: Any) -> Iterator[list[pa.RecordBatch]]:
    return ([batch] for batch in batches)


def _cosines(rows: pa.Table, wanted: Wanted) -> Any:
    asked = np.asarray(wanted.vector, np.float64)[None, :]
    return cosines(asked, vector_matrix(rows[_VECTOR]))[0]


def _best(rows: pa.Table, scores: Any, wanted: Wanted, *, above: float) -> pa.Table:
    order = np.asarray(pc.sort_indices(rows, [(name, "ascending") for name in _KEYS[::-1]]))
    places = order[best_places(scores[:, order], wanted.k, above=above)[0]]
    return _found(rows.take(pa.array(places)), pa.array(scores[0][places], pa.float64()))


def _found(rows: pa.Table, scores: Any) -> pa.Table:
    return pa.table([*(rows[name] for name in _KEYS), scores], schema=FOUND)


def refresh_indexes(dataset: Any, *, at_least: int = INDEX_ROWS, anew: bool = False) -> None:
    """Make the indexes of words and vectors where they are worth it, or bring them up to date.

    A commit that comes first wins over it: the next refresh does what is left.

    Args:
        dataset: At its newest version.
        at_least: Live rows from which on indexes are made.
        anew: Whether indexes are built again: they then hold nothing of rows that have gone.
    """
    indexed = _index_names(dataset)
    with contextlib.suppress(OSError):
        if anew or _is_stale(dataset, _WORDS, indexed):
            _index_words(dataset, indexed, at_least)
    with contextlib.suppress(OSError):
        if anew or _is_stale(dataset, _VECTORS, indexed):
            _index_vectors(dataset, indexed, at_least, anew=anew)


def _index_words(dataset: Any, indexed: set[str], at_least: int) -> None:
    """Index words as `memorypipe.rank.words.tokens` cuts them, as far as Lance can."""
    if _WORDS not in indexed and dataset.count_rows(f"{_TEXT} IS NOT NULL") < at_least:
        return
    dataset.create_scalar_index(
        _TEXT,
        "INVERTED",
        name=_WORDS,
        replace=True,
        base_tokenizer="icu/split",
        stem=False,
        remove_stop_words=False,
        ascii_folding=False,
        max_token_length=None,
        with_position=False,
    )


def _index_vectors(dataset: Any, indexed: set[str], at_least: int, *, anew: bool) -> None:
    rows = dataset.count_rows(f"{_VECTOR} IS NOT NULL")
    partitions = max(rows // _PARTITION_ROWS, 1)
    if _VECTORS in indexed:
        known = int(dataset.stats.index_stats(_VECTORS)["indices"][0]["num_partitions"])
        if not anew and known <= 2 * partitions <= 4 * known:
            dataset.optimize.optimize_indices(index_names=[_VECTORS])
            return
    elif rows < at_least:
        return
    dataset.create_index(
        _VECTOR,
        "IVF_SQ",
        name=_VECTORS,
        metric="cosine",
        replace=True,
        num_partitions=partitions,
    )


def _index_names(dataset: Any) -> set[str]:
    return {index.name for index in dataset.describe_indices()}


def _is_stale(dataset: Any, name: str, indexed: set[str]) -> bool:
    """Tell whether an index is missing, or rows are outside of it; the head row always is."""
    return name not in indexed or dataset.stats.index_stats(name)["num_unindexed_rows"] > 1
