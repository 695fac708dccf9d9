"""Rows that come in any order, put in order on disk: memory holds a part of them at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Sorter"]

# Sorting takes as much again.
_RUN_BYTES = 64 * 1024 * 1024

_READ_BYTES = 1024 * 1024


class Sorter:
    """Sorts rows, whatever their number; those that memory does not hold wait in files.

    Rows that are equal in the first column are a group and stay together. What comes out depends
    on the rows alone, not on the order or the tables in which they came, where `by` tells all of
    them apart.

    Args:
        folder: A folder of its own for files that lie there meanwhile; it need not exist, and is
            gone once all rows were given.
        schema: Of the rows; the columns of `by` are what pyarrow can sort.
        by: Columns to sort by, nulls last. The first is a string column without nulls.
        run_bytes: Bytes that wait in memory before they go to disk, as one sorted run.
        read_bytes: What is read of a run at a time while all of them are merged.

    Example:
        >>> import tempfile
        >>> sorter = Sorter(Path(tempfile.mkdtemp()), pa.schema([("k", pa.string())]), by=["k"])
        >>> for batch in (["c", "a"], ["b", "a"]):
        ...     sorter.add(pa.table({"k": batch}))
        >>> [group["k"].to_pylist() for group in sorter.groups(least_rows=1)]
        [['a', 'a'], ['b'], ['c']]
    """

    def __init__(
        self,
        folder: Path,
        schema: pa.Schema,
        *,
        by: Sequence[str],
        run_bytes: int = _RUN_BYTES,
        read_bytes: int = _READ_BYTES,
    ) -> None:
        self._folder = folder
        self._schema = schema
        self._by = [(name, "ascending") for name in by]
        self._run_bytes = run_bytes
        self._read_bytes = read_bytes
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0
        self._runs: list[Path] = []

    def add(self, rows: pa.Table) -> None:
        """Take rows in."""
        self._waiting.append(rows.select(self._schema.names).cast(self._schema))
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes >= self._run_bytes:
            self._write_run()

    def groups(self, *, least_rows: int) -> Iterator[pa.Table]:
        """Give all rows in order, once.

        Args:
            least_rows: A table ends with the group in which it reaches so many rows; the last
                one may have fewer.
        """
        left = self._schema.empty_table()
        for rows in self._in_order():
            left = pa.concat_tables([left, rows])
            while left.num_rows > least_rows:
                end = _group_end(left[self._by[0][0]], least_rows - 1)
                if end == left.num_rows:
                    break
                yield left.slice(0, end).combine_chunks()
                left = left.slice(end)
        if left.num_rows:
            yield left.combine_chunks()

    def _write_run(self) -> None:
        run = self._sorted(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"run-{len(self._runs):06d}.arrow"
        rows_at_once = max(1, self._read_bytes * run.num_rows // max(1, run.nbytes))
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_stream(path, self._schema, options=options) as sink:
            sink.write_table(run, max_chunksize=rows_at_once)
        self._runs.append(path)

    def _sorted(self, tables: Sequence[pa.Table]) -> pa.Table:
        rows = pa.concat_tables(tables).combine_chunks()
        keys = rows.select([name for name, _ in self._by])
        places = pc.sort_indices(keys, sort_keys=self._by)
        return rows.take(places).combine_chunks()

    def _in_order(self) -> Iterator[pa.Table]:
        """Give tables of whole groups, in order."""
        if not self._runs:
            if self._waiting:
                yield self._sorted(self._waiting)
            self._waiting = []
            return
        if self._waiting:
            self._write_run()
        yield from self._merged()
        for path in self._runs:
            path.unlink()
        self._runs = []
        self._folder.rmdir()

    def _merged(self) -> Iterator[pa.Table]:
        key = self._by[0][0]
        runs = [_Run(path, key) for path in self._runs]
        while runs:
            for run in runs:
                run.fill()
            # What is below the last key of every run that has more to come is here as a whole.
            bound = min((run.last for run in runs if not run.ended), default=None)
            ready = [taken for run in runs if (taken := run.take_below(bound)).num_rows]
            if ready:
                yield self._sorted(ready)
            else:
                # A group is longer than what is read at a time.
                for run in runs:
                    if not run.ended and run.last == bound:
                        run.read_on()
            runs = [run for run in runs if run.rows.num_rows or not run.ended]


class _Run:
    """One sorted file, read from its beginning to its end."""

    def __init__(self, path: Path, key: str) -> None:
        self._key = key
        self._reader = pa.ipc.open_stream(pa.OSFile(str(path)))
        self.ended = False
        self.rows: pa.Table = self._reader.schema.empty_table()

    def fill(self) -> None:
        """Have rows in hand, unless there are no more."""
        while not self.ended and not self.rows.num_rows:
            self.read_on()

    def read_on(self) -> None:
        """Take a few more rows in hand."""
        try:
            batch = self._reader.read_next_batch()
        except StopIteration:
            self.ended = True
            self._reader.close()
            return
        self.rows = pa.concat_tables([self.rows, pa.Table.from_batches([batch])])

    @property
    def last(self) -> str:
        """The key of the last row in hand."""
        key: str = self.rows[self._key][-1].as_py()
        return key

    def take_below(self, bound: str | None) -> pa.Table:
        """Give away the rows below a key; all, where it is None."""
        end = self.rows.num_rows
        if bound is not None:
            below = pc.sum(pc.less(self.rows[self._key], pa.scalar(bound, pa.string())))
            end = below.as_py() or 0
        taken = self.rows.slice(0, end)
        self.rows = self.rows.slice(end)
        return taken


def _group_end(keys: pa.ChunkedArray, place: int) -> int:
    """Give the place after the last row of the group that a row is in."""
    same = pc.equal(keys, keys[place])
    end: int = place + (pc.sum(same.slice(place)).as_py() or 0)
    return end
