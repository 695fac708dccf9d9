"""The rim to Ray: its batches as Arrow tables, its errors as ours."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import ray
from ray.exceptions import RayTaskError

from memorypipe.errors import MemoryPipeError

__all__ = ["arrow_batches", "own_errors"]


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
