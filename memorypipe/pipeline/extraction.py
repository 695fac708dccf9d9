"""From windows to facts: what a worker does, wherever it is, and all of them."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from memorypipe.expressions.extract import MemoryExtract
from memorypipe.expressions.ray_rules import MAX_BLOCKS_IN_HAND
from memorypipe.expressions.results import status_column
from memorypipe.logs.windows import new_message_ids
from memorypipe.pipeline.lots import Lot, cut_lots, read_lot
from memorypipe.pipeline.on_ray import over_lots
from memorypipe.pipeline.scopes.fact_checks import check_facts
from memorypipe.schema import FACTS, WINDOWS

__all__ = ["EXTRACTED", "LotExtractor", "extract_facts", "facts_table"]

EXTRACTED = "extracted"


def extract_facts(
    windows: Sequence[str], extract: MemoryExtract, *, here: bool
) -> Iterator[pa.Table]:
    """Extract the facts of windows, all at once, and give them as they come.

    Workers read the windows themselves and check the facts, so that the rest of the run has
    neither transcripts nor their checks to carry.

    Args:
        windows: Parquet files of schema `memorypipe.schema.WINDOWS`.
        extract: The expression.
        here: Whether this process does it itself.

    Yields:
        Tables of schema `memorypipe.schema.FACTS`, one row per window, in any order.
    """
    lots = cut_lots(windows, rows=extract.block_rows)
    yield from over_lots(
        lots,
        LotExtractor,
        extract.owned(),
        asked=extract,
        in_hand=MAX_BLOCKS_IN_HAND,
        here=here,
    )


class LotExtractor:
    """Extracts the facts of a lot of windows; many threads call it at once.

    Args:
        extract: The expression, which knows its owner.
    """

    def __init__(self, extract: MemoryExtract) -> None:
        self._extract = extract

    def __call__(self, lot: Lot) -> pa.Table:
        """Extract a lot; give a table of schema `memorypipe.schema.FACTS`."""
        return facts_table(self.ask(lot))

    def ask(self, lot: Lot) -> pa.Table:
        """Give the windows of a lot with what the model says of them, which nobody has checked."""
        windows = read_lot(lot, WINDOWS.names)
        results = self._extract.results(
            windows["messages"], windows["context"], windows["scope_key"]
        )
        return windows.append_column(EXTRACTED, status_column(results))


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
