"""What the model said of windows, checked against what stands in them. Pure."""

from typing import Any

import pyarrow as pa

from memorypipe.logs.windows import new_message_ids
from memorypipe.pipeline.scopes.fact_checks import check_facts
from memorypipe.schema import FACTS

__all__ = ["EXTRACTED", "facts_table"]

EXTRACTED = "extracted"
"""The column that is beside those of `memorypipe.schema.WINDOWS`: the status struct."""


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
