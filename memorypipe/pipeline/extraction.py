"""From windows to facts, on Ray."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from ray.data.expressions import col

from memorypipe.expressions.extract import MemoryExtract
from memorypipe.logs.windows import new_message_ids
from memorypipe.pipeline.fact_checks import check_facts
from memorypipe.pipeline.on_ray import arrow_batches, as_dataset
from memorypipe.schema import FACTS

__all__ = ["EXTRACTED", "extract_facts", "facts_table"]

EXTRACTED = "extracted"


def extract_facts(windows: Sequence[str], extract: MemoryExtract) -> Iterator[pa.Table]:
    """Extract the facts of windows, all at once, and give them as they come.

    Args:
        windows: Parquet files of schema `memorypipe.schema.WINDOWS`.
        extract: The expression.

    Yields:
        Tables of schema `memorypipe.schema.FACTS`, one row per window, in any order.
    """
    extracted = as_dataset(windows).with_column(
        EXTRACTED, extract.with_status(col("messages"), col("context"), scope_key=col("scope_key"))
    )
    for batch in arrow_batches(extracted):
        yield facts_table(batch)


def facts_table(batch: pa.Table) -> pa.Table:
    """Lay windows with their status struct out as `memorypipe.schema.FACTS`."""
    rows = batch.drop_columns(["context"]).to_pylist()
    return pa.Table.from_pylist([_facts_row(row) for row in rows], schema=FACTS)


def _facts_row(row: dict[str, Any]) -> dict[str, Any]:
    status = row.pop(EXTRACTED)
    facts_json = status.pop("value")
    times = {message["id"]: message["timestamp"] for message in row["messages"]}
    message_ids = new_message_ids(row)
    flags: list[dict[str, Any]] = []
    if facts_json is not None:
        facts_json, flags = check_facts(facts_json, row["messages"])
    return {
        **row,
        **status,
        "message_ids": message_ids,
        "message_times": [times[message_id] for message_id in message_ids],
        "facts_json": facts_json,
        "flags": flags,
    }
