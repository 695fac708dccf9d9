"""The rim to Ray: its batches as Arrow tables, its errors as ours."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import ray
from ray.exceptions import RayTaskError

from memorypipe.errors import MemoryPipeError

__all__ = ["PARTITION_BYTES", "arrow_batches", "as_dataset", "in_partitions", "own_errors"]

# What one worker holds of a partition; files below this are read here, since starting Ray's
# readers and a shuffle costs more than they save.
PARTITION_BYTES = 64 * 1024 * 1024


def as_dataset(paths: Sequence[str]) -> ray.data.Dataset:
    """Read Parquet files as a dataset; its blocks are cut where workers take them."""
    if _size_bytes(paths) > PARTITION_BYTES:
        return ray.data.read_parquet(list(paths))
    return ray.data.from_arrow(_read(paths))


def in_partitions(paths: Sequence[str], *, key: str, at_least: int) -> ray.data.Dataset:
    """Read Parquet files as a dataset in which rows of one key are in one block.

    The very next operator has to take whole blocks: a map in between would cut a key up.

    Args:
        paths: The files.
        key: Column of strings.
        at_least: Blocks wanted, where there are so many keys.
    """
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
