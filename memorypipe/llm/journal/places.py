"""Where replies are: small and recent indexes merged in memory, big ones mapped."""

from collections.abc import Iterator, Mapping, Sequence
from threading import Lock

import numpy as np

from memorypipe.llm.journal.index import OFFSET_BITS, Index, Run, find_in, join_runs, make_run
from memorypipe.llm.journal.lines import evidence_key

__all__ = ["Places"]

# Entries of a dictionary, at some 150 bytes each, before they are sorted into 16 bytes each.
_FOLD_ENTRIES = 1 << 16
_OFFSET_MASK = (1 << OFFSET_BITS) - 1
_ENTRY_BYTES = 16


class Places:
    """Places of replies: number of the segment, offset in it.

    One thread may add while another one finds and adds: what could be found once can be found at
    any moment.
    """

    def __init__(self) -> None:
        self._changing = Lock()
        self._fresh: dict[str, int] = {}
        self._runs: tuple[Run, ...] = ()
        self._mapped: tuple[tuple[Run, Sequence[int]], ...] = ()

    def __len__(self) -> int:
        runs = (*self._runs, *(run for run, _ in self._mapped))
        return len(self._fresh) + sum(len(run.halves) for run in runs)

    @property
    def memory_bytes(self) -> int:
        """Size of what is sorted in memory."""
        return _ENTRY_BYTES * sum(len(run.halves) for run in self._runs)

    def find(self, key: str) -> Iterator[tuple[int, int]]:
        """Give the places that a key may be at: segment and offset; the line itself decides."""
        fresh = self._fresh.get(key)
        if fresh is not None:
            yield fresh >> OFFSET_BITS, fresh & _OFFSET_MASK
        half = int(key[:16], 16)
        for run in self._runs:
            for place in find_in(run, half):
                yield place >> OFFSET_BITS, place & _OFFSET_MASK
        for run, numbers in self._mapped:
            for place in find_in(run, half):
                yield numbers[place >> OFFSET_BITS], place & _OFFSET_MASK

    def candidates(self, key: str, *, unusable: bool) -> Iterator[tuple[int, int, bool]]:
        """Give where a reply may be: segment, offset, and whether it would be an unusable one.

        Args:
            key: Of the request.
            unusable: Whether unusable replies are looked for, after the usable ones.
        """
        for segment, offset in self.find(key):
            yield segment, offset, False
        if unusable:
            for segment, offset in self.find(evidence_key(key)):
                yield segment, offset, True

    def add(self, segment: int, offsets: Mapping[str, int]) -> None:
        """Add keys of one segment."""
        for key, offset in offsets.items():
            self.put(key, segment, offset)

    def put(self, key: str, segment: int, offset: int) -> None:
        """Add one key."""
        with self._changing:
            self._fresh[key] = segment << OFFSET_BITS | offset
            if len(self._fresh) >= _FOLD_ENTRIES:
                # First there, then no more here: `find` looks here first.
                self._take(make_run(self._fresh))
                self._fresh = {}

    def load(self, indexes: Sequence[tuple[Index, Sequence[int]]]) -> None:
        """Copy indexes into memory, each with the numbers of its segments here."""
        parts = [_renumbered(index.run, numbers) for index, numbers in indexes]
        if parts:
            joined = join_runs(parts)
            with self._changing:
                self._take(joined)

    def map(self, indexes: Sequence[tuple[Index, Sequence[int]]]) -> None:
        """Take these mapped indexes in the place of those before."""
        self._mapped = tuple((index.run, numbers) for index, numbers in indexes)

    def _take(self, run: Run) -> None:
        """Merge with the runs that are no bigger, so that their number grows as a logarithm."""
        runs = list(self._runs)
        while runs and len(runs[-1].halves) <= 2 * len(run.halves):
            run = join_runs([runs.pop(), run])
        self._runs = (*runs, run)


def _renumbered(run: Run, numbers: Sequence[int]) -> Run:
    shifted = np.array(numbers, np.uint64) << np.uint64(OFFSET_BITS)
    segments = (run.places >> np.uint64(OFFSET_BITS)).astype(np.intp)
    return Run(halves=run.halves, places=shifted[segments] | (run.places & np.uint64(_OFFSET_MASK)))
