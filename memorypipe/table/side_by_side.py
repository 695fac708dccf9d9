"""Doing independent work at once, in threads: Arrow, numpy and Lance mostly need no Python lock."""

import functools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

__all__ = ["WORKERS", "begun", "in_two", "side_by_side"]

Result = TypeVar("Result")
Other = TypeVar("Other")

WORKERS: Final = min(4, os.cpu_count() or 1)
"""How many threads work at once: more would only hold more rows in memory."""

# With fewer, reckoning is done before a thread has begun.
_MANY_ROWS: Final = 1 << 11


def side_by_side(works: Sequence[Callable[[], Result]]) -> list[Result]:
    """Do independent work, as much at once as there are workers.

    Args:
        works: What to do; each is done, whatever becomes of the others.

    Returns:
        What they return, in their order.

    Raises:
        Exception: What the first of them raises that does.

    Example:
        >>> side_by_side([lambda: 1, lambda: 2])
        [1, 2]
    """
    if len(works) == 1 or WORKERS == 1:
        return [work() for work in works]
    with ThreadPoolExecutor(WORKERS) as pool:
        return [running.result() for running in [pool.submit(work) for work in works]]


def begun(work: Callable[[], Result], *, rows: int) -> Callable[[], Result]:
    """Begin with work whose result is needed later.

    Args:
        work: What to do; of few rows it is done when its result is asked for.
        rows: How many it is about.

    Returns:
        What waits for the result, and gives it; it raises what the work does.

    Example:
        >>> begun(lambda: 1, rows=1_000_000)()
        1
    """
    if WORKERS == 1 or rows < _MANY_ROWS:
        return functools.cache(work)
    pool = ThreadPoolExecutor(1)
    running = pool.submit(work)
    pool.shutdown(wait=False)
    return running.result


def in_two(
    work: Callable[[], Result], other: Callable[[], Other], *, rows: int = _MANY_ROWS
) -> tuple[Result, Other]:
    """Do two things at once, the second in this thread.

    Args:
        work: The first; of few rows it is done before the second.
        other: The second.
        rows: How many they are about, for works that only reckon.

    Raises:
        Exception: What the second raises, else what the first does.

    Example:
        >>> in_two(lambda: 1, lambda: "b")
        (1, 'b')
    """
    if WORKERS == 1 or rows < _MANY_ROWS:
        return work(), other()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work)
        result = other()
        return running.result(), result
