"""Both stages at once, in this process."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from memorypipe.expressions.extract import MemoryExtract
from memorypipe.expressions.worker_process import worker_of
from memorypipe.pipeline.checking import Checker
from memorypipe.pipeline.deciding import DECIDED, Decider, LotDecider, window_facts
from memorypipe.pipeline.extraction import LotExtractor
from memorypipe.pipeline.here import Threads
from memorypipe.pipeline.lots import Lot, in_pieces, make_lots, rows_of
from memorypipe.pipeline.scope_feed import OUTLINE, ScopeFeed, earliest_times
from memorypipe.schema import WINDOWS

__all__ = ["extract_and_decide"]

# Lots that a run is cut into, where there are so many scopes.
_LOTS = 64

# Windows whose extraction is under way, in times of the requests in flight: some wait for their
# turn when others are done.
_ROWS_IN_HAND = 2

# Windows of a piece: what is found in the first of them waits for the last.
_PIECE_ROWS = 4


def extract_and_decide(
    windows: Sequence[str],
    extract: MemoryExtract,
    decider: Decider,
    *,
    checker: Checker,
    take_facts: Callable[[pa.Table], pa.Table],
) -> Iterator[pa.Table]:
    """Decide each scope while its windows are extracted.

    A scope is decided call by call, in order of time, and the one with the most calls bounds the
    run. So its first windows are extracted first, those of all heavy scopes before the rest of
    any, and its calls go before extractions.

    Args:
        windows: Parquet files of schema `memorypipe.schema.WINDOWS`, sorted by scope; a scope lies
            in one of them.
        extract: The expression; the same worker answers it and the decisions.
        decider: What the decisions need.
        checker: Checks what the model says.
        take_facts: Called with tables of schema `memorypipe.schema.FACTS`, as they come; gives
            what is to be decided of them.

    Yields:
        Tables of schema `memorypipe.pipeline.scope_results.SCOPE_RESULTS`, in any order.
    """
    extraction = LotExtractor(extract.owned())
    lots = make_lots(windows, at_least=_LOTS)
    pieces = _in_order(lots)
    files = {path: pq.ParquetFile(path).read(WINDOWS.names) for path in windows}

    def ask(piece: _Piece) -> tuple[Lot, pa.Table]:
        return piece.lot, extraction.ask(rows_of(piece.windows, files[piece.windows.path]))

    check = checker.check
    # Whatever waits for feeds or checks is let go before the threads are waited for.
    with Threads(extract.spec.run) as threads, closing(checker), closing(_Feeds()) as feeds:
        threads.hire(_askers(pieces, extract.spec.concurrency), ask)
        threads.hire(1, check)
        worker_of(extract.spec)  # here, so that no thread waits for it while another passes it
        for piece in pieces:
            threads.start(ask, piece)
        # Now, since it loads the embedder.
        decision = LotDecider(decider, goes_first=True).decide
        threads.hire(_LOTS, decision)
        begun: set[Lot] = set()
        for work, result in threads.results():
            if work is ask:
                lot, asked = result
                if lot not in begun:
                    begun.add(lot)
                    threads.start(decision, feeds.begin(rows_of(lot, files[lot.path])))
                threads.start(check, asked)
            elif work is check:
                for row in take_facts(result).select(DECIDED).to_pylist():
                    feeds[row["scope_key"]].put(window_facts(0, row, decider.carried))
            else:
                yield result


class _Feeds(dict[str, ScopeFeed]):
    """The scopes under way, by their keys."""

    def begin(self, windows: pa.Table) -> list[ScopeFeed]:
        """Begin whole scopes of schema `memorypipe.schema.WINDOWS`."""
        by_scope: dict[str, list[dict[str, Any]]] = {}
        for row in windows.select(OUTLINE).to_pylist():
            by_scope.setdefault(row["scope_key"], []).append(row)
        earliest = earliest_times(windows)
        begun = {key: ScopeFeed(rows, earliest) for key, rows in by_scope.items()}
        self.update(begun)
        return list(begun.values())

    def close(self) -> None:
        """Say that no more will come."""
        for feed in self.values():
            feed.give_up()


class _Piece(NamedTuple):
    """Windows that are asked together.

    Attributes:
        lot: Their lot.
        windows: Where they are.
        behind: Windows of its heaviest scope that none before it has.
    """

    lot: Lot
    windows: Lot
    behind: int


def _in_order(lots: Sequence[Lot]) -> list[_Piece]:
    """Cut lots into pieces, those first that most windows of one scope have to wait for."""
    pieces: list[_Piece] = []
    for lot in lots:
        behind = lot.heaviest
        for windows in in_pieces(lot, rows=_PIECE_ROWS):
            pieces.append(_Piece(lot, windows, behind))
            if lot.scopes == 1:
                behind -= _rows(windows)
    return sorted(pieces, key=lambda piece: -piece.behind)


def _rows(lot: Lot) -> int:
    return sum(count for _, count in lot.ranges)


def _askers(pieces: Sequence[_Piece], concurrency: int) -> int:
    """Say how many pieces are asked at once: enough rows, and no more, since those compete."""
    windows = sum(_rows(piece.windows) for piece in pieces)
    return min(len(pieces), -(-_ROWS_IN_HAND * concurrency * len(pieces) // windows))
