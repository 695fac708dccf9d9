"""Work in threads of this process: a small run ends before processes of its own have come up."""

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from memorypipe.llm.worker import close_workers_of

__all__ = ["Threads", "spared_collector"]

_LOOK_S = 0.1

_Work = Callable[..., Any]


class Threads:
    """Threads that work for one run, each on one thing at a time.

    Where the block ends early, by an error or an interrupt, what they are at is cancelled.

    Args:
        run: Whose workers are closed then; None: they belong to nobody alone.
    """

    def __init__(self, run: str | None) -> None:
        self._run = run
        self._pools: dict[_Work, ThreadPoolExecutor] = {}
        self._works: dict[Future[Any], _Work] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
        while left := [work for work in self._works if not work.done()]:
            if self._run is not None:
                close_workers_of(self._run, is_over=True)
            wait(left, timeout=_LOOK_S)

    def hire(self, count: int, work: _Work) -> None:
        """Have so many threads for one kind of work."""
        self._pools[work] = ThreadPoolExecutor(count, "memorypipe-work")

    def start(self, work: _Work, given: Any) -> None:
        """Let one of them do it, as soon as one is free; what was started first goes first."""
        self._works[self._pools[work].submit(work, given)] = work

    def results(self) -> Iterator[tuple[_Work, Any]]:
        """Give what was done with what came of it, as it comes, until nothing is left to do.

        More may be started meanwhile. Of what is done at the same time what was started first
        comes first.
        """
        while self._works:
            wait(self._works, return_when=FIRST_COMPLETED)
            done = next(future for future in self._works if future.done())
            yield self._works.pop(done), done.result()


@contextmanager
def spared_collector() -> Iterator[None]:
    """Let the garbage collector leave alone what is loaded by now, until the end of the block.

    It looks through all of it now and then, which takes tenths of a second where much is loaded,
    and no request starts or is read meanwhile. A process that has set something aside from the
    collector by itself is left as it is.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
