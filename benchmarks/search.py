"""How much of what brute force finds does a search find, with nine in ten rows being history?

Command::

    python benchmarks/search.py --rows 1000000

One row in ten is live, 100 live rows per scope; indexes are made as `MemoryTable.optimize` makes
them. `--queries` queries, near to some memory each, are searched by all strategies, each within
its scope and over all scopes, and compared with brute force over the live rows by an
index that a lookup keeps in memory for words, and a matrix product for vectors.

Prints JSON: recall of the ten best, milliseconds per search (median), machine and versions. The
default sizes are small, to try it in seconds.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import lance
import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.common import Target, finish, machine  # the checkout comes first
from benchmarks.search_data import Corpus, KnownVectors, make_corpus, memory_id, write_table
from memorypipe import ALL, MemoryTable
from memorypipe.rank.keyword import KeywordIndex
from memorypipe.rank.memory import Memory
from memorypipe.table.lance.search import refresh_indexes

LIVE_SHARE = 0.1
PER_SCOPE = 100
TOP_K = 10
DEPTH = 50  # of each ranking, where two are fused
STRATEGIES = ("keyword", "vector", "hybrid")
LEAST = {"scope": 1.0, "all": 0.95}
DAMPING = 60


class Exact:
    """Brute force over some live memories.

    Attributes:
        names: Their ids.
    """

    def __init__(self, corpus: Corpus, numbers: NDArray[np.int64]) -> None:
        self.names = [memory_id(number) for number in numbers.tolist()]
        self._vectors = corpus.vectors[numbers]
        self._index = KeywordIndex(
            Memory(id=name, text=corpus.texts[number])
            for name, number in zip(self.names, numbers.tolist(), strict=True)
        )

    def words(self, query: str, k: int) -> list[str]:
        """Rank by words."""
        return self._index.best(query, k)

    def likeness(self, vector: NDArray[np.float32]) -> list[str]:
        """Rank all by cosine."""
        order = np.argsort(-(self._vectors @ vector), kind="stable")
        return [self.names[place] for place in order[: DEPTH * 2].tolist()]

    def best(self, strategy: str, query: str, vector: NDArray[np.float32]) -> list[str]:
        """Give the ten best, ties by id."""
        if strategy == "keyword":
            return self.words(query, TOP_K)
        if strategy == "vector":
            return self.likeness(vector)[:TOP_K]
        scores: dict[str, float] = {}
        for ranking in (self.words(query, DEPTH), self.likeness(vector)[:DEPTH]):
            for rank, name in enumerate(ranking, start=1):
                scores[name] = scores.get(name, 0.0) + 1 / (DAMPING + rank)
        return sorted(scores, key=lambda name: (-scores[name], name))[:TOP_K]


def main() -> None:
    """Read the command line and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--queries", type=int, default=30)
    options = parser.parse_args()
    corpus = make_corpus(options.rows, round(PER_SCOPE / LIVE_SHARE))
    rng = np.random.default_rng(3)
    live = rng.random(options.rows) < LIVE_SHARE
    with tempfile.TemporaryDirectory() as folder:
        uri = Path(folder) / "table"
        uri.mkdir()
        write_table(uri, corpus, live=live)
        dataset = lance.dataset(str(uri / "memories.lance"))
        started = time.process_time()
        refresh_indexes(dataset, at_least=1)
        index_cpu_s = round(time.process_time() - started, 1)
        measured = measure(uri, corpus, np.flatnonzero(live), options.queries)
    targets = {
        f"{where}_{strategy}": Target(value=recall, at_least=LEAST[where])
        for where, recalls in measured["recall"].items()
        for strategy, recall in recalls.items()
    }
    sizes = {"rows": options.rows, "live": int(live.sum()), "queries": options.queries}
    about = machine("pylance", "numpy", "pyarrow")
    finish({**sizes, "index_cpu_s": index_cpu_s, **measured, "machine": about}, targets)


def measure(uri: Path, corpus: Corpus, numbers: NDArray[np.int64], queries: int) -> dict[str, Any]:
    """Search in all ways, and compare."""
    rng = np.random.default_rng(4)
    picked = rng.choice(numbers, queries, replace=False).tolist()
    noise = 0.03 * rng.standard_normal((queries, corpus.vectors.shape[1])).astype(np.float32)
    texts = [" ".join(rng.permutation(corpus.texts[number].split())[:5]) for number in picked]
    vectors = corpus.vectors[picked] + noise
    known = dict(zip(texts, vectors, strict=True))
    table = MemoryTable.open(uri, create=False, embedder=KnownVectors(known))
    every = Exact(corpus, numbers)
    recalls: dict[str, dict[str, list[float]]] = {}
    millis: dict[str, dict[str, list[float]]] = {}
    for number, text, vector in zip(picked, texts, vectors, strict=True):
        scope = int(corpus.scopes[number])
        own = Exact(corpus, numbers[corpus.scopes[numbers] == scope])
        for where, exact, searched in (
            ("scope", own, corpus.scope(scope)),
            ("all", every, ALL),
        ):
            for strategy in STRATEGIES:
                started = time.perf_counter()
                found: Any = table.search(
                    scope=searched,
                    query=text,
                    top_k=TOP_K,
                    strategy=strategy,  # type: ignore[arg-type]  # of STRATEGIES
                )
                millis.setdefault(where, {}).setdefault(strategy, []).append(
                    1e3 * (time.perf_counter() - started)
                )
                best = exact.best(strategy, text, vector)
                share = len(set(best) & set(found["memory_id"].to_pylist())) / len(best)
                recalls.setdefault(where, {}).setdefault(strategy, []).append(share)
    return {
        "recall": _each(recalls, statistics.fmean, 4),
        "median_ms": _each(millis, statistics.median, 1),
    }


def _each(values: dict[str, dict[str, list[float]]], summed: Any, digits: int) -> dict[str, Any]:
    def one(lists: Iterable[tuple[str, list[float]]]) -> dict[str, float]:
        return {name: round(summed(each), digits) for name, each in lists}

    return {where: one(by_strategy.items()) for where, by_strategy in values.items()}


if __name__ == "__main__":
    main()
