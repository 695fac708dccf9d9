"""Calibration: a few calls of a run are made, journalled, and what they show is measured."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import ray
from ray.data.expressions import col

from memorypipe.errors import ModelError
from memorypipe.expressions.build_action import MemoryBuildAction
from memorypipe.expressions.extract import MemoryExtract
from memorypipe.pipeline.estimates.behaviour import MeasuredDecision, MeasuredExtraction
from memorypipe.pipeline.estimates.tally import fact_count, measured
from memorypipe.pipeline.extraction import extract_facts
from memorypipe.pipeline.on_ray import arrow_batches, fits_here
from memorypipe.ray_start import ensure_ray
from memorypipe.schema import FACTS

__all__ = ["Calibrated", "Spent", "calibrate_decisions", "calibrate_extractions", "share_out"]

# One call in five is a decision: they vary less, and there are fewer of them.
_DECIDE_SHARE = 5
_SHOWN_MEMORIES = 40


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What calibration took; the extractions of it are journalled and not paid again by the run.

    Attributes:
        calls: Requests sent.
        tokens_in: Prompt tokens.
        tokens_out: Completion tokens.
        cost: In the currency of the prices; None without prices.
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """What the extractions of a calibration gave.

    Attributes:
        facts: Schema `memorypipe.schema.FACTS`, of the calls that gave something readable.
        calls: What they show.
        attempts: Requests sent, failed ones too.
        tokens_in: Prompt tokens of all of them.
        tokens_out: Completion tokens of all of them.
    """

    facts: pa.Table
    calls: Sequence[MeasuredExtraction]
    attempts: int
    tokens_in: int
    tokens_out: int


def share_out(calls: int) -> tuple[int, int]:
    """Say how many of the calls are extractions, and how many are decisions.

    Example:
        >>> share_out(40), share_out(3)
        ((32, 8), (3, 0))
    """
    decisions = calls // _DECIDE_SHARE
    return calls - decisions, decisions


def calibrate_extractions(
    windows: pa.Table,
    numbers: Mapping[str, tuple[int, int]],
    extract: MemoryExtract,
    folder: Path,
) -> Calibrated:
    """Extract the facts of windows, as the run would.

    Args:
        windows: Schema `memorypipe.schema.WINDOWS`.
        numbers: Counted prompt tokens and new tokens, by window id.
        extract: The expression, with its journal.
        folder: For a file that is there meanwhile.

    Raises:
        ModelError: If no call gave anything readable.
    """
    path = folder / "calibration.parquet"
    pq.write_table(windows, path)
    here = fits_here(windows.num_rows, extract)
    made = pa.concat_tables([FACTS.empty_table(), *extract_facts([str(path)], extract, here=here)])
    rows = made.to_pylist()
    good = [row for row in rows if row["status"] in {"ok", "empty"}]
    if not good:
        why = rows[0]["error"] or rows[0]["status"] if rows else "there was no window to ask about"
        raise ModelError(f"None of {len(rows)} calls to calibrate with gave facts: {why}")
    return Calibrated(
        facts=pa.Table.from_pylist(good, schema=FACTS),
        calls=[measured(row, *numbers[row["window_id"]]) for row in good],
        attempts=sum(row["attempts"] for row in rows),
        tokens_in=sum(row["prompt_tokens"] for row in rows),
        tokens_out=sum(row["completion_tokens"] for row in rows),
    )


def calibrate_decisions(
    facts: pa.Table, decide: MemoryBuildAction, *, calls: int, facts_per_call: int
) -> tuple[list[MeasuredDecision], Spent]:
    """Decide facts of some windows against those of others of the same scope.

    Args:
        facts: Schema `memorypipe.schema.FACTS`.
        decide: The expression.
        calls: Decisions to make at most.
        facts_per_call: Facts of one decision at most.
    """
    cells = _decision_cells(facts, calls, facts_per_call)
    if not cells:
        return [], Spent()
    ensure_ray()
    dataset = ray.data.from_arrow(pa.Table.from_pylist(cells))
    decided = dataset.with_column("decided", decide.with_status(col("facts"), col("existing")))
    rows = [row for batch in arrow_batches(decided) for row in batch.to_pylist()]
    statuses = [row["decided"] for row in rows]
    spent = Spent(
        calls=sum(status["attempts"] for status in statuses),
        tokens_in=sum(status["prompt_tokens"] for status in statuses),
        tokens_out=sum(status["completion_tokens"] for status in statuses),
    )
    good = [row["decided"] for row in rows if row["decided"]["status"] == "ok"]
    return [_measured_decision(status) for status in good], spent


def _decision_cells(facts: pa.Table, calls: int, facts_per_call: int) -> list[dict[str, str]]:
    rows = sorted(facts.to_pylist(), key=lambda row: (row["scope_key"], row["window_id"]))
    cells = []
    for _, group in itertools.groupby(
        (row for row in rows if fact_count(row["facts_json"])), key=lambda row: row["scope_key"]
    ):
        texts: list[str] = []
        for row in group:
            new = [item["text"] for item in orjson.loads(row["facts_json"])["memories"]]
            before = texts[-_SHOWN_MEMORIES:]
            cells.append({"facts": _json(new[:facts_per_call]), "existing": _memories(before)})
            texts += new
    # Spread over the scopes.
    step = max(len(cells) / calls, 1.0) if calls else 1.0
    return [cells[int(n * step)] for n in range(min(calls, len(cells)))]


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _memories(texts: Sequence[str]) -> str:
    return _json([{"id": f"m{n}", "text": text} for n, text in enumerate(texts)])


def _measured_decision(status: Mapping[str, Any]) -> MeasuredDecision:
    actions = orjson.loads(status["value"])["actions"]
    return MeasuredDecision(
        facts=len(actions),
        added=sum(action["event"] == "ADD" for action in actions),
        completion_tokens=status["completion_tokens"],
        latency_s=status["latency_ms"] / 1e3,
    )
