"""From windows to facts: what a worker does, wherever it is, and all of them."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from memorypipe.expressions.extract import MemoryExtract
from memorypipe.expressions.ray_rules import MAX_BLOCKS_IN_HAND
from memorypipe.expressions.results import status_column
from memorypipe.pipeline.extracted import EXTRACTED, facts_table
from memorypipe.pipeline.lots import Lot, cut_lots, read_lot
from memorypipe.pipeline.on_ray import over_lots
from memorypipe.schema import WINDOWS

__all__ = ["LotExtractor", "extract_facts"]


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
        return facts_table(self.ask(read_lot(lot, WINDOWS.names)))

    def ask(self, windows: pa.Table) -> pa.Table:
        """Give windows with what the model says of them, which nobody has checked."""
        results = self._extract.results(
            windows["messages"], windows["context"], windows["scope_key"]
        )
        return windows.append_column(EXTRACTED, status_column(results))
