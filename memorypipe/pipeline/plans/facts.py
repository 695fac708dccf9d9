"""The facts of a plan as rows of their own, each under what it says."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from memorypipe import ids
from memorypipe.evidence.likeness import near_key
from memorypipe.schema import FACTS
from memorypipe.text import normalise

if TYPE_CHECKING:
    from memorypipe.pipeline.plans.plan import Plan

__all__ = ["FACT_ROWS", "WINDOW_ROWS", "fact_rows", "window_rows"]

#: One row per extracted fact. `says` is equal for facts of one conversation that say the same.
FACT_ROWS = pa.schema(
    [
        pa.field("scope_key", pa.string(), nullable=False),
        pa.field("conversation_id", pa.string(), nullable=False),
        pa.field("window_id", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("source_ids", pa.list_(pa.string())),
        pa.field("says", pa.binary(16), nullable=False),
    ]
)

_WINDOW = ("scope_key", "conversation_id", "window_id")
_NUMBERS = ("status", "prompt_tokens", "completion_tokens")

#: One row per window: what it took, and how many facts it gave.
WINDOW_ROWS = pa.schema(
    [
        *(FACTS.field(name) for name in (*_WINDOW, *_NUMBERS)),
        pa.field("facts", pa.int64(), nullable=False),
    ]
)

_BATCH_ROWS = 8_192


def fact_rows(plan: "Plan") -> pa.Table:
    """Read the facts of a plan; only a batch of windows at a time becomes Python values.

    Returns:
        Schema `FACT_ROWS`, in the order of the windows.
    """
    found = [_facts(batch) for batch in _batches(plan, (*_WINDOW, "facts_json"))]
    return pa.concat_tables(found) if found else FACT_ROWS.empty_table()


def window_rows(plan: "Plan") -> pa.Table:
    """Read the windows of a plan as far as they were extracted: schema `WINDOW_ROWS`."""
    found = []
    for batch in _batches(plan, (*_WINDOW, *_NUMBERS, "facts_json")):
        counts = [len(_memories(text)) for text in batch["facts_json"].to_pylist()]
        rows = batch.drop_columns(["facts_json"])
        found.append(rows.append_column("facts", pa.array(counts, pa.int64())).cast(WINDOW_ROWS))
    return pa.concat_tables(found) if found else WINDOW_ROWS.empty_table()


def _batches(plan: "Plan", columns: tuple[str, ...]) -> Iterator[pa.Table]:
    for path in plan.fact_parts():
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_BATCH_ROWS, columns=list(columns)):
                yield pa.Table.from_batches([batch]).select(list(columns))


def _memories(facts_json: str | None) -> list[dict[str, Any]]:
    if facts_json is None:
        return []
    found: list[dict[str, Any]] = orjson.loads(facts_json)["memories"]
    return found


def _facts(windows: pa.Table) -> pa.Table:
    rows = [
        {
            **{name: window[name] for name in _WINDOW},
            "text": fact["text"],
            "source_ids": fact.get("sources"),
            "says": _says(window, fact["text"]),
        }
        for window in windows.to_pylist()
        for fact in _memories(window["facts_json"])
    ]
    return pa.Table.from_pylist(rows, schema=FACT_ROWS)


def _says(window: dict[str, Any], text: str) -> bytes:
    said = near_key(text) or normalise(text)
    return ids.digest(window["scope_key"], window["conversation_id"], said)
