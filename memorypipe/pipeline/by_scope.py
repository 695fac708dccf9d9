"""Both stages at once, scope by scope, in this process."""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from memorypipe.expressions.extract import MemoryExtract
from memorypipe.expressions.worker_process import worker_of
from memorypipe.pipeline.deciding import Decider, LotDecider
from memorypipe.pipeline.extraction import LotExtractor, facts_table
from memorypipe.pipeline.here import Threads
from memorypipe.pipeline.lots import Lot, in_pieces, make_lots

__all__ = ["extract_and_decide"]

# Lots that a run is cut into, where there are so many scopes.
_LOTS = 64

# Windows whose extraction is under way, in times of the requests in flight: some wait for their
# turn when others are done.
_ROWS_IN_HAND = 2


def extract_and_decide(
    windows: Sequence[str],
    extract: MemoryExtract,
    decider: Decider,
    *,
    take_facts: Callable[[pa.Table], pa.Table],
) -> Iterator[pa.Table]:
    """Decide each scope as soon as all of its windows are extracted, heavy ones first.

    A scope is decided call by call, and the one with the most calls bounds the run: it must not
    wait for the windows of all others. Its calls go before theirs.

    Args:
        windows: Parquet files of schema `memorypipe.schema.WINDOWS`, sorted by scope; a scope lies
            in one of them.
        extract: The expression; the same worker answers it and the decisions.
        decider: What the decisions need.
        take_facts: Called with tables of schema `memorypipe.schema.FACTS`, as they come; gives
            what is to be decided of them.

    Yields:
        Tables of schema `memorypipe.pipeline.scope_results.SCOPE_RESULTS`, in any order.
    """
    extraction = LotExtractor(extract.owned())
    decision = LotDecider(decider, goes_first=True).decide
    lots = make_lots(windows, at_least=_LOTS)
    pieces = [in_pieces(lot, rows=extract.block_rows) for lot in lots]
    facts: list[list[pa.Table]] = [[] for _ in lots]

    def ask(place: tuple[int, int]) -> tuple[int, pa.Table]:
        """Ask for a piece of a lot, by their numbers."""
        lot, piece = place
        return lot, extraction.ask(pieces[lot][piece])

    with Threads(extract.spec.run) as threads:
        threads.hire(_askers(pieces, extract.spec.concurrency), ask)
        threads.hire(_LOTS, decision)
        worker_of(extract.spec)  # here, so that no thread waits for it while another passes it
        for lot, its_pieces in enumerate(pieces):
            for piece in range(len(its_pieces)):
                threads.start(ask, (lot, piece))
        for work, result in threads.results():
            if work is not ask:
                yield result
                continue
            lot, asked = result
            # Checked here, one at a time: the heaviest scope has the longest way to go.
            facts[lot].append(take_facts(facts_table(asked)))
            if len(facts[lot]) == len(pieces[lot]):
                threads.start(decision, pa.concat_tables(facts[lot]))
                facts[lot] = []


def _askers(pieces: Sequence[Sequence[Lot]], concurrency: int) -> int:
    """Say how many pieces are asked at once: enough rows, and no more, since those compete."""
    count = sum(map(len, pieces))
    windows = sum(rows for lot in pieces for piece in lot for _, rows in piece.ranges)
    return min(count, -(-_ROWS_IN_HAND * concurrency * count // windows))
