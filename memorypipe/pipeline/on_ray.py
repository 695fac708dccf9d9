"""The rim to Ray: its batches as Arrow tables, its errors as ours."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import ray
from ray.data import ActorPoolStrategy
from ray.exceptions import RayTaskError

from memorypipe.errors import MemoryPipeError
from memorypipe.expressions.llm_base import LLMExpression
from memorypipe.expressions.options import WorkerOptions
from memorypipe.expressions.worker_errors import plainly
from memorypipe.pipeline.here import Threads
from memorypipe.pipeline.lots import Lot
from memorypipe.ray_start import ensure_ray

__all__ = [
    "PARTITION_BYTES",
    "arrow_batches",
    "asks_both",
    "fits_here",
    "in_partitions",
    "over_lots",
    "own_errors",
]

# What one worker holds of a partition; files below this are read here, since starting Ray's
# readers and a shuffle costs more than they save.
PARTITION_BYTES = 64 * 1024 * 1024

# Rows that this process works on itself: a minute of calls, beside which the two seconds that
# workers take to come up would be much.
_ROWS_HERE = 2_048

_LOTS = pa.schema(
    [
        ("path", pa.string()),
        ("ranges", pa.list_(pa.list_(pa.int64()))),
        ("scopes", pa.int64()),
        ("heaviest", pa.int64()),
    ]
)


def over_lots(  # noqa: PLR0913  # what is done, by whom and where
    lots: Sequence[Lot],
    work: Callable[[Any], Callable[[Lot], pa.Table]],
    given: Any,
    *,
    asked: LLMExpression[Any, Any],
    in_hand: int,
    here: bool,
) -> Iterator[pa.Table]:
    """Take lots, in their order, and give what comes of them as it comes.

    Workers of Ray do it; what travels is where the rows of a lot lie, not the rows.

    Args:
        lots: The lots.
        work: A class; a worker makes one object of it and calls that with lots, in many threads.
        given: What the object is made with; picklable.
        asked: The expression that the work asks: it says how many workers there are.
        in_hand: Lots that a worker has at once. Many, as each may be a single row, and the
            requests in flight come from all of them together.
        here: Whether this process does it itself, as `fits_here` says.
    """
    if not here:
        yield from _lots_on_workers(lots, work, given, asked.worker_options, in_hand)
        return
    take = work(given)
    with Threads(asked.spec.run) as threads:
        threads.hire(in_hand, take)
        for lot in lots:
            threads.start(take, lot)
        for _, result in threads.results():
            yield result


def fits_here(rows: int, asked: LLMExpression[Any, Any]) -> bool:
    """Tell whether this process had better ask for so many rows itself.

    It does where it would take longer to start a worker than to be one: there are few rows, one
    worker is wanted, and it would be on this machine anyway.
    """
    options = asked.worker_options
    if rows > _ROWS_HERE or (options.num_workers, options.num_cpus) != (1, 0):
        return False
    if not ray.is_initialized():
        if "RAY_ADDRESS" not in os.environ:
            return True
        ensure_ray()
    return sum(node["Alive"] for node in ray.nodes()) == 1  # type: ignore[no-untyped-call]


def asks_both(
    windows: int, extract: LLMExpression[Any, Any], decide: LLMExpression[Any, Any]
) -> bool:
    """Tell whether this process asks both stages about so many windows, through one worker."""
    is_same = extract.spec.key() == decide.spec.key()
    return is_same and fits_here(windows, extract) and fits_here(windows, decide)


def _lots_on_workers(
    lots: Sequence[Lot],
    work: Callable[[Any], Callable[[Lot], pa.Table]],
    given: Any,
    options: WorkerOptions,
    in_hand: int,
) -> Iterator[pa.Table]:
    ensure_ray()
    dataset = ray.data.from_arrow([pa.Table.from_pylist([asdict(lot)], _LOTS) for lot in lots])
    # Else a thread for each lot in hand looks at the memory in use, all at the same moment, once
    # a second, and holds every request up meanwhile.
    dataset.context.memory_usage_poll_interval_s = None
    yield from arrow_batches(
        dataset.map_batches(
            _OverLots,
            fn_constructor_args=(work, given),
            batch_size=None,
            batch_format="pyarrow",
            num_cpus=options.num_cpus,
            compute=ActorPoolStrategy(
                size=min(options.num_workers, len(lots)),
                max_tasks_in_flight_per_actor=in_hand,
                max_concurrent_calls_per_actor=in_hand,
                enable_true_multi_threading=True,
            ),
        )
    )


class _OverLots:
    """Reads lots as they travel."""

    def __init__(self, work: Callable[[Any], Callable[[Lot], pa.Table]], given: Any) -> None:
        self._work = work(given)

    def __call__(self, rows: pa.Table) -> Iterator[pa.Table]:
        for row in rows.to_pylist():
            ranges = tuple((start, count) for start, count in row["ranges"])
            with plainly():
                results = self._work(Lot(**{**row, "ranges": ranges}))
            yield results


def in_partitions(paths: Sequence[str], *, key: str, at_least: int) -> ray.data.Dataset:
    """Read Parquet files as a dataset in which rows of one key are in one block.

    The very next operator has to take whole blocks: a map in between would cut a key up.

    Args:
        paths: The files.
        key: Column of strings.
        at_least: Blocks wanted, where there are so many keys.
    """
    ensure_ray()
    size_bytes = _size_bytes(paths)
    if size_bytes > PARTITION_BYTES:
        partitions = max(at_least, -(-size_bytes // PARTITION_BYTES))
        return ray.data.read_parquet(list(paths)).repartition(partitions, keys=[key])
    table = _read(paths)
    keys = table[key].unique()
    block_of_row = np.asarray(pc.index_in(table[key], value_set=keys)) % at_least
    blocks = range(min(at_least, len(keys)))
    return ray.data.from_arrow([table.filter(pa.array(block_of_row == n)) for n in blocks])


def _size_bytes(paths: Sequence[str]) -> int:
    return sum(Path(path).stat().st_size for path in paths)


def _read(paths: Sequence[str]) -> pa.Table:
    return pa.concat_tables([pq.read_table(path) for path in paths])


def arrow_batches(dataset: ray.data.Dataset) -> Iterator[pa.Table]:
    """Execute a dataset and give its blocks as they come."""
    batches: Any = dataset.iter_batches(batch_size=None, batch_format="pyarrow")
    yield from batches


@contextmanager
def own_errors() -> Iterator[None]:
    """Raise our own error where Ray raises it inside a task error of a hundred lines."""
    try:
        yield
    except RayTaskError as error:
        if isinstance(error.cause, MemoryPipeError):
            raise error.cause from None
        raise
