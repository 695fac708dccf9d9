"""Writers of one table take turns, so that they do not work only to lose to one another.

Of several commits that are built against one version, one lands and the others are built anew.
Turns are manners and nothing else: what keeps commits apart is the compare-and-swap of the back
end, and a writer whose turn does not come goes on without it.
"""

import fcntl
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from memorypipe.table.erasing.files import local_folder

__all__ = ["back_off_s", "turn"]

# Several times what a small commit takes: a big one, or one that is suspended, holds nobody up.
_PATIENCE_S = 5.0
# Between two looks, and so for how long nobody may be at work.
_LOOK_S = 0.005
# In an object store, for the first lost race; a commit there takes several requests.
_STEP_S = 0.1
_MOST_STEPS = 32

# The tables at which who asks has the turn: a commit inside of another does not wait for that.
_held: ContextVar[frozenset[str]] = ContextVar("held", default=frozenset())


@contextmanager
def turn(uri: str, races: int, *, patience_s: float = _PATIENCE_S) -> Iterator[None]:
    """Wait for a turn at a table, and have it until the end of the block.

    In a folder a turn is a lock on the folder itself: nothing is written, and the system takes it
    back from who is killed. Where there are no locks, who lost a race waits a while, at random and
    longer each time.

    Args:
        uri: Of the table.
        races: How many the commit has lost.
        patience_s: After so long it goes on without a turn.
    """
    if uri in _held.get():
        yield
        return
    handle = _opened(uri)
    token = _held.set(_held.get() | {uri})
    try:
        if handle is None or not _waited(handle, patience_s):
            time.sleep(back_off_s(races))
        yield
    finally:
        _held.reset(token)
        if handle is not None:
            with suppress(OSError):
                # A process forked meanwhile has the handle too: closing is not enough.
                fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)


def back_off_s(races: int) -> float:
    """Say how long who lost so many races waits: at random, so that two do not meet again."""
    if not races:
        return 0.0
    return random.uniform(0, _STEP_S * min(2 ** (races - 1), _MOST_STEPS))  # noqa: S311  # no secret


def _opened(uri: str) -> int | None:
    folder = local_folder(uri)
    if folder is None:
        return None
    try:
        return os.open(folder, os.O_RDONLY)
    except OSError:
        return None


def _waited(handle: int, patience_s: float) -> bool:
    """Wait for the lock, or until patience runs out; False where there are no locks."""
    until = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return True
            time.sleep(_LOOK_S)
        except OSError:
            return False
        else:
            return True
