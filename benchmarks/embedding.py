"""What embedding costs: texts a second, and what it adds to a commit and to `reembed`.

Run: python benchmarks/embedding.py [--texts 50000]
"""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from memorypipe import ids
from memorypipe.llm.embed.unit_vectors import embed_texts
from memorypipe.llm.embed.wordllama import WordLlamaEmbedder
from memorypipe.schema import ACTIONS
from memorypipe.table.table import MemoryTable

WORDS = ("Anna", "likes", "green", "tea", "moved", "to", "Berlin", "with", "two", "dogs", "summer")


def texts(count: int) -> list[str]:
    """Short facts, no two alike."""
    dice = random.Random(1)  # noqa: S311  # no secret
    return [f"{' '.join(dice.choices(WORDS, k=12))} {number}" for number in range(count)]


def actions(said: list[str]) -> pa.Table:
    """An ADD of each, a hundred per scope."""
    rows = []
    for number, text in enumerate(said):
        scope = {"user_id": f"u{number // 100}"}
        rows.append(
            dict.fromkeys(ACTIONS.names)
            | {
                "scope": list(scope.items()),
                "scope_key": ids.scope_key(scope),
                "seq": number,
                "record_type": "memory",
                "event": "ADD",
                "text": text,
            }
        )
    return pa.Table.from_pylist(rows, schema=ACTIONS)


def timed(work: Callable[[], Any]) -> dict[str, float]:
    """Seconds on the clock and of processor time."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return {
        "wall_s": round(time.perf_counter() - wall, 3),
        "cpu_s": round(time.process_time() - cpu, 3),
    }


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=50_000)
    count = parser.parse_args().texts
    said, embedder = texts(count), WordLlamaEmbedder()
    found: dict[str, Any] = {"texts": count, "load": timed(lambda: embed_texts(embedder, ["a"]))}
    found["embed"] = timed(lambda: embed_texts(embedder, said))
    found["embed"]["texts_per_cpu_s"] = round(count / found["embed"]["cpu_s"])
    batch = actions(said)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("none", "wordllama"):
            table = MemoryTable.open(Path(folder) / name, embedder=name)
            commit = partial(table.commit, batch, run_id="r1")
            found[f"commit_{name}"] = timed(commit)
        bare = MemoryTable.open(Path(folder) / "none")
        found["reembed"] = timed(lambda: bare.reembed("wordllama"))
        assert bare.to_arrow(columns=["vector"])["vector"].null_count == 0
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
