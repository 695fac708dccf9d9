"""Both stages at once, scope by scope, in this process."""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from memorypipe.expressions.extract import MemoryExtract
from memorypipe.expressions.worker_process import worker_of
from memorypipe.pipeline.deciding import Decider, LotDecider
from memorypipe.pipeline.extraction import LotExtractor, facts_table
from memorypipe.pipeline.here import Threads
from memorypipe.pipeline.lots import Lot, make_lots

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
        take_facts: Called with tables of schema `memorypipe.schema.FACTS`, whole scopes, as they
            come; gives what is to be decided.

    Yields:
        Tables of schema `memorypipe.pipeline.scope_results.SCOPE_RESULTS`, in any order.
    """
    extraction = LotExtractor(extract.owned()).ask
    decision = LotDecider(decider, goes_first=True).decide
    lots = make_lots(windows, at_least=_LOTS)
    with Threads(extract.spec.run) as threads:
        threads.hire(_askers(lots, extract.spec.concurrency), extraction)
        threads.hire(_LOTS, decision)
        worker_of(extract.spec)  # here, so that no thread waits for it while another passes it
        for lot in lots:
            threads.start(extraction, lot)
        for work, result in threads.results():
            if work == extraction:
                # Checked here, one lot at a time: the heaviest scope has the longest way to go.
                threads.start(decision, take_facts(facts_table(result)))
            else:
                yield result


def _askers(lots: Sequence[Lot], concurrency: int) -> int:
    """Say how many lots are asked at once: enough rows, and no more, since those compete."""
    windows = sum(count for lot in lots for _, count in lot.ranges)
    return min(len(lots), -(-_ROWS_IN_HAND * concurrency * len(lots) // windows))
