"""Errors of ours on their way from a worker to the user."""

from collections.abc import Iterator
from contextlib import contextmanager

from ray.data import DataContext

from memorypipe.errors import MemoryPipeError

__all__ = ["plainly"]


@contextmanager
def plainly() -> Iterator[None]:
    """Let errors of ours leave a worker as they are.

    Ray Data wraps what a function raises in an error of its own, and the cause is lost when that
    is pickled: the driver would see neither class nor attributes. Told to raise the original, it
    gives the driver an error that is of our class too, so `except EndpointError` works.
    """
    try:
        yield
    except MemoryPipeError:
        DataContext.get_current().raise_original_map_exception = True
        raise
