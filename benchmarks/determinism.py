"""Does a plan come out the same whatever the workers, the blocks and the order of the log?

    python benchmarks/determinism.py LOG... [--lookup all|auto] [--window-tokens 2000]

Each log is read once, then planned and applied with the rule-based model and a clock that stands
still: as it is, by this process where it is small, which is the reference, and by one or four
workers from one or 64 blocks in other orders. Files of conversation lines are also read
again with their lines shuffled.

Target: no file of a plan differs from the reference in a byte, and neither do run id, ledger and
table rows. Prints one JSON object.
"""

import argparse
import hashlib
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import common  # the checkout comes first
from memorypipe import (
    Lookup,
    MemoryBuildAction,
    MemoryExtract,
    MemoryPipeline,
    MemoryTable,
    read_conversations,
)
from memorypipe.llm.spec import OFFLINE_MODEL, OFFLINE_URL
from memorypipe.logs.read import ConversationLog

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_LOOKUPS = {"all": Lookup(strategy="all", max_memories=None), "auto": Lookup()}
# What says how long things took, or is the commit's own.
_LEFT_OUT = frozenset({"run.json", "metrics.prom"})


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way of running what should come out the same."""

    workers: int
    blocks: int
    seed: int | None

    @property
    def name(self) -> str:
        """Name it for people."""
        order = "as is" if self.seed is None else f"shuffled {self.seed}"
        return f"{self.workers} workers, {self.blocks} blocks, {order}"


VARIANTS = [
    Variant(workers=workers, blocks=blocks, seed=seed)
    for workers, blocks, seed in ((1, 1, None), (1, 64, 1), (4, 1, 2), (4, 64, 3), (4, 64, None))
]


def rearranged(rows: pa.Table, variant: Variant) -> ray.data.Dataset:
    """Give conversations in another order, in so many blocks."""
    places = list(range(rows.num_rows))
    if variant.seed is not None:
        random.Random(variant.seed).shuffle(places)  # noqa: S311  # repeatable, no secret
    mixed = rows.take(places)
    blocks = min(variant.blocks, rows.num_rows)
    ends = [rows.num_rows * n // blocks for n in range(blocks + 1)]
    return ray.data.from_arrow([mixed.slice(a, b - a) for a, b in pairwise(ends)])


def outcome(
    folder: Path, log: ConversationLog, variant: Variant, options: argparse.Namespace
) -> dict[str, str]:
    """Plan and apply; give what came out, as hashes."""
    table = folder / "table"
    model: dict[str, Any] = {"base_url": OFFLINE_URL, "model": OFFLINE_MODEL}
    pipeline = MemoryPipeline(
        table=str(table),
        extract=MemoryExtract(**model).options(num_workers=variant.workers),
        decide=MemoryBuildAction(**model).options(num_workers=variant.workers),
        lookup=_LOOKUPS[options.lookup],
        window_tokens=options.window_tokens,
        clock=lambda: _NOW,
    )
    plan = pipeline.plan(log)
    run = table / "runs" / plan.run_id
    found = {
        str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(run.rglob("*"))
        if path.is_file() and path.name not in _LEFT_OUT
    }
    found |= {"run id": plan.run_id, "ledger": _hash(plan.ledger())}
    pipeline.apply(plan)
    found["table"] = _hash(MemoryTable.open(str(table), create=False).to_arrow())
    return found


def _hash(rows: pa.Table) -> str:
    return hashlib.sha256(repr(rows.to_pylist()).encode()).hexdigest()


def differences(path: str, options: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    """Give each variant with what is different in it; the reference with how much there is."""
    log = read_conversations(path)
    rows = pa.concat_tables(log.dataset.iter_batches(batch_size=None, batch_format="pyarrow"))
    with tempfile.TemporaryDirectory(prefix="same-") as folder:
        reference = outcome(Path(folder), log, VARIANTS[0], options)
    for variant in VARIANTS:
        with tempfile.TemporaryDirectory(prefix="same-") as folder:
            same = replace(log, source=rearranged(rows, variant))
            found = outcome(Path(folder), same, variant, options)
        yield variant.name, _differing(reference, found)
    if path.endswith(".jsonl"):
        with tempfile.TemporaryDirectory(prefix="same-") as folder:
            lines = Path(path).read_text().splitlines(keepends=True)
            random.Random(4).shuffle(lines)  # noqa: S311  # repeatable, no secret
            (Path(folder) / "log.jsonl").write_text("".join(lines))
            log = read_conversations(str(Path(folder) / "log.jsonl"))
            yield (
                "lines shuffled",
                _differing(reference, outcome(Path(folder), log, VARIANTS[0], options)),
            )


def _differing(reference: dict[str, str], found: dict[str, str]) -> list[str]:
    names = sorted(reference.keys() | found.keys())
    return [name for name in names if reference.get(name) != found.get(name)]


def main() -> None:
    """Compare, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", nargs="+")
    parser.add_argument("--lookup", choices=sorted(_LOOKUPS), default="all")
    parser.add_argument("--window-tokens", type=int, default=2_000)
    options = parser.parse_args()
    with common.ray_up(num_cpus=4):
        shown = {Path(path).name: dict(differences(path, options)) for path in options.log}
    differing = sum(len(names) for variants in shown.values() for names in variants.values())
    common.finish(
        {
            "question": "Does a plan come out the same whatever workers, blocks and order?",
            "options": vars(options),
            "differences": shown,
            "machine": common.machine("ray", "memorypipe"),
        },
        {"differences": common.Target(value=differing, at_most=0)},
    )


if __name__ == "__main__":
    main()
