"""How many facts a second does `LookupExisting` look up, on one core?

Command::

    taskset -c 0 python benchmarks/lookup.py --memories 1000000 --scopes 1000

The table has 100 memories per scope, with 256-dimension vectors, as `MemoryTable.optimize` leaves
it: sorted by scope, the scopes indexed. A block has `--scopes` rows, each of another scope, with
one fact, and again with ten. What each fact finds is checked against exact ranking within its
scope. Embedding the facts is left out: their vectors are known.

Beside it, on the same table and scopes: a bare fetch and score, which reads texts and vectors by
one ``IN`` query and takes the ten best cosines of each fact in numpy, and makes no cell; and a
loop of LanceDB queries, one per fact, filtered to its scope.

Prints JSON: facts per second of processor time (which other work on the machine moves less than
the clock's), recall, machine and versions. The default sizes are small, to try it in seconds.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import lance
import lancedb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.common import Target, finish, machine  # the checkout comes first
from benchmarks.search_data import Corpus, KnownVectors, make_corpus, memory_id, write_table
from memorypipe import LookupExisting, MemoryTable, ids
from memorypipe.rank.keyword import KeywordIndex
from memorypipe.rank.memory import Memory

PER_SCOPE = 100
TOP_K = 10
STRATEGIES = ("keyword", "vector", "hybrid")
# Facts per second, by facts per scope; for vector and hybrid.
LEAST = {1: 1_500, 10: 5_000}
LEAST_RECALL = 0.99
CHECKED_SCOPES = 20
LOOPED_FACTS = 100


class Block:
    """Rows to look up: scopes and facts, and the vectors of the facts.

    Attributes:
        numbers: Of the scopes.
        facts: Texts per scope.
        vectors: By text.
    """

    def __init__(self, corpus: Corpus, scopes: int, facts_per_scope: int) -> None:
        rng = np.random.default_rng(facts_per_scope)
        self.numbers: list[int] = rng.choice(
            int(corpus.scopes.max()) + 1, scopes, replace=False
        ).tolist()
        self.facts: list[list[str]] = []
        self.vectors: dict[str, NDArray[np.float32]] = {}
        for number in self.numbers:
            near = PER_SCOPE * number + rng.integers(0, PER_SCOPE, facts_per_scope)
            said = [
                " ".join([*corpus.texts[place].split()[:5], f"new{place}"])
                for place in near.tolist()
            ]
            noise = 0.05 * rng.standard_normal((facts_per_scope, corpus.vectors.shape[1]))
            self.facts.append(said)
            self.vectors |= zip(
                said, (corpus.vectors[near] + noise).astype(np.float32), strict=True
            )

    @property
    def scopes(self) -> list[dict[str, str]]:
        """The scope of each row."""
        return [{"user_id": f"user-{number}"} for number in self.numbers]


def cpu_s(work: Callable[[], Any], repeat: int) -> float:
    """Give the least processor time that some work took."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def bare(dataset: Any, block: Block) -> list[NDArray[np.int64]]:
    """Fetch texts and vectors by one query; rank each scope's rows by cosine."""
    keys = [ids.scope_key(scope) for scope in block.scopes]
    wanted = ", ".join(f"'{key}'" for key in keys)
    rows = dataset.to_table(
        columns=["scope_key", "memory_id", "text", "vector"],
        filter=f"is_live AND scope_key IN ({wanted})",
    )
    codes = rows["scope_key"].combine_chunks().dictionary_encode()
    place = {key.as_py(): number for number, key in enumerate(codes.dictionary)}
    numbers = np.asarray(codes.indices)
    values = rows["vector"].combine_chunks().values.to_numpy()
    matrix = values.reshape(rows.num_rows, -1)
    order = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers[order], np.arange(len(place) + 1))
    found = []
    for key, facts in zip(keys, block.facts, strict=True):
        held = order[starts[place[key]] : starts[place[key] + 1]]
        asked = np.array([block.vectors[fact] for fact in facts])
        found.append(np.argsort(-(asked @ matrix[held].T), axis=1)[:, :TOP_K])
    return found


def loop(uri: Path, block: Block) -> None:
    """Ask LanceDB fact by fact, each within its scope."""
    table = lancedb.connect(uri).open_table("memories")
    facts = [(n, fact) for n, said in enumerate(block.facts) for fact in said][:LOOPED_FACTS]
    for number, fact in facts:
        key = ids.scope_key(block.scopes[number])
        query: Any = table.search(block.vectors[fact])
        query = query.distance_type("cosine").where(
            f"is_live AND scope_key = '{key}'", prefilter=True
        )
        query.select(["memory_id", "text"]).limit(TOP_K).to_list()


def exact(corpus: Corpus, number: int, facts: list[str], block: Block) -> dict[str, set[str]]:
    """Give the ids of the best memories of each fact, together, by strategy."""
    start = PER_SCOPE * number
    names = [memory_id(place) for place in range(start, start + PER_SCOPE)]
    rows = corpus.vectors[start : start + PER_SCOPE].astype(np.float64)
    texts = corpus.texts[start : start + PER_SCOPE]
    index = KeywordIndex(Memory(id=n, text=text) for n, text in zip(names, texts, strict=True))
    found: dict[str, set[str]] = {name: set() for name in STRATEGIES}
    for fact in facts:
        words = index.best(fact, PER_SCOPE)
        scores = (rows @ block.vectors[fact]).tolist()
        likeness = [name for _, name in sorted(zip([-s for s in scores], names, strict=True))]
        ranks: dict[str, float] = {}
        for ranking in (words[:50], likeness[:50]):
            for rank, name in enumerate(ranking, start=1):
                ranks[name] = ranks.get(name, 0) + 1 / (60 + rank)
        fused = sorted(ranks, key=lambda name: (-ranks[name], name))
        for strategy, best in zip(STRATEGIES, (words, likeness, fused), strict=True):
            found[strategy] |= set(best[:TOP_K])
    return found


def recall(corpus: Corpus, block: Block, cells: pa.Array, strategy: str) -> float:
    """Say what share of the exact answers was found, in the first scopes."""
    right = wanted = 0
    for row in range(min(CHECKED_SCOPES, len(block.numbers))):
        best = exact(corpus, block.numbers[row], block.facts[row], block)[strategy]
        found = {memory["id"] for memory in json.loads(cells[row].as_py())}
        right += len(best & found)
        wanted += len(best)
    return right / wanted


def measure(uri: Path, corpus: Corpus, scopes: int, repeat: int) -> dict[str, Any]:
    """Look facts up in all ways."""
    result: dict[str, Any] = {}
    dataset = lance.dataset(str(uri / "memories.lance"))
    for count in LEAST:
        block = Block(corpus, scopes, count)
        facts = count * scopes
        cells = [json.dumps(said) for said in block.facts]
        table = MemoryTable.open(uri, create=False, embedder=KnownVectors(block.vectors))
        rates: dict[str, Any] = {}
        for strategy in STRATEGIES:
            lookup = LookupExisting(table, strategy=strategy, top_k=TOP_K, max_memories=None)  # type: ignore[arg-type]  # of STRATEGIES
            found = lookup(block.scopes, cells)
            capped = LookupExisting(table, strategy=strategy, top_k=TOP_K)  # type: ignore[arg-type]  # as above
            seconds = cpu_s(partial(capped, block.scopes, cells), repeat)
            rates[strategy] = {
                "facts_per_cpu_s": round(facts / seconds),
                "recall": round(recall(corpus, block, found, strategy), 4),
            }
        bare_s = cpu_s(partial(bare, dataset, block), repeat)
        loop_s = cpu_s(partial(loop, uri, block), 1)
        rates["bare_fetch_and_score"] = {"facts_per_cpu_s": round(facts / bare_s)}
        looped = min(LOOPED_FACTS, facts)
        rates["lancedb_loop"] = {"facts_per_cpu_s": round(looped / loop_s)}
        result[f"{count}_facts_per_scope"] = rates
    return result


def main() -> None:
    """Read the command line and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--memories", type=int, default=20_000)
    parser.add_argument("--scopes", type=int, default=100, help="rows of a block")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    corpus = make_corpus(options.memories, PER_SCOPE)
    with tempfile.TemporaryDirectory() as folder:
        uri = Path(folder) / "table"
        uri.mkdir()
        write_table(uri, corpus)
        measured = measure(uri, corpus, options.scopes, options.repeat)
    targets = {}
    for count, least in LEAST.items():
        rates = measured[f"{count}_facts_per_scope"]
        for name in ("vector", "hybrid"):
            targets[f"{name}_{count}"] = Target(
                value=rates[name]["facts_per_cpu_s"], at_least=least
            )
            targets[f"{name}_{count}_recall"] = Target(
                value=rates[name]["recall"], at_least=LEAST_RECALL
            )
    about = machine("pylance", "lancedb", "numpy", "pyarrow")
    sizes = {"memories": options.memories, "scopes_per_block": options.scopes}
    finish({**sizes, **measured, "machine": about}, targets)


if __name__ == "__main__":
    main()
